package trigger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
)

// firing is one cron Trigger on a real API server, with a clock set by hand and passes made one by one.
type firing struct {
	t       *testing.T
	clock   *handClock
	gateway *recorder
	process *Reconciler
	key     client.ObjectKey
	// zero is the whole minute after the Trigger was made.
	zero time.Time
}

func newFiring(t *testing.T, cron v1alpha1.CronTrigger) *firing {
	t.Helper()
	namespace := newNamespace(t)
	if cron.Schedule == "" {
		cron.Schedule = "* * * * *"
	}
	newFunction(t, namespace, "f")
	trigger := create(t, newTrigger(namespace, "t", v1alpha1.TriggerSpec{Cron: &cron}))
	f := &firing{t: t, clock: &handClock{}, gateway: &recorder{}, key: client.ObjectKeyFromObject(trigger),
		zero: trigger.CreationTimestamp.Truncate(time.Minute).Add(time.Minute)}
	f.clock.set(trigger.CreationTimestamp.Time)
	f.process = f.newProcess()
	f.pass()
	return f
}

// newProcess is an operator that has just been started.
func (f *firing) newProcess() *Reconciler {
	process := &Reconciler{Client: kube, Config: &config.Config{}, Gateway: f.gateway, Now: f.clock.Now}
	process.setDefaults()
	process.reader = kube
	f.t.Cleanup(process.calls.stopAll)
	return process
}

// at sets the clock to a minute after zero, and some seconds, and makes a pass.
func (f *firing) at(minute int, seconds int) {
	f.t.Helper()
	f.clock.set(f.zero.Add(time.Duration(minute)*time.Minute + time.Duration(seconds)*time.Second))
	f.pass()
}

func (f *firing) pass() {
	f.t.Helper()
	if _, err := f.process.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: f.key}); err != nil {
		f.t.Fatal(err)
	}
}

// settled waits until no call goes on, and makes a pass.
func (f *firing) settled() {
	f.t.Helper()
	eventually(f.t, "no call goes on", func() error {
		if _, going := f.process.calls.open(); going > 0 {
			return fmt.Errorf("%d do", going)
		}
		return nil
	})
	f.pass()
}

func (f *firing) status() v1alpha1.TriggerStatus {
	f.t.Helper()
	return get(f.t, f.key.Namespace, f.key.Name, &v1alpha1.Trigger{}).Status
}

// want compares the history, told as minutes after zero.
func (f *firing) want(lines ...string) {
	f.t.Helper()
	got := []string{}
	for _, run := range f.status().History {
		line := fmt.Sprintf("%d %s", int(run.ScheduledAt.Sub(f.zero)/time.Minute), run.Result)
		got = append(got, strings.TrimSpace(line))
	}
	if diff := cmp.Diff(append([]string{}, lines...), got); diff != "" {
		f.t.Errorf("history (-want +got):\n%s", diff)
	}
}

func (f *firing) patch(spec string) {
	f.t.Helper()
	patch(f.t, get(f.t, f.key.Namespace, f.key.Name, &v1alpha1.Trigger{}), spec)
}

func TestATickIsFiredOnce(t *testing.T) {
	f := newFiring(t, v1alpha1.CronTrigger{EventJSON: `{"a": 1}`})
	if status := f.status(); !status.NextScheduleTime.Time.Equal(f.zero) || status.LastScheduleTime != nil || status.Phase != v1alpha1.TriggerReady {
		t.Errorf("before the first tick: %+v", status)
	}
	f.at(0, 0)
	f.pass()
	f.settled()
	f.pass()
	f.at(0, 59)
	status := f.status()
	f.want("0 Succeeded")
	if !status.LastScheduleTime.Time.Equal(f.zero) || !status.NextScheduleTime.Time.Equal(f.zero.Add(time.Minute)) {
		t.Errorf("last %s, next %s, want %s and a minute later", status.LastScheduleTime, status.NextScheduleTime, f.zero)
	}
	call, total := f.gateway.last()
	want := Call{Namespace: f.key.Namespace, Function: "f", Trigger: f.key.Name, ID: status.History[0].ID, Event: `{"a": 1}`, Timeout: time.Minute, StartWithin: time.Minute}
	if diff := cmp.Diff(want, call); diff != "" || total != 1 {
		t.Errorf("%d calls, the last (-want +got):\n%s", total, diff)
	}
	f.patch(`{"cron": {"eventJSON": null}}`)
	f.at(1, 0)
	f.settled()
	f.want("1 Succeeded", "0 Succeeded")
	if call, _ := f.gateway.last(); call.Event != "{}" {
		t.Errorf("without an event the body is %q", call.Event)
	}
}

