package reconcile

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naeel/sless/api/names"
)

func TestOwnerOfKind(t *testing.T) {
	child := &corev1.Service{}
	if got := OwnerOfKind("Function")(t.Context(), child); got != nil {
		t.Errorf("an object without labels belongs to %v", got)
	}
	child.Labels = names.Labels("Function", "team", "hello", "uid")
	if got := OwnerOfKind("Trigger")(t.Context(), child); got != nil {
		t.Errorf("a child of another kind belongs to %v", got)
	}
	want := types.NamespacedName{Namespace: "team", Name: "hello"}
	if got := OwnerOfKind("Function")(t.Context(), child); len(got) != 1 || got[0].NamespacedName != want {
		t.Errorf("it belongs to %v, want %v", got, want)
	}
}
