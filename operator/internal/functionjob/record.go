package functionjob

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/ledger"
)

// record writes the run that has ended in this pass into the ledger. It runs after the status has been written, so a run is recorded once; one whose
// operator dies in between is not.
func (r *Reconciler) record(ctx context.Context, s *scope) {
	if r.Ledger == nil || !r.Ledger.On() || !s.hasEnded() {
		return
	}
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: s.job.Namespace}, namespace); err != nil {
		log.FromContext(ctx).Info("A run is not recorded", "reason", err.Error())
		return
	}
	r.Ledger.Write(recordOf(s, string(namespace.UID)))
}

// hasEnded says whether this pass has seen a run end.
func (s *scope) hasEnded() bool {
	before, now := &s.before.Status, &s.job.Status
	return now.EndReason != "" && (before.RunID != now.RunID || before.EndReason == "")
}

// recordOf makes the record of the run that the status tells of.
func recordOf(s *scope, namespaceUID string) *ledger.Record {
	status := &s.job.Status
	r := &ledger.Record{
		Started: status.CompletionTime.Time, ID: names.RunID(s.job.UID, status.RunID),
		Namespace: s.job.Namespace, NamespaceUID: namespaceUID, Function: s.job.Spec.FunctionRef.Name, Job: s.job.Name, Kind: ledger.Job,
		Status: statusOf(status.EndReason), BytesIn: int64(len(s.job.Spec.EventJSON)), BytesOut: int64(len(status.Result)), Attempt: 1,
	}
	if status.EndReason != v1alpha1.ReasonSucceeded {
		r.Code = status.EndReason
	}
	_, r.Image, _ = strings.Cut(status.Image, "@")
	if s.function != nil && string(s.function.UID) == status.FunctionUID && s.function.Status.Image == status.Image {
		r.CodeHash = s.function.Status.CodeHash
	}
	if status.StartTime != nil {
		r.Started = status.StartTime.Time
		r.Duration = status.CompletionTime.Sub(r.Started)
	}
	if s.run == nil {
		return r
	}
	if name := s.run.Annotations[functionAnnotation]; name != "" {
		r.Function = name // functionRef may be another by now
	}
	r.Attempt = max(1, int(s.run.Status.Failed+s.run.Status.Succeeded))
	if ended := lastTerminated(s.pods); ended != nil {
		r.Pod = podOf(s.pods, ended)
		r.Handler = min(ended.FinishedAt.Sub(ended.StartedAt.Time), r.Duration)
		r.Starting = min(max(0, ended.StartedAt.Sub(r.Started)), r.Duration-r.Handler)
	}
	return r
}

// podOf returns the name of the pod whose container's end that is.
func podOf(pods []corev1.Pod, ended *corev1.ContainerStateTerminated) string {
	for i := range pods {
		for j := range pods[i].Status.ContainerStatuses {
			if pods[i].Status.ContainerStatuses[j].State.Terminated == ended {
				return pods[i].Name
			}
		}
	}
	return ""
}

// statusOf says in terms of HTTP how a run ended.
func statusOf(reason string) int {
	switch reason {
	case v1alpha1.ReasonSucceeded:
		return 200
	case v1alpha1.ReasonTimeout:
		return 504
	}
	return 500
}
