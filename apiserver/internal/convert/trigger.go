package convert

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
)

// Trigger returns trigger as the API shows it.
func Trigger(trigger *v1alpha1.Trigger) rest.Trigger {
	spec := &trigger.Spec
	wire := rest.Trigger{
		Name: trigger.Name, Labels: trigger.Labels, Namespace: trigger.Namespace, UID: string(trigger.UID), Generation: trigger.Generation,
		CreatedAt: timeOf(trigger.CreationTimestamp), Function: spec.FunctionRef.Name, Type: string(spec.Type), Enabled: spec.Enabled,
		Status: triggerStatus(&trigger.Status),
	}
	if http := spec.HTTP; http != nil {
		wire.Methods, wire.Payload = http.Methods, string(http.Payload)
	}
	if cron := spec.Cron; cron != nil {
		wire.Schedule, wire.TimeZone, wire.EventJSON = cron.Schedule, cron.TimeZone, cron.EventJSON
		wire.ConcurrencyPolicy, wire.StartingDeadlineSec = string(cron.ConcurrencyPolicy), positive(cron.StartingDeadlineSeconds)
	}
	return wire
}

// ApplyTrigger writes what wire says into trigger. Fields of the block that type does not name are written as well, for the
// cluster to refuse.
func ApplyTrigger(wire *rest.Trigger, trigger *v1alpha1.Trigger) {
	spec := &trigger.Spec
	trigger.Labels = wire.Labels
	spec.FunctionRef.Name, spec.Type, spec.Enabled = wire.Function, v1alpha1.TriggerType(wire.Type), wire.Enabled
	if len(wire.Methods) == 0 && wire.Payload == "" {
		spec.HTTP = nil
	} else {
		spec.HTTP = orNew(spec.HTTP)
		spec.HTTP.Methods, spec.HTTP.Payload = wire.Methods, v1alpha1.Payload(wire.Payload)
	}
	cronFields := wire.Schedule != "" || wire.TimeZone != "" || wire.EventJSON != "" || wire.ConcurrencyPolicy != "" || wire.StartingDeadlineSec != nil
	if !cronFields && wire.Type != rest.TriggerCron {
		spec.Cron = nil
		return
	}
	spec.Cron = orNew(spec.Cron)
	spec.Cron.Schedule, spec.Cron.TimeZone, spec.Cron.EventJSON = wire.Schedule, wire.TimeZone, wire.EventJSON
	spec.Cron.ConcurrencyPolicy, spec.Cron.StartingDeadlineSeconds = v1alpha1.ConcurrencyPolicy(wire.ConcurrencyPolicy), value(wire.StartingDeadlineSec)
}

func orNew[T any](pointer *T) *T {
	if pointer == nil {
		return new(T)
	}
	return pointer
}

func triggerStatus(status *v1alpha1.TriggerStatus) *rest.TriggerStatus {
	wire := &rest.TriggerStatus{
		Status: common(string(status.Phase), status.ObservedGeneration, status.Conditions),
		URL:    status.URL, LastRunAt: timeOfPointer(status.LastScheduleTime), NextRunAt: timeOfPointer(status.NextScheduleTime),
	}
	for _, run := range status.History {
		shown := rest.TriggerRun{
			ID: run.ID, ScheduledAt: run.ScheduledAt.UTC(), DurationMS: run.DurationMilliseconds, Result: string(run.Result), Message: run.Message,
		}
		if run.StartedAt != nil && !run.StartedAt.IsZero() {
			shown.StartedAt = new(run.StartedAt.UTC())
		}
		wire.History = append(wire.History, shown)
	}
	return wire
}

// Job returns job as the API shows it.
func Job(job *v1alpha1.FunctionJob) rest.Job {
	spec := &job.Spec
	status := &job.Status
	wire := rest.Job{
		Name: job.Name, Labels: job.Labels, Namespace: job.Namespace, UID: string(job.UID), Generation: job.Generation, CreatedAt: timeOf(job.CreationTimestamp),
		Function: spec.FunctionRef.Name, EventJSON: spec.EventJSON, RunID: spec.RunID, TimeoutSec: positive(spec.TimeoutSeconds),
		BackoffLimit: spec.BackoffLimit, TTLSec: spec.TTLSecondsAfterFinished,
		Status: &rest.JobStatus{
			Status: common(string(status.Phase), status.ObservedGeneration, status.Conditions),
			RunID:  status.RunID, Image: status.Image, StartedAt: timeOfPointer(status.StartTime), CompletedAt: timeOfPointer(status.CompletionTime),
			ExitCode: status.ExitCode, Result: status.Result, ResultTruncated: status.ResultTruncated,
		},
	}
	if status.Message != "" {
		wire.Status.Message = status.Message
	}
	return wire
}

// ApplyJob writes what wire says into job.
func ApplyJob(wire *rest.Job, job *v1alpha1.FunctionJob) {
	spec := &job.Spec
	job.Labels = wire.Labels
	spec.FunctionRef.Name, spec.EventJSON, spec.RunID = wire.Function, wire.EventJSON, wire.RunID
	spec.TimeoutSeconds, spec.BackoffLimit, spec.TTLSecondsAfterFinished = value(wire.TimeoutSec), wire.BackoffLimit, wire.TTLSec
}

// common is the part that the statuses of all kinds have. A status that nobody has written yet speaks of generation -1, which is left out.
func common(phase string, observed int64, conditions []metav1.Condition) rest.Status {
	status := rest.Status{Phase: phase, ObservedGeneration: max(observed, 0)}
	for _, condition := range conditions {
		var since *time.Time
		if !condition.LastTransitionTime.IsZero() {
			since = new(condition.LastTransitionTime.UTC())
		}
		status.Conditions = append(status.Conditions, rest.Condition{
			Type: condition.Type, Status: string(condition.Status), Reason: condition.Reason, Message: condition.Message,
			ObservedGeneration: condition.ObservedGeneration, LastTransitionTime: since,
		})
		if condition.Type == v1alpha1.Ready {
			status.Ready, status.Reason, status.Message = string(condition.Status), condition.Reason, condition.Message
		}
	}
	return status
}
