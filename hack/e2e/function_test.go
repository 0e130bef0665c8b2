package e2e

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// The three samples, as the README has them: one without dependencies, two that go through kaniko.
func TestSamples(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	for _, name := range []string{"hello", "hello-node", "hello-deps"} {
		manifest, err := os.ReadFile("../../config/samples/" + name + "/function.yaml")
		if err != nil {
			t.Fatal(err)
		}
		apply(t, namespace, string(manifest))
	}
	for _, name := range []string{"hello", "hello-node", "hello-deps"} {
		f := waitFunction(t, namespace, name, "True", v1alpha1.ReasonReady)
		if got := mustCall(t, "GET", namespace, name, "", "", 200); !strings.Contains(got.body, "message") {
			t.Errorf("%s answered %q", name, got.body)
		}
		eventually(t, name+" has a URL", func() error {
			if err := get(t, namespace, name, f); err != nil {
				return err
			}
			if !strings.HasSuffix(f.Status.URL, names.FunctionPath(namespace, name)) {
				return fmt.Errorf("status.url is %q", f.Status.URL)
			}
			return nil
		})
		eventually(t, "kubectl get functions shows what matters of "+name, func() error {
			line := kubectl(t, "", "get", "function", name, "-n", namespace, "--no-headers")
			for _, want := range []string{f.Spec.Runtime, "Ready", f.Status.URL} {
				if !strings.Contains(line, want) {
					return fmt.Errorf("it says %q, without %q", line, want)
				}
			}
			return nil
		})
	}
	// Both builds left no Job, Secret or ConfigMap of theirs behind.
	eventually(t, "the build namespace is empty of this tenant", func() error { return nothingOf(t, names.BuildNamespace, namespace) })
}

// nothingOf complains about objects in a namespace that carry a tenant's label.
func nothingOf(t *testing.T, in, tenant string) error {
	out, err := tryKubectl(t, "", "get", "pods,jobs,configmaps,secrets,deployments,services,ingresses", "-n", in, "-l", names.NamespaceLabel+"="+tenant, "-o", "name")
	if err != nil {
		return fmt.Errorf("%v: %s", err, out)
	}
	if out = strings.TrimSpace(out); out != "" && !strings.HasPrefix(out, "No resources") {
		return fmt.Errorf("there is still %s", out)
	}
	return nil
}

const version = "def handle(event, context):\n    return {'statusCode': 200, 'body': 'v%d'}\n"

// A change of code is served, back and forth; Ready is said only when the new code is what answers.
func TestChangeOfCode(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	images := map[int]string{}
	for _, v := range []int{1, 2, 3, 2} {
		apply(t, namespace, python("f", fmt.Sprintf(version, v))+httpTrigger("f"))
		f := waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
		for range 10 {
			if got := mustCall(t, "GET", namespace, "f", "", "", 200); got.body != fmt.Sprintf("v%d", v) {
				t.Fatalf("Ready, and %q answered for version %d", got.body, v)
			}
		}
		if before, ok := images[v]; ok && before != f.Status.Image {
			t.Errorf("version %d has image %s, and had %s", v, f.Status.Image, before)
		}
		images[v] = f.Status.Image
	}
	if len(images) != 3 || images[1] == images[2] || images[2] == images[3] {
		t.Errorf("three versions have images %v", images)
	}
}

// What changes no code builds nothing; what changes nothing writes nothing.
func TestChangesThatDoNotBuild(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	code := "import os\ndef handle(event):\n    return os.environ.get('GREETING', 'none')\n"
	apply(t, namespace, python("f", code, "env: [{name: GREETING, value: one}]")+httpTrigger("f"))
	f := waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
	image, builtAt := f.Status.Image, f.Status.LastBuiltAt
	if got := mustCall(t, "GET", namespace, "f", "", "", 200); got.body != "one" {
		t.Errorf("got %q", got.body)
	}

	apply(t, namespace, python("f", code, "env: [{name: GREETING, value: two}]", "timeoutSeconds: 30"))
	waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
	if got := mustCall(t, "GET", namespace, "f", "", "", 200); got.body != "two" {
		t.Errorf("after the change of env: %q", got.body)
	}
	deployment := &appsv1.Deployment{}
	if err := get(t, names.FunctionNamespace(namespace), "f", deployment); err != nil {
		t.Fatal(err)
	}
	template := deployment.Spec.Template.DeepCopy()

	kubectl(t, "", "scale", "function", "f", "-n", namespace, "--replicas=2")
	f = waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
	if f.Status.Replicas != 2 || f.Status.ReadyReplicas != 2 {
		t.Errorf("scaled to 2: status says %d, ready %d", f.Status.Replicas, f.Status.ReadyReplicas)
	}
	if err := get(t, names.FunctionNamespace(namespace), "f", deployment); err != nil {
		t.Fatal(err)
	}
	if was, is := must(json.Marshal(template)), must(json.Marshal(deployment.Spec.Template)); string(was) != string(is) {
		t.Errorf("scaling changed the pod template:\n%s\n%s", was, is)
	}
	if f.Status.Image != image || !f.Status.LastBuiltAt.Equal(builtAt) {
		t.Errorf("built again: %s at %s, was %s at %s", f.Status.Image, f.Status.LastBuiltAt, image, builtAt)
	}

	// Applied again as it is, nothing is written: neither by the user's apply nor by any controller in answer to it.
	same := python("f", code, "env: [{name: GREETING, value: two}]", "timeoutSeconds: 30")
	nothingIsWritten(t, 5*time.Second, func() string {
		if err := get(t, namespace, "f", f); err != nil {
			t.Fatal(err)
		}
		return f.ResourceVersion
	}, func() {
		for range 3 {
			apply(t, namespace, same)
		}
	})
}

