package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

const (
	upgradedFunctions = 12
	upgradedAtATime   = 5 // the default of runtimeUpgrade.maxConcurrent
	// tells answers with the mark of the runtime image that it runs on.
	tells = "import os\ndef handle(event):\n    return os.environ.get('MARK', 'first')\n"
	// refuses does not load on the second one.
	refuses = "import os\nif os.environ.get('MARK') == 'second':\n    raise RuntimeError('not on this one')\n" + tells
)

// The catalogue names another image for a runtime: twelve Functions under load come to it, few at a time, and no call is lost. One does
// not start on it and stays where it was. Then the catalogue goes back, for which nothing is built.
func TestRuntimeUpgrade(t *testing.T) {
	t.Parallel()
	namespaces := []string{newNamespace(t), newNamespace(t)}
	runtime := "test-" + namespaces[0][len("e2e-"):]
	first := catalogueImage(t, "python3.11")
	second := changedImage(t, first, must(name.NewDigest(first, name.Insecure)).Context(), func(config *v1.Config) {
		config.Env = append(config.Env, "MARK=second")
	})
	useRuntime(t, runtime, first)
	var functions []client.ObjectKey
	for i := range upgradedFunctions {
		key := client.ObjectKey{Namespace: namespaces[i%2], Name: fmt.Sprintf("f%02d", i)}
		code := tells
		if i == 3 {
			code = refuses
		}
		apply(t, key.Namespace, function(key.Name, runtime, map[string]string{"handler.py": code})+httpTrigger(key.Name))
		functions = append(functions, key)
	}
	for _, key := range functions {
		waitFunction(t, key.Namespace, key.Name, "True", v1alpha1.ReasonReady)
	}
	calls := startCalls(t, functions)
	before := imagesOf(t, functions)

	began := time.Now()
	useRuntime(t, runtime, second)
	most := awaitUpgrade(t, functions, func(status *v1alpha1.FunctionStatus) bool {
		return status.RuntimeVersion == second || status.RuntimeHeld == second
	})
	t.Logf("%d Functions came to the new image, at most %d at a time, in %s", len(functions), most, time.Since(began).Round(time.Second))
	if most > upgradedAtATime {
		t.Errorf("%d were upgraded at a time, want at most %d", most, upgradedAtATime)
	}
	for i, key := range functions {
		want := "second"
		f := waitFunction(t, key.Namespace, key.Name, "True", v1alpha1.ReasonReady)
		if i == 3 {
			want = "first"
			ready, _ := condition(f.Status.Conditions, f.Generation)
			if f.Status.RuntimeVersion != first || !strings.Contains(ready.Message, "not on this one") {
				t.Errorf("the one that does not start says %q and is on %s", ready.Message, f.Status.RuntimeVersion)
			}
		}
		if got := mustCall(t, "GET", key.Namespace, key.Name, "", "", 200); got.body != want {
			t.Errorf("%s answers %q, want %q", key, got.body, want)
		}
	}

	began = time.Now()
	useRuntime(t, runtime, first)
	awaitUpgrade(t, functions, func(status *v1alpha1.FunctionStatus) bool {
		return status.RuntimeVersion == first && status.RuntimeHeld == ""
	})
	t.Logf("they went back in %s", time.Since(began).Round(time.Second))
	for key, image := range imagesOf(t, functions) {
		if image != before[key] {
			t.Errorf("%s was on %s and is on %s: the same code and runtime give the same image", key, before[key], image)
		}
	}
	calls.judge(t)
}

func imagesOf(t *testing.T, functions []client.ObjectKey) map[client.ObjectKey]string {
	t.Helper()
	images := map[client.ObjectKey]string{}
	for _, key := range functions {
		images[key] = waitFunction(t, key.Namespace, key.Name, "True", v1alpha1.ReasonReady).Status.Image
	}
	return images
}

