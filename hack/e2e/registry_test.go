package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// needy is a Function whose dependencies are installed by a Job of their own: another mark, another Job.
func needy(name, mark string) string {
	return function(name, "python3.11", map[string]string{"handler.py": fmt.Sprintf("import idna\ndef handle(event):\n    return %q\n", mark), "requirements.txt": "idna==3.10\n# " + mark + "\n"})
}

// Going back to the source of before runs no Job and adds nothing to the registry.
func TestGoingBackBuildsNothing(t *testing.T) {
	t.Parallel()
	// An operator that is killed between a Job's end and that of its own image leaves the image for a day.
	replacing.RLock()
	defer replacing.RUnlock()
	namespace := newNamespace(t)
	var images []string
	for _, mark := range []string{"v1", "v2"} {
		apply(t, namespace, needy("f", namespace+mark)+httpTrigger("f"))
		images = append(images, waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady).Status.Image)
	}
	// A Job whose operator ended before it stays until the next operator has found it unwanted twice, and its own image a moment longer.
	var tags []string
	eventually(t, "the Job is gone", func() error {
		tags = tagsOf(t, namespace)
		if slices.ContainsFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, "src-") }) {
			return fmt.Errorf("there are %v", tags)
		}
		return noJobs(t, namespace)
	})
	apply(t, namespace, needy("f", namespace+"v1"))
	f := &v1alpha1.Function{}
	eventually(t, "v1 serves again", func() error {
		if err := noJobs(t, namespace); err != nil {
			t.Fatal(err)
		}
		if err := get(t, namespace, "f", f); err != nil {
			return err
		}
		ready, err := condition(f.Status.Conditions, f.Generation)
		if err != nil {
			return err
		}
		return matches(ready, "True", v1alpha1.ReasonReady)
	})
	if got := mustCall(t, "GET", namespace, "f", "", "", 200); got.body != namespace+"v1" {
		t.Errorf("got %q", got.body)
	}
	if f.Status.Image != images[0] || !slices.Equal(used(f), images) {
		t.Errorf("image %s of %q, want %s", f.Status.Image, used(f), images[0])
	}
	if again := tagsOf(t, namespace); !slices.Equal(again, tags) {
		t.Errorf("the registry had %q, and has %q", tags, again)
	}
}

// used are the images of status.images.
func used(f *v1alpha1.Function) []string {
	var images []string
	for _, image := range f.Status.Images {
		images = append(images, image.Image)
	}
	return images
}

// noJobs complains about a build Job of the tenant's.
func noJobs(t *testing.T, tenant string) error {
	jobs := &batchv1.JobList{}
	if err := kube.List(t.Context(), jobs, client.InNamespace(names.BuildNamespace), client.MatchingLabels{names.NamespaceLabel: tenant}); err != nil {
		return err
	}
	if len(jobs.Items) > 0 {
		return fmt.Errorf("there is Job %s", jobs.Items[0].Name)
	}
	return nil
}

// The images used last stay, and the others leave the registry.
func TestOldImagesGo(t *testing.T) {
	t.Parallel()
	const keep = 5 // build.keepImages, unless it is set
	namespace := newNamespace(t)
	var images []string
	apply(t, namespace, python("other", fmt.Sprintf(version, 0)))
	for v := range keep + 2 {
		apply(t, namespace, python("f", fmt.Sprintf(version, v))+httpTrigger("f"))
		f := waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
		images = append([]string{f.Status.Image}, images...)
		if want := images[:min(len(images), keep)]; !slices.Equal(used(f), want) {
			t.Fatalf("status.images is %q, want %q", used(f), want)
		}
	}
	waitFunction(t, namespace, "other", "True", v1alpha1.ReasonReady)
	eventually(t, "the registry has the last images", func() error {
		tags := tagsOf(t, namespace)
		if own := slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return !strings.HasPrefix(tag, "f-") }); len(own) != keep {
			return fmt.Errorf("it has %q", own)
		}
		if !slices.ContainsFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, "other-") }) {
			t.Fatalf("another's image is gone: %q", tags)
		}
		return nil
	})
	// The oldest that is kept is there; the one before it is built anew.
	for _, v := range []int{2, 1} {
		apply(t, namespace, python("f", fmt.Sprintf(version, v)))
		if f := waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady); f.Status.Image != images[len(images)-1-v] {
			t.Errorf("version %d has image %s, and had %s", v, f.Status.Image, images[len(images)-1-v])
		}
		if got := mustCall(t, "GET", namespace, "f", "", "", 200); got.body != fmt.Sprintf("v%d", v) {
			t.Errorf("got %q", got.body)
		}
	}
}

// A Function can be deleted in the middle of its build, and nothing of that stays.
func TestDeletedInTheMiddleOfABuild(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	apply(t, namespace, needy("building", namespace))
	eventually(t, "its Job installs", func() error {
		if noJobs(t, namespace) == nil {
			return errors.New("there is no Job yet")
		}
		return nil
	})
	start := time.Now()
	kubectl(t, "", "delete", "function", "building", "-n", namespace, "--timeout="+patience.String())
	t.Logf("deleted in %s", time.Since(start).Round(time.Millisecond))
	eventually(t, "its build is gone", func() error { return nothingOf(t, names.BuildNamespace, namespace) })
	gone(t, "", names.FunctionNamespace(namespace), &corev1.Namespace{})
	eventually(t, "no tag is left", func() error {
		if tags := tagsOf(t, namespace); len(tags) > 0 {
			return fmt.Errorf("there are %v", tags)
		}
		return nil
	})
}

