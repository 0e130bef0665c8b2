package trigger

import (
	"context"
	"time"

	"github.com/naeel/sless/api/v1alpha1"
)

// reconcileCron writes the outcomes that have come and the ticks that are due into the status.
func (r *Reconciler) reconcileCron(_ context.Context, s *scope) error {
	status := &s.trigger.Status
	settle(status, s.mine)
	if s.schedule == nil || !s.trigger.IsEnabled() {
		silence(status)
		return nil
	}
	activate(status, s.trigger, s.now)
	if r.stopping.Load() {
		return nil
	}
	s.decision = due{now: s.now, trigger: s.trigger, schedule: s.schedule, running: s.running(), refusal: s.refusal()}.decide(status)
	return nil
}

// carryOut does what was decided, after the status that says so has been written.
func (r *Reconciler) carryOut(ctx context.Context, s *scope) {
	key := s.key()
	r.calls.forget(key, s.mine)
	r.calls.stop(key, s.decision.stop)
	run := s.decision.start
	if run == nil {
		return
	}
	cron := s.trigger.Spec.Cron
	call := Call{
		Namespace:   key.Namespace,
		Function:    s.function.Name,
		Trigger:     key.Name,
		ID:          run.ID,
		Event:       cron.EventJSON,
		Timeout:     time.Duration(s.function.Spec.TimeoutSeconds) * time.Second,
		StartWithin: time.Duration(cron.StartingDeadlineSeconds)*time.Second - s.now.Sub(run.ScheduledAt.Time),
	}
	if call.Event == "" {
		call.Event = "{}"
	}
	r.calls.start(ctx, s.trigger, run, call.StartWithin,
		func(ctx context.Context) Outcome { return r.Gateway.Call(ctx, call) },
		func() { r.wake(key) })
}

// next returns after how long the next tick is due; 0 when none is to come.
func (s *scope) next(now time.Time) time.Duration {
	tick := s.trigger.Status.NextScheduleTime
	if s.trigger.Spec.Type != v1alpha1.TriggerCron || tick == nil {
		return 0
	}
	return max(tick.Sub(now), time.Millisecond)
}