// The same passes again write nothing, so a Trigger whose time has not come costs no write.
func TestTwoWritesAFiring(t *testing.T) {
	f := newFiring(t, v1alpha1.CronTrigger{})
	writes := 0
	f.process.Client = interceptor.NewClient(kube, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
		writes++
		return c.SubResource(sub).Patch(ctx, object, patch, options...)
	}})
	f.at(0, -1)
	f.at(0, 0)
	f.settled()
	f.pass()
	f.at(0, 30)
	if writes != 2 {
		t.Errorf("%d writes for one firing, want 2", writes)
	}
}

func TestOutcomesAreRecorded(t *testing.T) {
	f := newFiring(t, v1alpha1.CronTrigger{})
	f.gateway.answers(func(context.Context, Call) Outcome {
		return Outcome{Result: v1alpha1.RunFailed, Message: "why", Started: f.clock.Now(), Duration: 1234 * time.Millisecond}
	})
	f.at(0, 0)
	f.settled()
	run := f.status().History[0]
	if run.Result != v1alpha1.RunFailed || run.Message != "why" || *run.DurationMilliseconds != 1234 || run.StartedAt == nil {
		t.Errorf("the run is %+v", run)
	}
	f.gateway.answers(func(context.Context, Call) Outcome { return Outcome{Result: v1alpha1.RunRefused, Message: "full"} })
	f.at(1, 0)
	f.settled()
	f.want("1 Refused", "0 Failed")
}

func TestForbidRefusesWhileARunGoesOn(t *testing.T) {
	f := newFiring(t, v1alpha1.CronTrigger{})
	release := make(chan struct{})
	f.gateway.answers(func(context.Context, Call) Outcome {
		<-release
		return Outcome{Result: v1alpha1.RunSucceeded}
	})
	f.at(0, 0)
	for minute := 1; minute <= 12; minute++ {
		f.at(minute, 0)
	}
	close(release)
	f.settled()
	f.want("12 Refused", "11 Refused", "10 Refused", "9 Refused", "8 Refused", "7 Refused", "6 Refused", "5 Refused", "4 Refused", "0 Succeeded")
	f.at(13, 0)
	f.settled()
	if _, total := f.gateway.last(); total != 2 {
		t.Errorf("%d calls, want 2", total)
	}
}

func TestAllowRunsBoth(t *testing.T) {
	f := newFiring(t, v1alpha1.CronTrigger{ConcurrencyPolicy: v1alpha1.AllowConcurrent})
	release := make(chan struct{})
	f.gateway.answers(func(context.Context, Call) Outcome {
		<-release
		return Outcome{Result: v1alpha1.RunSucceeded}
	})
	for minute := range 12 {
		f.at(minute, 0)
	}
	eventually(t, "ten calls go on", func() error {
		if _, total := f.gateway.last(); total != 10 {
			return fmt.Errorf("%d", total)
		}
		return nil
	})
	close(release)
	f.settled()
	f.want("11 Refused", "9 Succeeded", "8 Succeeded", "7 Succeeded", "6 Succeeded", "5 Succeeded", "4 Succeeded", "3 Succeeded", "2 Succeeded", "1 Succeeded")
}

func TestReplaceEndsTheRunBefore(t *testing.T) {
	f := newFiring(t, v1alpha1.CronTrigger{ConcurrencyPolicy: v1alpha1.ReplaceConcurrent})
	called := make(chan struct{})
	f.gateway.answers(func(ctx context.Context, call Call) Outcome {
		close(called)
		<-ctx.Done()
		return Outcome{Result: v1alpha1.RunReplaced}
	})
	f.at(0, 0)
	<-called
	f.gateway.answers(nil)
	f.at(1, 0)
	f.settled()
	f.want("1 Succeeded", "0 Replaced")
	if replaced := f.status().History[1]; replaced.DurationMilliseconds == nil || *replaced.DurationMilliseconds != 60000 {
		t.Errorf("the replaced run is %+v", replaced)
	}
}

// A cache that is behind this process's own write loses no outcome, whatever the Trigger has become since.
func TestAnOutcomeIsKeptUntilItIsRecorded(t *testing.T) {
	f := newFiring(t, v1alpha1.CronTrigger{})
	old := get(t, f.key.Namespace, f.key.Name, &v1alpha1.Trigger{})
	f.at(0, 0)
	eventually(t, "the call has ended", func() error {
		if _, going := f.process.calls.open(); going > 0 {
			return errors.New("it goes on")
		}
		return nil
	})
	f.process.Client = interceptor.NewClient(kube, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
		if trigger, ok := into.(*v1alpha1.Trigger); ok {
			old.DeepCopyInto(trigger)
			return nil
		}
		return c.Get(ctx, key, into, options...)
	}})
	f.process.stopping.Store(true) // so that the tick is not due once more, which would fail
	f.pass()
	f.want("0 Succeeded")
	if keys, _ := f.process.calls.open(); len(keys) > 0 {
		t.Errorf("the outcome of %v stays in memory", keys)
	}
}

