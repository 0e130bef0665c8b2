package reconcile

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/kstatustest"
)

// TestConditionsFollowKstatus leads a Function from its creation to a failure and out of it.
func TestConditionsFollowKstatus(t *testing.T) {
	f := &v1alpha1.Function{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Status: v1alpha1.FunctionStatus{ObservedGeneration: -1}}
	says := func(when, want string) {
		t.Helper()
		if got := kstatustest.Of(t, f); got != want {
			t.Errorf("%s: kstatus says %s, want %s", when, got, want)
		}
	}
	set := func(status metav1.ConditionStatus) {
		f.Status.ObservedGeneration = f.Generation
		SetConditions(&f.Status.Conditions, Condition(v1alpha1.Ready, status, "Why", "why", f.Generation), Condition(v1alpha1.Built, status, "Why", "why", f.Generation))
	}
	says("before anybody has looked", "InProgress")
	set(metav1.ConditionUnknown)
	says("while it builds", "InProgress")
	set(metav1.ConditionFalse)
	says("when the build has failed", "Failed")
	stalled := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.Stalled)
	if stalled == nil || stalled.Reason != "Why" || stalled.Message != "why" || stalled.ObservedGeneration != 1 {
		t.Fatalf("Stalled is %+v", stalled)
	}
	stalled.LastTransitionTime = metav1.NewTime(time.Unix(1, 0))
	set(metav1.ConditionFalse)
	if again := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.Stalled); again.LastTransitionTime.Unix() != 1 {
		t.Errorf("the second pass that fails moves the transition time to %s", again.LastTransitionTime)
	}
	f.Generation = 2
	says("when it was changed", "InProgress")
	set(metav1.ConditionUnknown)
	says("while it builds again", "InProgress")
	set(metav1.ConditionTrue)
	says("when it serves", "Current")
	if len(f.Status.Conditions) != 2 {
		t.Errorf("left over: %+v", f.Status.Conditions)
	}
}
