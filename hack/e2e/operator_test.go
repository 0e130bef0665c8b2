package e2e

import (
	"fmt"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// Killing the operator in the middle of a build and starting it again ends in the same state as if it had never died.
func TestOperatorDiesInABuild(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	replacing.Lock()
	unlock := sync.OnceFunc(replacing.Unlock)
	defer unlock()
	files := map[string]string{"handler.py": "import idna\ndef handle(event):\n    return idna.encode('königsgäßchen').decode()\n", "requirements.txt": "idna==3.9\n"}
	apply(t, namespace, function("interrupted", "python3.11", files)+httpTrigger("interrupted"))
	eventually(t, "its Job installs", func() error {
		f := &v1alpha1.Function{}
		if err := get(t, namespace, "interrupted", f); err != nil {
			return err
		}
		if f.Status.Build == nil || f.Status.Build.JobName == "" {
			return fmt.Errorf("no Job yet: %+v", f.Status.Build)
		}
		return nil
	})
	operator := &appsv1.Deployment{}
	for range 2 {
		if err := kube.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(names.SystemNamespace),
			client.MatchingLabels{"app.kubernetes.io/name": "operator"}, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "an operator runs again", func() error {
			if err := get(t, names.SystemNamespace, "operator", operator); err != nil {
				return err
			}
			return running(t, "operator", *operator.Spec.Replicas, "")
		})
	}
	unlock()
	f := waitFunction(t, namespace, "interrupted", "True", v1alpha1.ReasonReady)
	if got := mustCall(t, "GET", namespace, "interrupted", "", "", 200); got.body != "xn--knigsgchen-b4a3dun" {
		t.Errorf("got %q", got.body)
	}
	eventually(t, "nothing of the build is left", func() error { return nothingOf(t, names.BuildNamespace, namespace) })

	// The same files in another function give the same code: there is one state, whatever happened on the way.
	apply(t, namespace, function("undisturbed", "python3.11", files))
	if g := waitFunction(t, namespace, "undisturbed", "True", v1alpha1.ReasonReady); g.Status.SourceDigest != f.Status.SourceDigest {
		t.Errorf("source digests %s and %s", f.Status.SourceDigest, g.Status.SourceDigest)
	}
}