// What another process has fired, or was about to, is neither fired again nor forgotten.
func TestARunOfAnEarlierProcessIsUnknown(t *testing.T) {
	f := newFiring(t, v1alpha1.CronTrigger{})
	f.gateway.answers(func(ctx context.Context, _ Call) Outcome {
		<-ctx.Done()
		return Outcome{Result: v1alpha1.RunSucceeded}
	})
	f.at(0, 0)
	f.want("0 Running")
	f.process = f.newProcess()
	f.pass()
	f.want("0 Unknown")
	f.gateway.answers(nil)
	f.at(1, 0) // Forbid does not wait for what nobody knows
	f.settled()
	f.want("1 Succeeded", "0 Unknown")
	for id, count := range f.gateway.counts() {
		if count != 1 {
			t.Errorf("%s was called %d times", id, count)
		}
	}
}

// Two operators that both believe to lead, at the same tick, many times.
func TestTwoOperatorsFireATickOnce(t *testing.T) {
	f := newFiring(t, v1alpha1.CronTrigger{ConcurrencyPolicy: v1alpha1.AllowConcurrent})
	processes := []*Reconciler{f.process, f.newProcess(), f.newProcess()}
	const ticks = 60
	for minute := range ticks {
		f.clock.set(f.zero.Add(time.Duration(minute) * time.Minute))
		var passes sync.WaitGroup
		for _, process := range processes {
			passes.Go(func() {
				if _, err := process.Reconcile(t.Context(), ctrl.Request{NamespacedName: f.key}); err != nil {
					t.Error(err)
				}
			})
		}
		passes.Wait()
	}
	eventually(t, "all are called", func() error {
		if got := len(f.gateway.counts()); got != ticks {
			return fmt.Errorf("%d of %d", got, ticks)
		}
		return nil
	})
	for id, count := range f.gateway.counts() {
		if count != 1 {
			t.Errorf("%s was called %d times", id, count)
		}
	}
}

// A tick whose record may or may not have been stored is never fired.
func TestNothingIsFiredWithoutItsRecord(t *testing.T) {
	for _, test := range []struct {
		name   string
		stored bool
		want   []string
	}{
		{"the write fails", false, []string{"0 Succeeded"}},
		{"the write succeeds and its answer is lost", true, []string{"0 Unknown"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFiring(t, v1alpha1.CronTrigger{})
			f.process.Client = interceptor.NewClient(kube, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
				if test.stored {
					if err := c.SubResource(sub).Patch(ctx, object, patch, options...); err != nil {
						return err
					}
				}
				return errors.New("connection lost")
			}})
			f.clock.set(f.zero)
			if _, err := f.process.Reconcile(t.Context(), ctrl.Request{NamespacedName: f.key}); err == nil {
				t.Error("a failed write is no error")
			}
			if _, total := f.gateway.last(); total != 0 {
				t.Fatal("it was fired")
			}
			f.process.Client = kube
			f.pass()
			f.settled()
			f.want(test.want...)
		})
	}
}

func TestTicksOfThePastNeverRun(t *testing.T) {
	f := newFiring(t, v1alpha1.CronTrigger{StartingDeadlineSeconds: 86400})
	f.patch(`{"enabled": false}`)
	f.at(0, 0)
	if status := f.status(); status.NextScheduleTime != nil || status.Phase != v1alpha1.TriggerDisabled {
		t.Errorf("disabled: %+v", status)
	}
	f.at(3, 30)
	f.patch(`{"enabled": true}`)
	f.pass()
	f.want()
	f.at(4, 0)
	f.settled()
	f.want("4 Succeeded")

	f.patch(`{"cron": {"schedule": "0 0 1 1 *"}}`)
	f.at(5, 30)
	f.patch(`{"cron": {"schedule": "*/1 * * * *"}}`)
	f.at(7, 30)
	f.want("4 Succeeded")
	f.at(8, 0)
	f.settled()
	f.want("8 Succeeded", "4 Succeeded")
}

// An operator that was away runs the last of the ticks that it missed, if that is not too old, and says what became of the others.
func TestMissedTicks(t *testing.T) {
	f := newFiring(t, v1alpha1.CronTrigger{StartingDeadlineSeconds: 30})
	f.at(4, 20)
	f.settled()
	f.want("4 Succeeded", "3 Missed")
	f.process = f.newProcess()
	f.at(9, 31)
	f.want("9 Missed", "4 Succeeded", "3 Missed")
	if run := f.status().History[0]; !strings.HasPrefix(run.Message, "5 ticks from") {
		t.Errorf("five missed ticks are told as %q", run.Message)
	}
}

