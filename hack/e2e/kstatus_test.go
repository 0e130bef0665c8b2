package e2e

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/naeel/sless/api/v1alpha1"
)

// TestKstatus follows objects of each kind with the library by which Flux waits, from their creation to their end: they are in progress
// until they are Ready, or have failed for good.
func TestKstatus(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	apply(t, namespace, python("good", "def handle(event):\n    return 1\n")+httpTrigger("good")+"---\n"+job("good", "good", "runID: 1"))
	apply(t, namespace, python("bad", "def other(event):\n    return 1\n", "entrypoint: absent.handle")+httpTrigger("bad"))
	apply(t, namespace, python("raises", "def handle(event):\n    raise ValueError('no')\n")+"---\n"+job("raises", "raises", "runID: 1"))
	ends := map[[2]string]status.Status{
		{"Function", "good"}: status.CurrentStatus, {"Trigger", "good"}: status.CurrentStatus, {"FunctionJob", "good"}: status.CurrentStatus,
		{"Function", "bad"}: status.FailedStatus, {"Trigger", "bad"}: status.FailedStatus, {"FunctionJob", "raises"}: status.FailedStatus,
	}
	for len(ends) > 0 {
		eventually(t, fmt.Sprintf("one of %v", ends), func() error {
			for object, end := range ends {
				now, ready, err := follow(t, namespace, object[0], object[1])
				switch {
				case err != nil:
					return err
				case now == status.CurrentStatus && ready != metav1.ConditionTrue, now == status.FailedStatus && ready != metav1.ConditionFalse:
					t.Fatalf("%v is %s while Ready is %q", object, now, ready)
				case now == end:
					delete(ends, object)
					return nil
				}
			}
			return fmt.Errorf("none has come to its end")
		})
	}
	kubectl(t, "", "wait", "--for=condition=Ready", "function/good", "trigger/good", "functionjob/good", "-n", namespace, "--timeout="+patience.String())
}

// follow returns what the library says of an object, and its condition Ready if that is of the present generation.
func follow(t *testing.T, namespace, kind, name string) (status.Status, metav1.ConditionStatus, error) {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	if err := get(t, namespace, name, object); err != nil {
		return "", "", err
	}
	result, err := status.Compute(object)
	if err != nil {
		return "", "", err
	}
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, entry := range conditions {
		c := entry.(map[string]any)
		if c["type"] == v1alpha1.Ready && c["observedGeneration"] == object.GetGeneration() {
			return result.Status, metav1.ConditionStatus(c["status"].(string)), err
		}
	}
	return result.Status, "", err
}
