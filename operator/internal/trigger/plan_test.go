package trigger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/trigger/schedule"
)

// day is the day of every test's clock.
func day(clock string) time.Time {
	t, err := time.Parse(time.RFC3339, "2026-05-05T"+clock+"Z")
	if err != nil {
		panic(err)
	}
	return t
}

func cronTrigger(policy v1alpha1.ConcurrencyPolicy, deadline int32) *v1alpha1.Trigger {
	return &v1alpha1.Trigger{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t", UID: "uid", Generation: 1, CreationTimestamp: metav1.NewTime(day("09:00:30"))},
		Spec: v1alpha1.TriggerSpec{FunctionRef: v1alpha1.FunctionRef{Name: "f"}, Type: v1alpha1.TriggerCron, Cron: &v1alpha1.CronTrigger{
			Schedule: "* * * * *", TimeZone: "UTC", ConcurrencyPolicy: policy, StartingDeadlineSeconds: deadline}},
	}
}

// story tells a history in one line a run, the newest first.
func story(history []v1alpha1.TriggerRun) []string {
	lines := []string{}
	for _, run := range history {
		line := run.ScheduledAt.UTC().Format("15:04 ") + string(run.Result)
		if run.Message != "" {
			line += ": " + run.Message
		}
		lines = append(lines, line)
	}
	return lines
}