// nothingIsWritten holds that what versions tells of stays as it is from before do until so long after it. When operator or gateways are replaced
// at that time, as other tests have it, Functions may tell of that, and it begins anew.
func nothingIsWritten(t *testing.T, within time.Duration, versions func() string, do func()) {
	t.Helper()
	eventually(t, "nothing is written", func() error {
		before := versions()
		do()
		for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			now := versions()
			if now == before {
				continue
			}
			written := fmt.Errorf("versions were\n%s\nand are\n%s", before, now)
			if !platformIsReplaced(t) {
				t.Fatal(written)
			}
			return written
		}
		return nil
	})
}

// platformIsReplaced says whether a pod of the platform comes, goes or has come a moment ago.
func platformIsReplaced(t *testing.T) bool {
	t.Helper()
	pods := &corev1.PodList{}
	if err := kube.List(t.Context(), pods, client.InNamespace(names.SystemNamespace)); err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
		return !pod.DeletionTimestamp.IsZero() || time.Since(pod.CreationTimestamp.Time) < 2*time.Minute
	})
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// kubectl delete leaves nothing in any namespace, nor in the registry's list of tags.
func TestDeletionLeavesNothing(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	apply(t, namespace, python("first", fmt.Sprintf(version, 1), "env: [{name: A, value: b}]")+httpTrigger("first"))
	apply(t, namespace, python("second", fmt.Sprintf(version, 2)))
	waitFunction(t, namespace, "first", "True", v1alpha1.ReasonReady)
	waitFunction(t, namespace, "second", "True", v1alpha1.ReasonReady)
	if tags := tagsOf(t, namespace); !slices.ContainsFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, "first-") }) {
		t.Fatalf("no image of function first among %v", tags)
	}

	kubectl(t, "", "delete", "function", "first", "-n", namespace)
	kubectl(t, "", "delete", "trigger", "first", "-n", namespace)
	running := names.FunctionNamespace(namespace)
	gone(t, running, "first", &appsv1.Deployment{})
	gone(t, running, "first", &corev1.Service{})
	eventually(t, "the Secret of its env is gone", func() error {
		secrets := &corev1.SecretList{}
		if err := kube.List(t.Context(), secrets, client.InNamespace(running), client.MatchingLabels{names.NameLabel: "first"}); err != nil {
			return err
		}
		if len(secrets.Items) > 0 {
			return fmt.Errorf("there is %s", secrets.Items[0].Name)
		}
		return nil
	})
	eventually(t, "calls have no route", func() error { return answers(t, "GET", namespace, "first", 404, "no_route") })
	eventually(t, "its images are out of the registry", func() error {
		for _, tag := range tagsOf(t, namespace) {
			if strings.HasPrefix(tag, "first-") {
				return fmt.Errorf("there is %s", tag)
			}
		}
		return nil
	})
	waitFunction(t, namespace, "second", "True", v1alpha1.ReasonReady)

	kubectl(t, "", "delete", "function", "second", "-n", namespace)
	gone(t, "", running, &corev1.Namespace{})
	eventually(t, "no tag is left", func() error {
		if tags := tagsOf(t, namespace); len(tags) > 0 {
			return fmt.Errorf("there are %v", tags)
		}
		return nil
	})
}

// A namespace is deleted with everything in it, in the middle of a build too, and nothing holds it up.
func TestNamespaceDeletion(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	apply(t, namespace, python("served", fmt.Sprintf(version, 1))+httpTrigger("served"))
	waitFunction(t, namespace, "served", "True", v1alpha1.ReasonReady)
	apply(t, namespace, function("building", "python3.11", map[string]string{
		"handler.py": fmt.Sprintf(version, 1), "requirements.txt": "idna==3.10\n"}))
	waitFunction(t, namespace, "building", "Unknown", v1alpha1.ReasonBuilding)
	kubectl(t, "", "delete", "namespace", namespace, "--wait=false")
	gone(t, "", namespace, &corev1.Namespace{})
	gone(t, "", names.FunctionNamespace(namespace), &corev1.Namespace{})
	eventually(t, "its build is gone", func() error { return nothingOf(t, names.BuildNamespace, namespace) })
}

// The longest name in the longest namespace is built, served and run, although every name that is made of the two is too long.
func TestLongestNames(t *testing.T) {
	t.Parallel()
	unique := strings.ToLower(rand.Text()[:10])
	namespace := newNamespaceNamed(t, "e2e-"+unique+strings.Repeat("n", 63-len("e2e-"+unique)))
	name := strings.Repeat("f", 63)
	apply(t, namespace, python(name, goodHandler)+httpTrigger(name)+cronTrigger(name[:62]+"c", name, `{schedule: "@yearly"}`))
	waitFunction(t, namespace, name, "True", v1alpha1.ReasonReady)
	waitTrigger(t, namespace, name, "True", v1alpha1.ReasonReady)
	waitTrigger(t, namespace, name[:62]+"c", "True", v1alpha1.ReasonReady)
	mustCall(t, "GET", namespace, name, "", "", 200)
	apply(t, namespace, job(name, name, "runID: 1"))
	eventually(t, "the job has run", func() error {
		run := &v1alpha1.FunctionJob{}
		if err := get(t, namespace, name, run); err != nil {
			return err
		}
		if run.Status.Phase != v1alpha1.FunctionJobSucceeded {
			return fmt.Errorf("it is %s: %s", run.Status.Phase, run.Status.Message)
		}
		return nil
	})
}