// awaitUpgrade waits until all Functions are where they should be and none is on its way, and returns how many were at a time.
func awaitUpgrade(t *testing.T, functions []client.ObjectKey, there func(*v1alpha1.FunctionStatus) bool) (most int) {
	t.Helper()
	eventually(t, "all are upgraded", func() error {
		var all v1alpha1.FunctionList // at one moment
		if err := kube.List(t.Context(), &all); err != nil {
			return err
		}
		going, left := 0, []string{}
		for i := range all.Items {
			f := &all.Items[i]
			key := client.ObjectKeyFromObject(f)
			if !slices.Contains(functions, key) {
				continue
			}
			// Of a gateway that comes or goes, as other tests have it, a Function may tell.
			ready, err := condition(f.Status.Conditions, f.Generation)
			if told := err == nil && ready.Reason == v1alpha1.ReasonRouting && platformIsReplaced(t); !told && (err != nil || ready.Status != "True") {
				t.Errorf("%s is %+v, %v", key, ready, err)
			}
			onItsWay := f.Status.Upgrade != nil && f.Status.Upgrade.StartedAt != nil
			if onItsWay {
				going++
			}
			if onItsWay || !there(&f.Status) {
				left = append(left, key.Name)
			}
		}
		most = max(most, going)
		if len(left) > 0 {
			return fmt.Errorf("left are %v", left)
		}
		return nil
	})
	return most
}

// catalogueImage is the image of a runtime in the operator's configuration.
func catalogueImage(t *testing.T, runtime string) string {
	t.Helper()
	for _, entry := range readPlatform(t).Runtimes {
		if entry.Name == runtime {
			return entry.Image
		}
	}
	t.Fatalf("no runtime %s in the catalogue", runtime)
	return ""
}

// useRuntime names an image for a runtime of the test's own in the operator's configuration until the test ends, and restarts it.
func useRuntime(t *testing.T, runtime, image string) {
	t.Helper()
	setCatalogue := func(ctx context.Context, lines string) error {
		object := &corev1.ConfigMap{}
		if err := kube.Get(ctx, clientKey(names.SystemNamespace, "sless-config"), object); err != nil {
			return err
		}
		var kept []string
		for line := range strings.Lines(object.Data["config.yaml"]) {
			if !strings.HasSuffix(line, "# "+runtime+"\n") {
				kept = append(kept, line)
			}
			if line == "runtimes:\n" && lines != "" {
				kept = append(kept, lines)
			}
		}
		object.Data["config.yaml"] = strings.Join(kept, "")
		return kube.Update(ctx, object)
	}
	entry := fmt.Sprintf("- {name: %s, language: python, image: %q} # %s\n", runtime, image, runtime)
	t.Cleanup(func() {
		if err := setCatalogue(context.Background(), ""); err != nil {
			t.Errorf("take the runtime out of the catalogue: %v", err)
		}
	})
	eventually(t, "change the catalogue", func() error { return setCatalogue(t.Context(), entry) })
	restart(t, "operator")
}

// calls is a load on Functions: each is called again and again.
type calls struct {
	all          sync.WaitGroup
	quit         chan struct{}
	sent, failed atomic.Int64
	mu           sync.Mutex
	failures     []string // guarded by mu
}

func startCalls(t *testing.T, functions []client.ObjectKey) *calls {
	c := &calls{quit: make(chan struct{})}
	for _, key := range functions {
		c.all.Go(func() {
			for {
				if err := c.once(gateway + names.FunctionPath(key.Namespace, key.Name)); err != nil {
					c.failed.Add(1)
					c.mu.Lock()
					c.failures = append(c.failures, fmt.Sprintf("%s %s: %v", time.Now().Format(time.TimeOnly), key, err))
					c.mu.Unlock()
				}
				c.sent.Add(1)
				select {
				case <-c.quit:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	t.Cleanup(c.stop)
	return c
}

func (c *calls) once(url string) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("%d %s, %v", response.StatusCode, body, err)
	}
	return nil
}

func (c *calls) stop() {
	select {
	case <-c.quit:
	default:
		close(c.quit)
	}
	c.all.Wait()
}

func (c *calls) judge(t *testing.T) {
	t.Helper()
	c.stop()
	t.Logf("of %d calls %d failed", c.sent.Load(), c.failed.Load())
	if len(c.failures) > 0 {
		t.Errorf("calls failed: %s", strings.Join(c.failures[:min(len(c.failures), 10)], "\n"))
	}
}