func TestAFunctionThatDoesNotExist(t *testing.T) {
	f := newFiring(t, v1alpha1.CronTrigger{})
	function := get(t, f.key.Namespace, "f", &v1alpha1.Function{})
	if err := kube.Delete(t.Context(), function); err != nil {
		t.Fatal(err)
	}
	f.at(0, 0)
	f.want("0 Refused")
	if status := f.status(); status.History[0].Message != "Function f does not exist" || status.Conditions[0].Reason != v1alpha1.ReasonFunctionNotFound || status.NextScheduleTime == nil {
		t.Errorf("status %+v", status)
	}
	newFunction(t, f.key.Namespace, "f")
	f.at(1, 0)
	f.settled()
	f.want("1 Succeeded", "0 Refused")
}

// What cannot be is said, fires nothing, and heals when it is mended.
func TestBadSchedulesAndEvents(t *testing.T) {
	f := newFiring(t, v1alpha1.CronTrigger{})
	for minute, test := range []struct{ spec, reason, message string }{
		{`{"cron": {"timeZone": "Europe/Atlantis"}}`, v1alpha1.ReasonInvalidSchedule, "Europe/Atlantis"},
		{`{"cron": {"timeZone": "UTC", "schedule": "0 0 30 2 *"}}`, v1alpha1.ReasonInvalidSchedule, "never comes"},
		{`{"cron": {"schedule": "5-1 * * * *"}}`, v1alpha1.ReasonInvalidSchedule, "5-1"},
		{`{"cron": {"schedule": "* * * * *", "eventJSON": "{not json"}}`, v1alpha1.ReasonInvalidEvent, "eventJSON"},
	} {
		f.patch(test.spec)
		f.at(minute, 0)
		status := f.status()
		ready := status.Conditions[0]
		if ready.Status != "False" || ready.Reason != test.reason || !strings.Contains(ready.Message, test.message) || status.Phase != v1alpha1.TriggerFailed {
			t.Errorf("%s: Ready is %s %s %q, phase %s", test.spec, ready.Status, ready.Reason, ready.Message, status.Phase)
		}
		if status.NextScheduleTime != nil || len(status.History) > 0 {
			t.Errorf("%s: next %s, history %v", test.spec, status.NextScheduleTime, status.History)
		}
	}
	f.patch(`{"cron": {"eventJSON": "[1, 2]"}}`)
	f.at(4, 30)
	f.at(5, 0)
	f.settled()
	f.want("5 Succeeded")
}

// A call goes on when its Trigger is edited, disabled or deleted; only the future is stopped.
func TestARunOutlivesItsTrigger(t *testing.T) {
	f := newFiring(t, v1alpha1.CronTrigger{})
	release, ended := make(chan struct{}), make(chan error, 1)
	f.gateway.answers(func(ctx context.Context, _ Call) Outcome {
		<-release
		ended <- ctx.Err()
		return Outcome{Result: v1alpha1.RunSucceeded}
	})
	f.at(0, 0)
	f.patch(`{"enabled": false}`)
	f.at(1, 0)
	f.want("0 Running")
	if err := kube.Delete(t.Context(), get(t, f.key.Namespace, "t", &v1alpha1.Trigger{})); err != nil {
		t.Fatal(err)
	}
	f.at(2, 0)
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("the call was ended: %v", err)
	}
	f.settled()
	if keys, _ := f.process.calls.open(); len(keys) > 0 {
		t.Errorf("the ended call of a deleted Trigger stays in memory: %v", keys)
	}

	// A new Trigger of the same name has nothing to do with it.
	trigger := newTrigger(f.key.Namespace, "t", v1alpha1.TriggerSpec{Cron: &v1alpha1.CronTrigger{Schedule: "* * * * *"}})
	f.clock.set(create(t, trigger).CreationTimestamp.Time)
	f.pass()
	f.want()
}

// More calls than may go on at a time wait for their turn, and are refused when it does not come in time.
func TestCallsAreBounded(t *testing.T) {
	f := newFiring(t, v1alpha1.CronTrigger{ConcurrencyPolicy: v1alpha1.AllowConcurrent, StartingDeadlineSeconds: 1})
	f.process.calls = newCalls(1)
	release := make(chan struct{})
	f.gateway.answers(func(context.Context, Call) Outcome {
		<-release
		return Outcome{Result: v1alpha1.RunSucceeded}
	})
	f.at(0, 0)
	eventually(t, "the first goes on", func() error {
		if _, total := f.gateway.last(); total != 1 {
			return errors.New("not yet")
		}
		return nil
	})
	f.at(1, 0)
	eventually(t, "the second is refused", func() error {
		f.pass()
		if result := f.status().History[0].Result; result != v1alpha1.RunRefused {
			return fmt.Errorf("it is %s", result)
		}
		return nil
	})
	close(release)
	f.settled()
	f.want("1 Refused", "0 Succeeded")
}