func TestDecide(t *testing.T) {
	const late = "noticed too late, or followed by another tick before it was noticed"
	running := v1alpha1.TriggerRun{ID: runID("uid", day("09:59:00")), ScheduledAt: metav1.NewTime(day("09:59:00")),
		StartedAt: &metav1.MicroTime{Time: day("09:59:00")}, Result: v1alpha1.RunRunning}
	for _, test := range []struct {
		name     string
		last     string
		now      string
		policy   v1alpha1.ConcurrencyPolicy
		deadline int32
		history  []v1alpha1.TriggerRun
		running  int
		refusal  string
		// want
		story    []string
		start    string
		stop     int
		lastTick string
	}{
		{name: "before the tick", last: "10:00:00", now: "10:00:59", deadline: 60, lastTick: "10:00:00", story: []string{}},
		{name: "at the tick", last: "10:00:00", now: "10:01:00", deadline: 60, lastTick: "10:01:00", start: "10:01:00", story: []string{"10:01 Running"}},
		{name: "a little late", last: "10:00:00", now: "10:01:09", deadline: 10, lastTick: "10:01:00", start: "10:01:00", story: []string{"10:01 Running"}},
		{name: "too late", last: "10:00:00", now: "10:01:11", deadline: 10, lastTick: "10:01:00", story: []string{"10:01 Missed: " + late}},
		{name: "never before", now: "09:01:00", deadline: 60, lastTick: "09:01:00", start: "09:01:00", story: []string{"09:01 Running"}},
		{name: "made after the tick", now: "09:00:45", deadline: 60, story: []string{}},
		{name: "many missed, the newest runs", last: "10:00:00", now: "10:05:03", deadline: 60, lastTick: "10:05:00", start: "10:05:00",
			story: []string{"10:05 Running", "10:04 Missed: 4 ticks from 2026-05-05T10:01:00Z on: " + late}},
		{name: "all within the deadline, still one runs", last: "10:00:00", now: "10:02:00", deadline: 600, lastTick: "10:02:00", start: "10:02:00",
			story: []string{"10:02 Running", "10:01 Missed: " + late}},
		{name: "the clock went back", last: "10:05:00", now: "10:03:00", deadline: 60, lastTick: "10:05:00", story: []string{}},

		{name: "Forbid while one goes on", last: "09:59:00", now: "10:00:00", policy: v1alpha1.ForbidConcurrent, deadline: 60,
			history: []v1alpha1.TriggerRun{running}, running: 1, lastTick: "10:00:00",
			story: []string{"10:00 Refused: the last run has not ended (concurrencyPolicy Forbid)", "09:59 Running"}},
		{name: "Forbid is the default", last: "09:59:00", now: "10:00:00", policy: "", deadline: 60,
			history: []v1alpha1.TriggerRun{running}, running: 1, lastTick: "10:00:00",
			story: []string{"10:00 Refused: the last run has not ended (concurrencyPolicy Forbid)", "09:59 Running"}},
		{name: "Allow while one goes on", last: "09:59:00", now: "10:00:00", policy: v1alpha1.AllowConcurrent, deadline: 60,
			history: []v1alpha1.TriggerRun{running}, running: 1, lastTick: "10:00:00", start: "10:00:00", story: []string{"10:00 Running", "09:59 Running"}},
		{name: "Allow has an end", last: "09:59:00", now: "10:00:00", policy: v1alpha1.AllowConcurrent, deadline: 60, running: 10, lastTick: "10:00:00",
			story: []string{"10:00 Refused: 10 runs go on already"}},
		{name: "Replace while one goes on", last: "09:59:00", now: "10:00:00", policy: v1alpha1.ReplaceConcurrent, deadline: 60,
			history: []v1alpha1.TriggerRun{running}, running: 1, lastTick: "10:00:00", start: "10:00:00", stop: 1,
			story: []string{"10:00 Running", "09:59 Replaced: ended by the tick of 2026-05-05T10:00:00Z"}},
		{name: "no function", last: "09:59:00", now: "10:00:00", deadline: 60, refusal: "Function f does not exist", lastTick: "10:00:00",
			story: []string{"10:00 Refused: Function f does not exist"}},
		{name: "no function, nothing is replaced for it", last: "09:59:00", now: "10:00:00", policy: v1alpha1.ReplaceConcurrent, deadline: 60,
			history: []v1alpha1.TriggerRun{running}, running: 1, refusal: "Function f does not exist", lastTick: "10:00:00",
			story: []string{"10:00 Refused: Function f does not exist", "09:59 Running"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			trigger := cronTrigger(test.policy, test.deadline)
			status := &v1alpha1.TriggerStatus{History: test.history}
			if test.last != "" {
				status.LastScheduleTime = &metav1.Time{Time: day(test.last)}
			}
			activate(status, trigger, day(test.now))
			parsed, err := schedule.Parse(trigger.Spec.Cron.Schedule, trigger.Spec.Cron.TimeZone)
			if err != nil {
				t.Fatal(err)
			}
			ids := []string{running.ID, "b", "c", "d", "e", "f", "g", "h", "i", "j"}[:test.running]
			got := due{now: day(test.now), trigger: trigger, schedule: parsed, running: ids, refusal: test.refusal}.decide(status)

			if diff := cmp.Diff(test.story, story(status.History)); diff != "" {
				t.Errorf("history (-want +got):\n%s", diff)
			}
			switch {
			case test.start == "" && got.start != nil:
				t.Errorf("started %s", got.start.ScheduledAt)
			case test.start != "" && (got.start == nil || !got.start.ScheduledAt.Equal(&metav1.Time{Time: day(test.start)})):
				t.Errorf("started %v, want the tick of %s", got.start, test.start)
			}
			if len(got.stop) != test.stop {
				t.Errorf("stopped %v, want %d runs", got.stop, test.stop)
			}
			if test.lastTick == "" != (status.LastScheduleTime == nil) || test.lastTick != "" && !status.LastScheduleTime.Time.Equal(day(test.lastTick)) {
				t.Errorf("last tick %v, want %s", status.LastScheduleTime, test.lastTick)
			}
			if next := status.NextScheduleTime; next == nil || !next.After(day(test.now)) || next.Sub(day(test.now)) > time.Minute {
				t.Errorf("next tick %v after %s", next, test.now)
			}
			again := due{now: day(test.now), trigger: trigger, schedule: parsed, running: ids}.decide(status)
			if again.start != nil || len(again.stop) > 0 {
				t.Errorf("the same moment again starts %v and stops %v", again.start, again.stop)
			}
		})
	}
}

