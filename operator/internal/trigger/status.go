package trigger

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/reconcile"
)

// verdict is the Ready condition's content.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

// setStatus writes the summary of a pass.
func setStatus(s *scope) {
	status := &s.trigger.Status
	ready := s.verdict()
	status.ObservedGeneration = s.trigger.Generation
	status.Phase = phase(ready)
	reconcile.SetConditions(&status.Conditions, reconcile.Condition(v1alpha1.Ready, ready.status, ready.reason, ready.message, s.trigger.Generation))
}

func phase(ready verdict) v1alpha1.TriggerPhase {
	switch {
	case ready.reason == v1alpha1.ReasonDisabled:
		return v1alpha1.TriggerDisabled
	case ready.status == metav1.ConditionTrue:
		return v1alpha1.TriggerReady
	case ready.status == metav1.ConditionFalse:
		return v1alpha1.TriggerFailed
	}
	return v1alpha1.TriggerPending
}

// verdict says how the Trigger is, the first thing to mend first.
func (s *scope) verdict() verdict {
	name := s.trigger.Spec.FunctionRef.Name
	switch {
	case !s.trigger.IsEnabled():
		return verdict{metav1.ConditionTrue, v1alpha1.ReasonDisabled, "spec.enabled is false: nothing is let through or fired"}
	case s.invalid != nil:
		return verdict{metav1.ConditionFalse, s.invalid.reason, s.invalid.message}
	case s.function == nil:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonFunctionNotFound,
			fmt.Sprintf("Function %s does not exist in namespace %s; make it, or mend spec.functionRef.name", name, s.trigger.Namespace)}
	case s.winner != nil:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonConflict,
			fmt.Sprintf("Function %s is served by the older http Trigger %s; delete or disable one of the two", name, s.winner.Name)}
	case s.trigger.Spec.Type == v1alpha1.TriggerHTTP && s.address.url == "":
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonNoAddress,
			"the platform has neither an external URL nor a domain; whoever runs it sets one in its configuration"}
	}
	v := functionVerdict(s.function)
	if v.reason == v1alpha1.ReasonReady {
		v.message = "calls reach the Function"
		if s.schedule != nil {
			v.message = "the schedule is in force"
		}
	}
	return v
}

// functionVerdict says what a Function's own condition means for its Triggers.
func functionVerdict(function *v1alpha1.Function) verdict {
	// Which step the Function is at stands in its own status: told here as well, each would be a write for every Trigger.
	waits := verdict{metav1.ConditionUnknown, v1alpha1.ReasonFunctionNotReady, fmt.Sprintf("waits for Function %s, whose conditions say how far it is", function.Name)}
	ready := meta.FindStatusCondition(function.Status.Conditions, v1alpha1.Ready)
	switch {
	case ready == nil || ready.ObservedGeneration != function.Generation:
		return waits
	case ready.Status == metav1.ConditionFalse:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonFunctionFailed, fmt.Sprintf("Function %s: %s: %s", function.Name, ready.Reason, ready.Message)}
	case ready.Status != metav1.ConditionTrue || ready.Reason == v1alpha1.ReasonDisabled: // it has not seen yet that a Trigger is enabled
		return waits
	case ready.Reason == v1alpha1.ReasonScaledToZero:
		return verdict{metav1.ConditionTrue, v1alpha1.ReasonScaledToZero, fmt.Sprintf("Function %s has replicas 0: calls are answered 503", function.Name)}
	}
	return verdict{metav1.ConditionTrue, v1alpha1.ReasonReady, ""}
}
