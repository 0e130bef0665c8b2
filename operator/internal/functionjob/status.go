package functionjob

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/reconcile"
)

// verdict is what a pass says in the end.
type verdict struct {
	phase           v1alpha1.FunctionJobPhase
	status          metav1.ConditionStatus
	reason, message string
}

// setStatus writes the summary of a pass.
func setStatus(s *scope) {
	v := s.verdict()
	status := &s.job.Status
	status.Phase, status.ObservedGeneration = v.phase, s.job.Generation
	if v.phase == v1alpha1.FunctionJobPending || s.waiting != nil {
		status.Message = cut(v.message, maxMessage)
	}
	reconcile.SetConditions(&status.Conditions, reconcile.Condition(v1alpha1.Ready, v.status, v.reason, v.message, s.job.Generation))
}

// verdict says how the FunctionJob is: the run that goes on, or else the one that is wanted, or else the last.
func (s *scope) verdict() verdict {
	status := &s.job.Status
	switch {
	case s.runs():
		message := fmt.Sprintf("run %d goes on", status.RunID)
		if s.wants() {
			message += fmt.Sprintf(", and run %d after it", s.job.Spec.RunID)
		}
		if status.Message != "" {
			message += ": " + status.Message
		}
		return verdict{v1alpha1.FunctionJobRunning, metav1.ConditionUnknown, v1alpha1.ReasonRunning, message}
	case s.waiting != nil && s.waiting.failed:
		return verdict{v1alpha1.FunctionJobFailed, s.waiting.status, s.waiting.reason, s.waiting.message}
	case s.waiting != nil:
		return verdict{v1alpha1.FunctionJobPending, s.waiting.status, s.waiting.reason, s.waiting.message}
	case s.wants():
		return verdict{v1alpha1.FunctionJobPending, metav1.ConditionUnknown, v1alpha1.ReasonPending, fmt.Sprintf("run %d is about to start", s.job.Spec.RunID)}
	case s.job.Spec.RunID == 0:
		return verdict{v1alpha1.FunctionJobSkipped, metav1.ConditionTrue, v1alpha1.ReasonSkipped, "spec.runID is 0: nothing is to run"}
	case status.EndReason == v1alpha1.ReasonSucceeded:
		message := fmt.Sprintf("run %d ended well", status.RunID)
		if status.Message != "" {
			message = status.Message
		}
		return verdict{v1alpha1.FunctionJobSucceeded, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, message}
	}
	return verdict{v1alpha1.FunctionJobFailed, metav1.ConditionFalse, status.EndReason, status.Message}
}
