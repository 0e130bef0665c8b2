package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// traffic sends requests at a steady rate, whether or not those before are answered, until it is stopped, and for no longer than five minutes.
type traffic struct {
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex // guards what follows
	sent     int
	answered map[string]int
	failures []string
	slowest  time.Duration
}

// request is one of those that traffic sends.
type request struct{ method, rest, body, want string }

// send starts traffic: each request in turn, so many in all a second.
func send(t *testing.T, namespace, name string, perSecond int, requests ...request) *traffic {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	f := &traffic{stop: stop, done: make(chan struct{}), answered: map[string]int{}}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 100
	caller := &http.Client{Transport: transport, Timeout: 2 * time.Minute}
	go func() {
		defer close(f.done)
		defer transport.CloseIdleConnections()
		ticker := time.NewTicker(time.Second / time.Duration(perSecond))
		defer ticker.Stop()
		var all sync.WaitGroup
		defer all.Wait()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			all.Go(func() { f.one(caller, gateway+names.FunctionPath(namespace, name), requests[n%len(requests)]) })
		}
	}()
	t.Cleanup(func() { f.end() })
	return f
}

func (f *traffic) one(caller *http.Client, url string, r request) {
	began := time.Now()
	problem := func() string {
		out, err := http.NewRequest(r.method, url+r.rest, bytes.NewReader([]byte(r.body)))
		if err != nil {
			return err.Error()
		}
		response, err := caller.Do(out)
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK || string(text) != r.want {
			return fmt.Sprintf("%d %.300q %v", response.StatusCode, text, err)
		}
		return ""
	}()
	took := time.Since(began)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent++
	f.slowest = max(f.slowest, took)
	if problem != "" {
		f.failures = append(f.failures, fmt.Sprintf("%s %s%s, sent at %s: %s", r.method, url, r.rest, began.Format("15:04:05.000"), problem))
		return
	}
	f.answered[r.rest]++
}

// end stops it and waits for the last answer.
func (f *traffic) end() {
	f.stop()
	<-f.done
}

// replacing is held by tests while they replace programs so that others notice: an apiserver that goes ends waits early, and an operator that was
// killed has no log until the next has begun, and leaves work half done. Whom that disturbs holds it for reading.
var replacing sync.RWMutex

// restart gives a Deployment of the platform other pods and waits until these run. kubectl rollout restart would fail when another test did the
// same within the second.
func restart(t *testing.T, deployment string) {
	t.Helper()
	kubectl(t, "", "patch", "deployment", deployment, "-n", names.SystemNamespace, "--type=merge", "-p",
		fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, time.Now().Format(time.RFC3339Nano)))
	rolledOut(t, deployment)
}

// rolledOut waits until the pods of a Deployment of the platform are of its present version.
func rolledOut(t *testing.T, deployment string) {
	t.Helper()
	kubectl(t, "", "rollout", "status", "deployment/"+deployment, "-n", names.SystemNamespace, "--timeout="+patience.String())
}

// rollOut restarts a Deployment of the platform and waits until its old pods are gone.
func rollOut(t *testing.T, deployment string) {
	t.Helper()
	restart(t, deployment)
	oldPodsGone(t, deployment)
}

// oldPodsGone waits until no pod of a Deployment of the platform ends any more.
func oldPodsGone(t *testing.T, deployment string) {
	t.Helper()
	eventually(t, "the old pods of "+deployment+" are gone", func() error {
		var pods corev1.PodList
		if err := kube.List(t.Context(), &pods, client.InNamespace(names.SystemNamespace), client.MatchingLabels{"app.kubernetes.io/name": deployment}); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if !pod.DeletionTimestamp.IsZero() {
				return fmt.Errorf("%s still ends", pod.Name)
			}
		}
		return nil
	})
}

// While gateway, operator and function are rolled and the function is scaled, every request is answered, those that take long as well.
func TestNoRequestIsLost(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	manifest := func(greeting string) string {
		return python("steady", `import time
def handle(event):
    if event['path'] == '/slow':
        time.sleep(5)
    return event['body'] or 'fine'
`, "timeoutSeconds: 60", "concurrency: 40", "replicas: 2", "env: [{name: GREETING, value: "+greeting+"}]")
	}
	apply(t, namespace, manifest("one")+httpTrigger("steady"))
	waitFunction(t, namespace, "steady", "True", v1alpha1.ReasonReady)

	quick := request{"GET", "", "", "fine"}
	post := request{"POST", "/post", "a body", "a body"}
	began := time.Now()
	load := send(t, namespace, "steady", 50, quick, post, quick, post, quick, quick, post, quick, quick, post,
		quick, post, quick, post, quick, quick, post, quick, quick, post, quick, post, quick, post, request{"GET", "/slow", "", "fine"})
	apply(t, namespace, manifest("two"))
	waitFunction(t, namespace, "steady", "True", v1alpha1.ReasonReady)
	rollOut(t, "gateway")
	kubectl(t, "", "scale", "function", "steady", "-n", namespace, "--replicas=1")
	waitFunction(t, namespace, "steady", "True", v1alpha1.ReasonReady)
	rollOut(t, "operator")
	kubectl(t, "", "annotate", "function", "steady", "-n", namespace, v1alpha1.RestartedAtAnnotation+"="+began.Format(time.RFC3339))
	waitFunction(t, namespace, "steady", "True", v1alpha1.ReasonReady)
	// A roll-out that is taken back midway.
	apply(t, namespace, manifest("three"))
	apply(t, namespace, manifest("two"))
	waitFunction(t, namespace, "steady", "True", v1alpha1.ReasonReady)
	if left := time.Minute - time.Since(began); left > 0 {
		time.Sleep(left) // the load is to last a minute at least
	}
	load.end()
	t.Logf("%d requests in %s, %v answered, %d lost, the slowest after %s", load.sent, time.Since(began).Round(time.Second), load.answered, len(load.failures), load.slowest)
	if len(load.failures) > 0 {
		t.Errorf("lost:\n%s", strings.Join(load.failures[:min(20, len(load.failures))], "\n"))
	}
	if load.answered["/slow"] < 30 {
		t.Errorf("only %d requests took long", load.answered["/slow"])
	}
}
