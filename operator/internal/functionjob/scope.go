package functionjob

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// scope is what one pass has observed and decided.
type scope struct {
	// now has whole seconds, as status has.
	now metav1.Time
	job *v1alpha1.FunctionJob
	// before is the FunctionJob as it was last read or written.
	before *v1alpha1.FunctionJob
	// function is the Function named; nil when there is none or it is going.
	function *v1alpha1.Function
	// run is the Kubernetes Job of the last run that was started; nil when it is no more.
	run *batchv1.Job
	// pods are those of run, read only while that matters.
	pods []corev1.Pod
	// waiting says what a run that is wanted waits for; nil when none is wanted, or it could start.
	waiting *waiting
	// again is how soon to come again; 0 is when something changes.
	again time.Duration
}

// waiting is why a run does not start.
type waiting struct {
	status          metav1.ConditionStatus
	reason, message string
	// failed says that the FunctionJob itself must be mended.
	failed bool
}

func (s *scope) key() types.NamespacedName { return client.ObjectKeyFromObject(s.job) }

// tenant is the namespace of the children, whether it is there or not.
func (s *scope) tenant() string { return names.FunctionNamespace(s.job.Namespace) }

// runs says that a run has been started and has not ended.
func (s *scope) runs() bool { return s.job.Status.RunID > 0 && s.job.Status.EndReason == "" }

// wants says that a run is to be started as soon as none goes on.
func (s *scope) wants() bool { return s.job.Spec.RunID > s.job.Status.RunID }

// hasWaitedFor says that the run that is wanted has been seen to wait for a Function, and that it is not the one that there is now.
func (s *scope) hasWaitedForAnother() bool {
	waits := s.job.Status.WaitsFor
	return waits != nil && waits.RunID == s.job.Spec.RunID && (s.function == nil || waits.FunctionUID != string(s.function.UID))
}

// come asks for another pass after at most d.
func (s *scope) come(d time.Duration) {
	if s.again == 0 || d < s.again {
		s.again = d
	}
}

// ending is how a run ended.
type ending struct {
	reason  string // a condition reason; Succeeded for a good end
	message string
	at      metav1.Time // zero: now
	// exitCode is nil when no process has ended.
	exitCode  *int32
	result    string
	truncated bool
}

// end writes how the run ended.
func (s *scope) end(e ending) {
	status := &s.job.Status
	status.EndReason, status.Message = e.reason, cut(e.message, maxMessage)
	status.ExitCode, status.Result, status.ResultTruncated = e.exitCode, e.result, e.truncated
	if e.at.IsZero() {
		e.at = s.now
	}
	status.CompletionTime = &e.at
}

// begin forgets the run before.
func (s *scope) begin(runID int64, functionUID string) {
	s.job.Status = v1alpha1.FunctionJobStatus{Conditions: s.job.Status.Conditions, RunID: runID, FunctionUID: functionUID}
}
