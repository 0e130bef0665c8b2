package e2e

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

const jobHandler = `import time
def handle(event):
    if event.get('fail'):
        raise ValueError('asked to fail')
    time.sleep(event.get('sleep', 0))
    return {'sum': sum(event.get('numbers', []))}
`

// The whole life of a FunctionJob: before its Function, skipped, run 1, run 2, failure, time-out, deletion in mid-run.
func TestFunctionJob(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)

	apply(t, namespace, job("sum", "adder", `eventJSON: '{"numbers": [1, 2, 3]}'`))
	waitJob(t, namespace, "sum", v1alpha1.FunctionJobSkipped)
	patch(t, namespace, "functionjob", "sum", `{"runID": 1}`)
	pending := waitJob(t, namespace, "sum", v1alpha1.FunctionJobPending)
	if !strings.Contains(pending.Status.Message, "adder") {
		t.Errorf("waits without naming the function: %q", pending.Status.Message)
	}

	apply(t, namespace, python("adder", jobHandler, "replicas: 0"))
	done := waitJob(t, namespace, "sum", v1alpha1.FunctionJobSucceeded)
	if done.Status.RunID != 1 || done.Status.Result != `{"sum":6}` && done.Status.Result != `{"sum": 6}` || done.Status.ExitCode == nil || *done.Status.ExitCode != 0 ||
		done.Status.StartTime == nil || done.Status.CompletionTime == nil || !strings.Contains(done.Status.Image, "@sha256:") {
		t.Errorf("after run 1 the status is %+v", done.Status)
	}
	kubectl(t, "", "wait", "-n", namespace, "functionjob/sum", "--for=condition=Ready", "--timeout="+patience.String())

	// The same number again, and an edit without a new number, run nothing.
	patch(t, namespace, "functionjob", "sum", `{"eventJSON": "{\"numbers\": [40, 2]}"}`)
	waitJob(t, namespace, "sum", v1alpha1.FunctionJobSucceeded)
	patch(t, namespace, "functionjob", "sum", `{"runID": 2, "ttlSecondsAfterFinished": 0}`)
	eventually(t, "run 2 has its result", func() error {
		if err := get(t, namespace, "sum", done); err != nil {
			return err
		}
		if done.Status.RunID != 2 || done.Status.Phase != v1alpha1.FunctionJobSucceeded || !strings.Contains(done.Status.Result, "42") {
			return fmt.Errorf("the status is %+v", done.Status)
		}
		return nil
	})
	gone(t, names.FunctionNamespace(namespace), done.Status.JobName, &batchv1.Job{})

	apply(t, namespace, job("fails", "adder", `runID: 1, eventJSON: '{"fail": true}'`))
	failed := waitJob(t, namespace, "fails", v1alpha1.FunctionJobFailed)
	if !strings.Contains(failed.Status.Message, "asked to fail") || failed.Status.ExitCode == nil || *failed.Status.ExitCode != 1 {
		t.Errorf("a failed run's status is %+v", failed.Status)
	}

	apply(t, namespace, job("late", "adder", `runID: 1, timeoutSeconds: 5, eventJSON: '{"sleep": 600}'`))
	late := waitJob(t, namespace, "late", v1alpha1.FunctionJobFailed)
	if ready, err := condition(late.Status.Conditions, late.Generation); err != nil || ready.Reason != v1alpha1.ReasonTimeout {
		t.Errorf("a run past its time has %v %+v", err, ready)
	}

	apply(t, namespace, job("stopped", "adder", `runID: 1, timeoutSeconds: 3000, eventJSON: '{"sleep": 2000}'`))
	waitJob(t, namespace, "stopped", v1alpha1.FunctionJobRunning)
	kubectl(t, "", "delete", "functionjob", "stopped", "-n", namespace)
	eventually(t, "its pod is gone", func() error {
		pods := &corev1.PodList{}
		if err := kube.List(t.Context(), pods, client.InNamespace(names.FunctionNamespace(namespace)), client.MatchingLabels{names.NameLabel: "stopped"}); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("there is %s", pods.Items[0].Name)
		}
		return nil
	})
}

// A job is disturbed neither by a change of its function nor by its deletion; a new run of a deleted function fails.
func TestFunctionJobKeepsItsImage(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	apply(t, namespace, python("f", "import time\ndef handle(event):\n    time.sleep(15)\n    return 'first'\n"))
	f := waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
	apply(t, namespace, job("j", "f", "runID: 1"))
	waitJob(t, namespace, "j", v1alpha1.FunctionJobRunning)
	apply(t, namespace, python("f", "def handle(event):\n    return 'second'\n"))
	done := waitJob(t, namespace, "j", v1alpha1.FunctionJobSucceeded)
	if done.Status.Result != `"first"` || done.Status.Image != f.Status.Image {
		t.Errorf("the run's result is %s of %s, want first of %s", done.Status.Result, done.Status.Image, f.Status.Image)
	}
	kubectl(t, "", "delete", "function", "f", "-n", namespace)
	patch(t, namespace, "functionjob", "j", `{"runID": 2}`)
	failed := waitJob(t, namespace, "j", v1alpha1.FunctionJobPending)
	if !strings.Contains(failed.Status.Message, "f") {
		t.Errorf("message %q", failed.Status.Message)
	}
}

func waitJob(t *testing.T, namespace, name string, phase v1alpha1.FunctionJobPhase) *v1alpha1.FunctionJob {
	t.Helper()
	object := &v1alpha1.FunctionJob{}
	eventually(t, fmt.Sprintf("FunctionJob %s is %s", name, phase), func() error {
		if err := get(t, namespace, name, object); err != nil {
			return err
		}
		if object.Status.ObservedGeneration != object.Generation || object.Status.Phase != phase {
			return fmt.Errorf("generation %d, status of %d: %s: %s", object.Generation, object.Status.ObservedGeneration, object.Status.Phase, object.Status.Message)
		}
		return nil
	})
	return object
}