func TestAVeryLongTimeMissedIsOneEntry(t *testing.T) {
	trigger := cronTrigger(v1alpha1.ForbidConcurrent, 60)
	status := &v1alpha1.TriggerStatus{LastScheduleTime: &metav1.Time{Time: day("00:00:00").AddDate(-1, 0, 0)}}
	activate(status, trigger, day("10:00:00"))
	status.ActiveSchedule.Since = *status.LastScheduleTime
	parsed, err := schedule.Parse("* * * * *", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	due{now: day("10:00:00"), trigger: trigger, schedule: parsed}.decide(status)
	if len(status.History) != 2 || !strings.HasPrefix(status.History[1].Message, "more than 1000 ticks from 2025-05-05T00:01:00Z on") {
		t.Errorf("history is %q", story(status.History))
	}
}

func TestActivate(t *testing.T) {
	now := day("12:00:00")
	created := cronTrigger("", 60)
	edited := cronTrigger("", 60)
	edited.Generation = 2
	active := func(schedule, zone, since string) *v1alpha1.ActiveSchedule {
		return &v1alpha1.ActiveSchedule{Schedule: schedule, TimeZone: zone, Since: metav1.NewTime(day(since))}
	}
	for _, test := range []struct {
		name    string
		trigger *v1alpha1.Trigger
		status  v1alpha1.TriggerStatus
		since   string
	}{
		{"new: since it was made, also when the operator comes later", created, v1alpha1.TriggerStatus{}, "09:00:30"},
		{"new and edited before it was seen", edited, v1alpha1.TriggerStatus{}, "12:00:00"},
		{"enabled again", edited, v1alpha1.TriggerStatus{ObservedGeneration: 1}, "12:00:00"},
		{"seen before, without a schedule", created, v1alpha1.TriggerStatus{ObservedGeneration: 1}, "12:00:00"},
		{"unchanged", edited, v1alpha1.TriggerStatus{ActiveSchedule: active("* * * * *", "UTC", "10:00:00")}, "10:00:00"},
		{"another schedule", edited, v1alpha1.TriggerStatus{ActiveSchedule: active("5 * * * *", "UTC", "10:00:00")}, "12:00:00"},
		{"another zone", edited, v1alpha1.TriggerStatus{ActiveSchedule: active("* * * * *", "Asia/Tokyo", "10:00:00")}, "12:00:00"},
	} {
		activate(&test.status, test.trigger, now)
		if got := test.status.ActiveSchedule.Since.Time; !got.Equal(day(test.since)) {
			t.Errorf("%s: since %s, want %s", test.name, got, test.since)
		}
	}
}

func TestSettle(t *testing.T) {
	run := func(id string, result v1alpha1.RunResult) v1alpha1.TriggerRun {
		return v1alpha1.TriggerRun{ID: id, ScheduledAt: metav1.NewTime(day("10:00:00")), Result: result}
	}
	status := v1alpha1.TriggerStatus{History: []v1alpha1.TriggerRun{
		run("going", v1alpha1.RunRunning), run("ended", v1alpha1.RunRunning), run("another's", v1alpha1.RunRunning), run("replaced", v1alpha1.RunReplaced),
	}}
	settle(&status, map[string]*Outcome{
		"going":    nil,
		"ended":    {Result: v1alpha1.RunFailed, Message: "why", Started: day("10:00:01"), Duration: 1500 * time.Millisecond},
		"replaced": {Result: v1alpha1.RunSucceeded},
	})
	want := []string{"10:00 Running", "10:00 Failed: why",
		"10:00 Unknown: the operator ended before it recorded an outcome; the call may or may not have been made", "10:00 Replaced"}
	if diff := cmp.Diff(want, story(status.History)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if ended := status.History[1]; *ended.DurationMilliseconds != 1500 || !ended.StartedAt.Time.Equal(day("10:00:01")) {
		t.Errorf("ended after %d ms, started at %s", *ended.DurationMilliseconds, ended.StartedAt)
	}
}

func TestHistoryKeepsTenAndThoseThatGoOn(t *testing.T) {
	status := v1alpha1.TriggerStatus{}
	for minute := range 25 {
		result := v1alpha1.RunRefused
		if minute == 0 || minute == 3 {
			result = v1alpha1.RunRunning
		}
		remember(&status, v1alpha1.TriggerRun{ID: fmt.Sprint(minute), Result: result})
	}
	ids := []string{}
	for _, run := range status.History {
		ids = append(ids, run.ID)
	}
	if diff := cmp.Diff([]string{"24", "23", "22", "21", "20", "19", "18", "17", "3", "0"}, ids); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for minute := range 20 {
		remember(&status, v1alpha1.TriggerRun{ID: fmt.Sprint("running", minute), Result: v1alpha1.RunRunning})
	}
	if len(status.History) != 10 || status.History[0].ID != "running19" {
		t.Errorf("%d runs, the newest %s", len(status.History), status.History[0].ID)
	}
}

func TestRunIDsDiffer(t *testing.T) {
	tick := day("10:00:00")
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	if runID("a", tick) != runID("a", tick.In(berlin)) {
		t.Error("the id depends on the zone of the clock")
	}
	if runID("a", tick) == runID("a", tick.Add(time.Minute)) || runID("a", tick) == runID("b", tick) {
		t.Error("two ticks have one id")
	}
}
