package trigger

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/trigger/schedule"
)

const (
	// historyLength is how many ticks a status remembers.
	historyLength = 10
	// maxAtOnce is how many runs of one Trigger go on at a time, whatever its policy.
	maxAtOnce = 10
	// countedMissed is up to where missed ticks are counted one by one.
	countedMissed = 1000
)

// due is everything on which the decision about the ticks of one Trigger depends.
type due struct {
	now      time.Time
	trigger  *v1alpha1.Trigger
	schedule *schedule.Schedule
	// running are the ids of the Trigger's runs that go on in this process.
	running []string
	// refusal says why no run can start now; empty when one can.
	refusal string
}

// decision is what is to be done once the status that goes with it is written.
type decision struct {
	start *v1alpha1.TriggerRun
	stop  []string
}

// decide deals with the ticks that have come since the last one dealt with: it writes them into the status, and returns what is to be
// done when, and only if, the status has been stored.
func (d due) decide(status *v1alpha1.TriggerStatus) decision {
	from := d.since(status)
	status.NextScheduleTime = timeOrNil(d.schedule.Next(d.now))
	last := d.schedule.Last(from, d.now)
	if last.IsZero() {
		return decision{}
	}
	status.LastScheduleTime = &metav1.Time{Time: last}
	deadline := time.Duration(d.trigger.Spec.Cron.StartingDeadlineSeconds) * time.Second
	if d.now.Sub(last) > deadline {
		d.recordMissed(status, from, last)
		return decision{}
	}
	if missed := d.schedule.Last(from, last.Add(-time.Second)); !missed.IsZero() {
		d.recordMissed(status, from, missed)
	}
	return d.run(status, last)
}

// since returns the time up to which everything has been dealt with.
func (d due) since(status *v1alpha1.TriggerStatus) time.Time {
	since := status.ActiveSchedule.Since.Time
	if status.LastScheduleTime != nil && status.LastScheduleTime.After(since) {
		return status.LastScheduleTime.Time
	}
	return since
}

// recordMissed makes one entry of all ticks after from and up to last.
func (d due) recordMissed(status *v1alpha1.TriggerStatus, from, last time.Time) {
	first := d.schedule.Next(from)
	message := "noticed too late, or followed by another tick before it was noticed"
	switch count := d.schedule.Count(from, last, countedMissed+1); {
	case count > countedMissed:
		message = fmt.Sprintf("more than %d ticks from %s on: %s", countedMissed, clock(first), message)
	case count > 1:
		message = fmt.Sprintf("%d ticks from %s on: %s", count, clock(first), message)
	}
	remember(status, v1alpha1.TriggerRun{ID: runID(d.trigger.UID, last), ScheduledAt: metav1.NewTime(last), Result: v1alpha1.RunMissed, Message: message})
}

// run decides about one tick that may still run.
func (d due) run(status *v1alpha1.TriggerStatus, tick time.Time) decision {
	run := v1alpha1.TriggerRun{ID: runID(d.trigger.UID, tick), ScheduledAt: metav1.NewTime(tick), Result: v1alpha1.RunRefused, Message: d.refusal}
	stop := []string(nil)
	if run.Message == "" && len(d.running) > 0 {
		switch policy := d.trigger.Spec.Cron.ConcurrencyPolicy; {
		case policy == v1alpha1.ReplaceConcurrent:
			stop = d.running
			replace(status, stop, d.now, tick)
		case policy != v1alpha1.AllowConcurrent:
			run.Message = "the last run has not ended (concurrencyPolicy Forbid)"
		case len(d.running) >= maxAtOnce:
			run.Message = fmt.Sprintf("%d runs go on already", len(d.running))
		}
	}
	if run.Message != "" {
		remember(status, run)
		return decision{}
	}
	run.Result, run.StartedAt = v1alpha1.RunRunning, &metav1.MicroTime{Time: d.now}
	remember(status, run)
	return decision{start: &run, stop: stop}
}

// replace marks runs as ended by a later tick.
func replace(status *v1alpha1.TriggerStatus, ids []string, now, tick time.Time) {
	for i := range status.History {
		run := &status.History[i]
		if run.Result != v1alpha1.RunRunning || !slices.Contains(ids, run.ID) {
			continue
		}
		run.Result, run.Message = v1alpha1.RunReplaced, "ended by the tick of "+clock(tick)
		if run.StartedAt != nil {
			run.DurationMilliseconds = new(now.Sub(run.StartedAt.Time).Milliseconds())
		}
	}
}

// settle writes outcomes into the history. A run that it holds to be going on, but that this process does not have, was fired or was
// about to be fired by an earlier one: nobody will ever know.
func settle(status *v1alpha1.TriggerStatus, mine map[string]*Outcome) {
	for i := range status.History {
		run := &status.History[i]
		if run.Result != v1alpha1.RunRunning {
			continue
		}
		switch outcome, known := mine[run.ID]; {
		case !known:
			run.Result = v1alpha1.RunUnknown
			run.Message = "the operator ended before it recorded an outcome; the call may or may not have been made"
		case outcome != nil:
			run.Result, run.Message = outcome.Result, outcome.Message
			if !outcome.Started.IsZero() {
				run.StartedAt = &metav1.MicroTime{Time: outcome.Started}
				run.DurationMilliseconds = new(outcome.Duration.Milliseconds())
			}
		}
	}
}

// activate notes which schedule is in force and since when. Ticks before that never run: not those of a schedule that is no more, nor
// those of the time in which the Trigger was disabled. A Trigger that has not been touched since it was made has been in force since then.
func activate(status *v1alpha1.TriggerStatus, trigger *v1alpha1.Trigger, now time.Time) {
	cron, active := trigger.Spec.Cron, status.ActiveSchedule
	if active != nil && active.Schedule == cron.Schedule && active.TimeZone == cron.TimeZone {
		return
	}
	since := metav1.NewTime(now.Truncate(time.Second))
	if active == nil && trigger.Generation == 1 && status.ObservedGeneration <= 0 {
		since = trigger.CreationTimestamp
	}
	status.ActiveSchedule = &v1alpha1.ActiveSchedule{Schedule: cron.Schedule, TimeZone: cron.TimeZone, Since: since}
}

// silence notes that no schedule is in force.
func silence(status *v1alpha1.TriggerStatus) {
	status.ActiveSchedule, status.NextScheduleTime = nil, nil
}

// remember puts a run at the head of the history. What falls off is the oldest run that has ended, so that the outcome of one that
// goes on has a place to be written to.
func remember(status *v1alpha1.TriggerStatus, run v1alpha1.TriggerRun) {
	status.History = append([]v1alpha1.TriggerRun{run}, status.History...)
	if len(status.History) <= historyLength {
		return
	}
	oldest := len(status.History) - 1
	for i := oldest; i > 0; i-- {
		if status.History[i].Result != v1alpha1.RunRunning {
			oldest = i
			break
		}
	}
	status.History = slices.Delete(status.History, oldest, oldest+1)
}

// runID returns the id of a tick's run: the same whoever computes it.
func runID(uid types.UID, tick time.Time) string {
	return names.Hash(string(uid), tick.UTC().Format(time.RFC3339))[:32]
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func timeOrNil(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}