// Many builds of one tenant wait for their turn and say so, and hold up nobody else's.
func TestBuildsWaitInTurn(t *testing.T) {
	t.Parallel()
	busy, quiet := newNamespace(t), newNamespace(t)
	const builds = 5
	manifests := ""
	for i := range builds {
		manifests += "---\n" + needy(fmt.Sprint("f", i), fmt.Sprint(busy, i))
	}
	apply(t, busy, manifests)
	list := func() []v1alpha1.Function {
		functions := &v1alpha1.FunctionList{}
		if err := kube.List(t.Context(), functions, client.InNamespace(busy)); err != nil {
			t.Fatal(err)
		}
		return functions.Items
	}
	eventually(t, "one waits for a Job's place", func() error {
		for _, f := range list() {
			if b := f.Status.Build; b != nil && b.Step == "Queued" && b.Position > 0 {
				for _, c := range f.Status.Conditions {
					if c.Type == v1alpha1.Built && !strings.Contains(c.Message, fmt.Sprintf("place %d", b.Position)) {
						t.Errorf("at place %d the message is %q", b.Position, c.Message)
					}
				}
				return nil
			}
		}
		return fmt.Errorf("none of %d", builds)
	})
	apply(t, quiet, needy("g", quiet))
	waitFunction(t, quiet, "g", "True", v1alpha1.ReasonReady)
	if !slices.ContainsFunc(list(), func(f v1alpha1.Function) bool { return f.Status.Image == "" }) {
		t.Errorf("%d builds asked for before came first", builds)
	}
	for i := range builds {
		waitFunction(t, busy, fmt.Sprint("f", i), "True", v1alpha1.ReasonReady)
	}
}

// A tenant's pods have the credentials to pull alone, and nothing is written as long as nothing changes.
func TestPullCredentials(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	running := names.FunctionNamespace(namespace)
	apply(t, namespace, "apiVersion: v1\nkind: Secret\nmetadata: {name: own}\nstringData: {key: value}\n")
	apply(t, namespace, python("f", fmt.Sprintf(version, 1), "env: [{name: A, valueFrom: {secretKeyRef: {name: own, key: key}}}]")+httpTrigger("f"))
	waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
	pull, push := secret(t, "registry-pull")[corev1.DockerConfigJsonKey], secret(t, "registry-push")[corev1.DockerConfigJsonKey]
	secrets := &corev1.SecretList{}
	if err := kube.List(t.Context(), secrets, client.InNamespace(running)); err != nil {
		t.Fatal(err)
	}
	carried := false
	for _, s := range secrets.Items {
		carried = carried || bytes.Equal(s.Data[corev1.DockerConfigJsonKey], pull)
		for _, value := range s.Data {
			if bytes.Equal(value, push) && !bytes.Equal(push, pull) {
				t.Errorf("Secret %s has the credentials to push", s.Name)
			}
		}
	}
	if !carried {
		t.Error("no Secret has the credentials to pull")
	}
	versions := func() string {
		text := ""
		for _, list := range []client.ObjectList{&corev1.SecretList{}, &appsv1.DeploymentList{}, &corev1.ServiceList{}} {
			if err := kube.List(t.Context(), list, client.InNamespace(running)); err != nil {
				t.Fatal(err)
			}
			if err := meta.EachListItem(list, func(object runtime.Object) error {
				found := object.(client.Object)
				text += fmt.Sprintf("%T %s %s\n", found, found.GetName(), found.GetResourceVersion())
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		f := &v1alpha1.Function{}
		if err := get(t, namespace, "f", f); err != nil {
			t.Fatal(err)
		}
		return text + "Function " + f.ResourceVersion
	}
	nothingIsWritten(t, time.Minute, versions, func() {})
}

// A registry that is away is waited for; when it is back, builds go on without anybody's doing. Not parallel: it is everybody's.
func TestRegistryIsAwayForAWhile(t *testing.T) {
	key := client.ObjectKey{Namespace: "sless-dev", Name: "registry"}
	deployment := &appsv1.Deployment{}
	if err := kube.Get(t.Context(), key, deployment); apierrors.IsNotFound(err) {
		t.Skip("this cluster has its registry elsewhere")
	} else if err != nil {
		t.Fatal(err)
	}
	scale := func(replicas string) {
		kubectl(t, "", "scale", "deployment", key.Name, "-n", key.Namespace, "--replicas="+replicas)
	}
	t.Cleanup(func() { // the test's own context has ended then
		_ = exec.Command("kubectl", "scale", "deployment", key.Name, "-n", key.Namespace, "--replicas=1").Run()
	})
	namespace := newNamespace(t)
	apply(t, namespace, python("before", fmt.Sprintf(version, 1))+httpTrigger("before"))
	waitFunction(t, namespace, "before", "True", v1alpha1.ReasonReady)
	scale("0")
	// A pod that ends is no replica any more, but may answer until it is gone.
	eventually(t, "the registry is away", func() error {
		pods := &corev1.PodList{}
		if err := kube.List(t.Context(), pods, client.InNamespace(key.Namespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels)); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("there is %s", pods.Items[0].Name)
		}
		return nil
	})
	apply(t, namespace, python("before", fmt.Sprintf(version, 2))+"---\n"+python("new", fmt.Sprintf(version, 1)))
	for _, name := range []string{"before", "new"} {
		waitFunction(t, namespace, name, "Unknown", v1alpha1.ReasonRegistryUnavailable)
	}
	if got := mustCall(t, "GET", namespace, "before", "", "", 200); got.body != "v1" {
		t.Errorf("meanwhile %q answers", got.body)
	}
	scale("1")
	for _, name := range []string{"before", "new"} {
		waitFunction(t, namespace, name, "True", v1alpha1.ReasonReady)
	}
	if got := mustCall(t, "GET", namespace, "before", "", "", 200); got.body != "v2" {
		t.Errorf("afterwards %q answers", got.body)
	}
}
