package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// schedules are functions of both runtimes that a cron Trigger calls every minute, in a namespace of their own.
type schedules struct{ namespace string }

// scheduledRuns is how many runs of each must have succeeded in the end.
const scheduledRuns = 3

var scheduled = map[string]v1alpha1.FunctionSpec{
	"cron-python": {Runtime: "python3.11", Source: v1alpha1.Source{Inline: map[string]v1alpha1.InlineFile{
		"handler.py": "def handle(event, context):\n    print('got', event['mark'], context.request_id, flush=True)\n    return 'done'\n"}}},
	"cron-node": {Runtime: "nodejs20", Source: v1alpha1.Source{Inline: map[string]v1alpha1.InlineFile{
		"handler.js": "exports.handle = async (event, context) => { console.log('got', event.mark, context.requestId); return 'done'; };\n"}}},
}

func startSchedules(ctx context.Context) (schedules, error) {
	s := schedules{namespace: "e2e-schedules-" + strings.ToLower(rand.Text()[:8])}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}}
	for name, spec := range scheduled {
		meta := metav1.ObjectMeta{Namespace: s.namespace, Name: name}
		objects = append(objects, &v1alpha1.Function{ObjectMeta: meta, Spec: spec}, &v1alpha1.Trigger{ObjectMeta: meta, Spec: v1alpha1.TriggerSpec{
			FunctionRef: v1alpha1.FunctionRef{Name: name}, Type: v1alpha1.TriggerCron,
			Cron: &v1alpha1.CronTrigger{Schedule: "* * * * *", EventJSON: fmt.Sprintf(`{"mark": "tick-of-%s"}`, name)},
		}})
	}
	for _, object := range objects {
		if err := kube.Create(ctx, object); err != nil {
			return s, fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
		}
	}
	return s, nil
}

// judge waits until every schedule has run often enough, looks at what its history and its function's log say, and cleans up.
func (s schedules) judge(ctx context.Context) error {
	var errs []error
	for name := range scheduled {
		if err := s.judgeOne(ctx, name); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	errs = append(errs, kube.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
	return errors.Join(errs...)
}

func (s schedules) judgeOne(ctx context.Context, name string) error {
	trigger, readErr := &v1alpha1.Trigger{}, error(nil)
	err := wait.PollUntilContextTimeout(ctx, time.Second, patience, true, func(ctx context.Context) (bool, error) {
		readErr = kube.Get(ctx, clientKey(s.namespace, name), trigger)
		return readErr == nil && len(succeeded(trigger.Status.History)) >= scheduledRuns, nil
	})
	if err != nil {
		return fmt.Errorf("has not run %d times (%+v): %w", scheduledRuns, trigger.Status, errors.Join(err, readErr))
	}
	if err := checkHistory(trigger.Status); err != nil {
		return err
	}
	var missing error
	_ = wait.PollUntilContextTimeout(ctx, time.Second, patience, true, func(ctx context.Context) (bool, error) {
		missing = s.missing(ctx, name, succeeded(trigger.Status.History)[:scheduledRuns])
		return missing == nil, nil
	})
	return missing
}

// missing complains of a run that a function's log does not have.
func (s schedules) missing(ctx context.Context, name string, runs []v1alpha1.TriggerRun) error {
	out, err := exec.CommandContext(ctx, "kubectl", "logs", "-n", names.FunctionNamespace(s.namespace), "deployment/"+name).CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl logs: %w: %s", err, out)
	}
	for _, run := range runs {
		if want := "got tick-of-" + name + " " + run.ID; !strings.Contains(string(out), want) {
			return fmt.Errorf("its log does not have %q:\n%s", want, out)
		}
	}
	return nil
}

func succeeded(history []v1alpha1.TriggerRun) []v1alpha1.TriggerRun {
	var runs []v1alpha1.TriggerRun
	for _, run := range history {
		if run.Result == v1alpha1.RunSucceeded {
			runs = append(runs, run)
		}
	}
	return runs
}

// checkHistory sees that every tick is a whole minute, each is there once, the newest first, and that the rest of the status agrees.
func checkHistory(status v1alpha1.TriggerStatus) error {
	for i, run := range status.History {
		if run.ScheduledAt.Second() != 0 {
			return fmt.Errorf("a tick at %s", run.ScheduledAt)
		}
		if i > 0 && !run.ScheduledAt.Before(&status.History[i-1].ScheduledAt) {
			return fmt.Errorf("ticks out of order or twice: %s after %s", status.History[i-1].ScheduledAt, run.ScheduledAt)
		}
	}
	if status.NextScheduleTime == nil || status.LastScheduleTime == nil || status.NextScheduleTime.Sub(status.LastScheduleTime.Time) > 2*time.Minute {
		return fmt.Errorf("last tick %s, next %s", status.LastScheduleTime, status.NextScheduleTime)
	}
	return nil
}
