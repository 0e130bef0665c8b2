package functionjob

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/ledger"
)

// The whole life: skipped, waiting, run 1, the same number again, a smaller one, run 2, failure.
func TestRunsEachRunIDOnce(t *testing.T) {
	namespace := newNamespace(t)
	o := startOperator(t, namespace)
	tenant := names.FunctionNamespace(namespace)
	create(t, newJob(namespace, "j", v1alpha1.FunctionJobSpec{}))
	job := waitPhase(t, namespace, "j", v1alpha1.FunctionJobSkipped, v1alpha1.ReasonSkipped)
	if job.Status.Conditions[0].Status != metav1.ConditionTrue || len(job.Finalizers) > 0 {
		t.Errorf("skipped: %+v, finalizers %v", job.Status, job.Finalizers)
	}

	patch(t, job, `{"runID": 3, "eventJSON": "{\"n\": 1}"}`)
	job = waitPhase(t, namespace, "j", v1alpha1.FunctionJobPending, v1alpha1.ReasonFunctionNotFound)
	if !strings.Contains(job.Status.Message, "Function f ") {
		t.Errorf("waits for %q", job.Status.Message)
	}
	function := newFunction(t, namespace)
	waitPhase(t, namespace, "j", v1alpha1.FunctionJobPending, v1alpha1.ReasonFunctionNotReady)
	setBuilt(t, function, metav1.ConditionFalse, v1alpha1.ReasonBuildFailed, "")
	job = waitPhase(t, namespace, "j", v1alpha1.FunctionJobPending, v1alpha1.ReasonFunctionFailed)
	if !strings.Contains(job.Status.Message, "what the build says") {
		t.Errorf("a failed build is told as %q", job.Status.Message)
	}
	setBuilt(t, function, metav1.ConditionTrue, v1alpha1.ReasonBuilt, image)
	job, run := waitRun(t, namespace, "j", 3)
	if job.Status.StartTime == nil || job.Status.Image != image || job.Status.CompletionTime != nil || job.Status.WaitsFor != nil {
		t.Errorf("running: %+v", job.Status)
	}
	event := get(t, tenant, run.Annotations[eventAnnotation], &corev1.Secret{})
	if string(event.Data["event.json"]) != `{"n": 1}` || len(event.OwnerReferences) != 1 || event.OwnerReferences[0].UID != run.UID {
		t.Errorf("the event is %s of %+v", event.Data, event.OwnerReferences)
	}
	if run.Spec.TTLSecondsAfterFinished != nil {
		t.Error("the Job may go before its result is recorded")
	}
	if from := run.Spec.Template.Spec.Containers[0].EnvFrom; len(from) != 1 || string(get(t, tenant, from[0].SecretRef.Name, &corev1.Secret{}).Data["A"]) != "b" {
		t.Errorf("the environment is %+v", from)
	}
	succeed(t, run, `{"sum": 6}`)
	job = waitPhase(t, namespace, "j", v1alpha1.FunctionJobSucceeded, v1alpha1.ReasonSucceeded)
	if s := job.Status; s.RunID != 3 || s.Result != `{"sum":6}` || *s.ExitCode != 0 || s.CompletionTime == nil || s.ResultTruncated || s.EndReason != "Succeeded" {
		t.Errorf("succeeded: %+v", s)
	}
	eventually(t, "the Job gets its time to live", func() error {
		if ttl := get(t, tenant, run.Name, run).Spec.TTLSecondsAfterFinished; ttl == nil || *ttl != 3600 {
			return errors.New("it has none")
		}
		return nil
	})

	// An edit without a new number, and a smaller number, run nothing and change nothing.
	before := job.Status.JobName
	for _, spec := range []string{`{"eventJSON": "{}"}`, `{"runID": 2}`, `{"runID": 3}`} {
		patch(t, job, spec)
		job = waitPhase(t, namespace, "j", v1alpha1.FunctionJobSucceeded, v1alpha1.ReasonSucceeded)
	}
	patch(t, job, `{"runID": 0}`)
	if job = waitPhase(t, namespace, "j", v1alpha1.FunctionJobSkipped, v1alpha1.ReasonSkipped); job.Status.JobName != before || job.Status.Result != `{"sum":6}` {
		t.Errorf("skipped after a run: %+v", job.Status)
	}

	patch(t, job, `{"runID": 4, "ttlSecondsAfterFinished": 0}`)
	_, run = waitRun(t, namespace, "j", 4)
	playPod(t, run, 1, `{"error": "ValueError: no"}`)
	playEnd(t, run, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
	job = waitPhase(t, namespace, "j", v1alpha1.FunctionJobFailed, v1alpha1.ReasonFailed)
	if s := job.Status; s.Message != "ValueError: no" || *s.ExitCode != 1 || s.Result != "" || s.Conditions[0].Message != s.Message {
		t.Errorf("failed: %+v", s)
	}
	eventually(t, "the failed Job gets its time to live", func() error {
		if ttl := get(t, tenant, run.Name, run).Spec.TTLSecondsAfterFinished; ttl == nil || *ttl != 0 {
			return errors.New("it has none")
		}
		return nil
	})
	var jobs batchv1.JobList
	if err := kube.List(t.Context(), &jobs, client.InNamespace(tenant)); err != nil || len(jobs.Items) != 2 {
		t.Errorf("%d Jobs were made for two runs, %v", len(jobs.Items), err)
	}

	// Each run is recorded once, when it has ended.
	uid := string(get(t, "", namespace, &corev1.Namespace{}).UID)
	_, digest, _ := strings.Cut(image, "@")
	want := []ledger.Record{
		{ID: string(job.UID) + "-3", Status: 200, BytesIn: 8, BytesOut: 9},
		{ID: string(job.UID) + "-4", Status: 500, Code: v1alpha1.ReasonFailed, BytesIn: 2},
	}
	got := o.ledger.all()
	for i := range want {
		w := &want[i]
		w.Namespace, w.NamespaceUID, w.Function, w.Job, w.Kind, w.Image, w.Attempt = namespace, uid, "f", "j", ledger.Job, digest, 1
	}
	for i := range got {
		if r := &got[i]; r.Started.IsZero() || r.Duration < 0 || r.Starting+r.Handler > r.Duration || r.Pod == "" {
			t.Errorf("record %+v", r)
		}
		got[i].Started, got[i].Duration, got[i].Starting, got[i].Handler, got[i].Pod = time.Time{}, 0, 0, 0, ""
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestTimeout(t *testing.T) {
	namespace := newNamespace(t)
	o := startOperator(t, namespace)
	builtFunction(t, namespace)
	create(t, newJob(namespace, "j", v1alpha1.FunctionJobSpec{RunID: 1, TimeoutSeconds: 5}))
	_, run := waitRun(t, namespace, "j", 1)
	if *run.Spec.ActiveDeadlineSeconds != 5 {
		t.Errorf("the Job may take %d s", *run.Spec.ActiveDeadlineSeconds)
	}
	playEnd(t, run, batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded)
	if job := waitPhase(t, namespace, "j", v1alpha1.FunctionJobFailed, v1alpha1.ReasonTimeout); job.Status.ExitCode != nil || !strings.Contains(job.Status.Message, "5 s") {
		t.Errorf("status %+v", job.Status)
	}
	eventually(t, "it is recorded", func() error {
		if got := o.ledger.all(); len(got) != 1 || got[0].Status != 504 || got[0].Code != v1alpha1.ReasonTimeout {
			return fmt.Errorf("records %+v", got)
		}
		return nil
	})
}

// A run keeps what it started with; a greater number waits until it has ended.
func TestAnEditWhileItRunsIsForTheNextRun(t *testing.T) {
	namespace := newNamespace(t)
	startOperator(t, namespace)
	function := builtFunction(t, namespace)
	create(t, newJob(namespace, "j", v1alpha1.FunctionJobSpec{RunID: 1, EventJSON: `"first"`}))
	job, first := waitRun(t, namespace, "j", 1)
	function.Spec.Entrypoint = "other.main"
	if err := kube.Update(t.Context(), function); err != nil {
		t.Fatal(err)
	}
	setBuilt(t, function, metav1.ConditionTrue, v1alpha1.ReasonBuilt, "registry.example.org/ns@sha256:4567")
	patch(t, job, `{"runID": 5, "eventJSON": "\"second\"", "timeoutSeconds": 9}`)
	job = waitPhase(t, namespace, "j", v1alpha1.FunctionJobRunning, v1alpha1.ReasonRunning)
	if job.Status.RunID != 1 || job.Status.Image != image || !strings.Contains(job.Status.Conditions[0].Message, "run 5 after it") {
		t.Errorf("while run 1 goes on: %+v", job.Status)
	}
	if again := get(t, first.Namespace, first.Name, &batchv1.Job{}); again.UID != first.UID || *again.Spec.ActiveDeadlineSeconds != 300 {
		t.Error("the run was disturbed")
	}
	succeed(t, first, `1`)
	job, second := waitRun(t, namespace, "j", 5)
	if job.Status.Image != "registry.example.org/ns@sha256:4567" || *second.Spec.ActiveDeadlineSeconds != 9 || job.Status.Result != "" || job.Status.ExitCode != nil {
		t.Errorf("run 5: %+v", job.Status)
	}
	if event := get(t, second.Namespace, second.Annotations[eventAnnotation], &corev1.Secret{}); string(event.Data["event.json"]) != `"second"` {
		t.Errorf("run 5 has the event %s", event.Data["event.json"])
	}
}

func TestAFunctionThatGoes(t *testing.T) {
	namespace := newNamespace(t)
	startOperator(t, namespace)
	function := builtFunction(t, namespace)
	create(t, newJob(namespace, "running", v1alpha1.FunctionJobSpec{RunID: 1}))
	_, run := waitRun(t, namespace, "running", 1)
	function.Spec.Entrypoint = "new.main"
	if err := kube.Update(t.Context(), function); err != nil {
		t.Fatal(err)
	}
	create(t, newJob(namespace, "waiting", v1alpha1.FunctionJobSpec{RunID: 1}))
	waitPhase(t, namespace, "waiting", v1alpha1.FunctionJobPending, v1alpha1.ReasonFunctionNotReady)

	if err := kube.Delete(t.Context(), function); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"running", "waiting"} {
		job := waitPhase(t, namespace, name, v1alpha1.FunctionJobFailed, v1alpha1.ReasonFunctionDeleted)
		if job.Status.RunID != 1 || job.Status.CompletionTime == nil {
			t.Errorf("%s: %+v", name, job.Status)
		}
	}
	gone(t, run.Namespace, run.Name, &batchv1.Job{})

	// What never knew the Function waits for one; what it failed for does not run again by itself.
	job := create(t, newJob(namespace, "new", v1alpha1.FunctionJobSpec{RunID: 1}))
	waitPhase(t, namespace, "new", v1alpha1.FunctionJobPending, v1alpha1.ReasonFunctionNotFound)
	builtFunction(t, namespace)
	waitRun(t, namespace, "new", 1)
	waitPhase(t, namespace, "waiting", v1alpha1.FunctionJobFailed, v1alpha1.ReasonFunctionDeleted)
	patch(t, newJob(namespace, "waiting", job.Spec), `{"runID": 2}`)
	waitRun(t, namespace, "waiting", 2)
}

// Deleting a FunctionJob stops its run and leaves nothing.
func TestDeletion(t *testing.T) {
	namespace := newNamespace(t)
	operator := startOperator(t, namespace)
	builtFunction(t, namespace)
	create(t, newJob(namespace, "j", v1alpha1.FunctionJobSpec{RunID: 1}))
	job, run := waitRun(t, namespace, "j", 1)
	// What an operator left that ended between the Secret and the Job.
	orphan := buildEvent(job, run.Namespace)
	orphan.Name = "orphan"
	create(t, orphan)
	if err := kube.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	gone(t, namespace, "j", job)
	gone(t, run.Namespace, run.Name, &batchv1.Job{})
	gone(t, run.Namespace, "orphan", &corev1.Secret{})
	gone(t, run.Namespace, run.Annotations[eventAnnotation], &corev1.Secret{})
	eventually(t, "the namespace is released", func() error {
		if !operator.tenants.has(namespace) {
			return errors.New("not yet")
		}
		return nil
	})
}

// A FunctionJob goes also when the namespace of its children is no more.
func TestDeletionWithoutATenant(t *testing.T) {
	namespace := newNamespace(t)
	startOperator(t, namespace)
	job := newJob(namespace, "j", v1alpha1.FunctionJobSpec{})
	job.Finalizers = []string{names.Finalizer}
	create(t, job)
	if err := kube.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	gone(t, namespace, "j", job)
}

func TestSomebodyDeletesTheRun(t *testing.T) {
	namespace := newNamespace(t)
	startOperator(t, namespace)
	builtFunction(t, namespace)
	create(t, newJob(namespace, "j", v1alpha1.FunctionJobSpec{RunID: 1}))
	_, run := waitRun(t, namespace, "j", 1)
	if err := kube.Delete(t.Context(), run, client.PropagationPolicy("Background")); err != nil {
		t.Fatal(err)
	}
	if job := waitPhase(t, namespace, "j", v1alpha1.FunctionJobFailed, v1alpha1.ReasonFailed); !strings.Contains(job.Status.Message, "deleted") {
		t.Errorf("message %q", job.Status.Message)
	}
}

// When the watch brings nothing any more, the net below it does.
func TestTheNetUnderTheWatch(t *testing.T) {
	namespace := newNamespace(t)
	operator := startOperator(t, namespace)
	builtFunction(t, namespace)
	create(t, newJob(namespace, "j", v1alpha1.FunctionJobSpec{RunID: 1}))
	_, run := waitRun(t, namespace, "j", 1)
	operator.deaf.shutNow()
	succeed(t, run, `"seen"`)
	if job := waitPhase(t, namespace, "j", v1alpha1.FunctionJobSucceeded, v1alpha1.ReasonSucceeded); job.Status.Result != `"seen"` {
		t.Errorf("status %+v", job.Status)
	}
}

// What an operator started and could not write down is taken up, not started again, also when a greater number has come since.
func TestARunThatTheStatusForgot(t *testing.T) {
	namespace := newNamespace(t)
	tenant := names.FunctionNamespace(namespace)
	makeNamespace(t, tenant)
	function := builtFunction(t, namespace)
	job := create(t, newJob(namespace, "j", v1alpha1.FunctionJobSpec{RunID: 1, TTLSecondsAfterFinished: new(int32(7))}))
	event := create(t, buildEvent(job, tenant))
	run, err := buildJob(parts{job: job, function: function, namespace: tenant, eventSecret: event.Name, defaults: defaults})
	if err != nil {
		t.Fatal(err)
	}
	create(t, run)
	patch(t, job, `{"runID": 2}`)

	startOperator(t, namespace)
	job, taken := waitRun(t, namespace, "j", 1)
	if taken.UID != run.UID || job.Status.FunctionUID != string(function.UID) || job.Status.Image != image {
		t.Errorf("taken up: %+v", job.Status)
	}
	if owners := get(t, tenant, event.Name, event).OwnerReferences; len(owners) != 1 || owners[0].UID != run.UID {
		t.Errorf("the event belongs to %v", owners)
	}
	succeed(t, taken, `1`)
	if _, second := waitRun(t, namespace, "j", 2); second.UID == run.UID {
		t.Error("run 2 is run 1")
	}
	eventually(t, "run 1 gets its time to live", func() error {
		if ttl := get(t, tenant, run.Name, run).Spec.TTLSecondsAfterFinished; ttl == nil || *ttl != 7 {
			return errors.New("it has none")
		}
		return nil
	})
}

// What can't run is said, and runs when it is mended.
func TestWhatCannotRun(t *testing.T) {
	namespace := newNamespace(t)
	operator := startOperator(t, namespace)
	function := newFunction(t, namespace)
	function.Spec.Env = []v1alpha1.EnvVar{{Name: "A", ValueFrom: &v1alpha1.EnvVarSource{SecretKeyRef: &v1alpha1.KeyRef{Name: "none", Key: "a"}}}}
	if err := kube.Update(t.Context(), function); err != nil {
		t.Fatal(err)
	}
	setBuilt(t, function, metav1.ConditionTrue, v1alpha1.ReasonBuilt, image)

	job := create(t, newJob(namespace, "event", v1alpha1.FunctionJobSpec{RunID: 1, EventJSON: "{not json"}))
	waitPhase(t, namespace, "event", v1alpha1.FunctionJobFailed, v1alpha1.ReasonInvalidEvent)
	patch(t, job, `{"eventJSON": "[]"}`)
	job = waitPhase(t, namespace, "event", v1alpha1.FunctionJobPending, v1alpha1.ReasonEnvNotFound)
	if !strings.Contains(job.Status.Message, "none") || job.Status.RunID != 0 {
		t.Errorf("status %+v", job.Status)
	}

	operator.tenants.fail(apierrors.NewForbidden(batchv1.Resource("jobs"), "j", errors.New("exceeded quota")))
	create(t, newJob(namespace, "quota", v1alpha1.FunctionJobSpec{RunID: 1}))
	waitPhase(t, namespace, "quota", v1alpha1.FunctionJobPending, v1alpha1.ReasonQuotaExceeded)
	operator.tenants.fail(nil)
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"}, Data: map[string][]byte{"a": []byte("b")}})
	waitRun(t, namespace, "quota", 1)
}

// Names of 63 characters, and the same names in two namespaces.
func TestLongNames(t *testing.T) {
	long := newNamespaceOf(t, 63)
	startOperator(t, long)
	builtFunction(t, long)
	for _, name := range []string{strings.Repeat("j", 63), strings.Repeat("j", 62) + "k"} {
		create(t, newJob(long, name, v1alpha1.FunctionJobSpec{RunID: 9007199254740991}))
		_, run := waitRun(t, long, name, 9007199254740991)
		succeed(t, run, fmt.Sprintf("%q", name))
		if job := waitPhase(t, long, name, v1alpha1.FunctionJobSucceeded, v1alpha1.ReasonSucceeded); job.Status.Result != fmt.Sprintf("%q", name) {
			t.Errorf("the result of %s is %s", name, job.Status.Result)
		}
	}
}

func TestAdmission(t *testing.T) {
	namespace := newNamespace(t)
	for _, test := range []struct {
		name   string
		change func(*v1alpha1.FunctionJob)
		refuse string
	}{
		{"the least", func(*v1alpha1.FunctionJob) {}, ""},
		{"negative runID", func(j *v1alpha1.FunctionJob) { j.Spec.RunID = -1 }, "greater than or equal to 0"},
		{"runID beyond what JSON tells apart", func(j *v1alpha1.FunctionJob) { j.Spec.RunID = 9007199254740992 }, "less than or equal to 9007199254740991"},
		{"event at the limit", func(j *v1alpha1.FunctionJob) { j.Spec.EventJSON = `"` + strings.Repeat("a", 96<<10-2) + `"` }, ""},
		{"event over the limit", func(j *v1alpha1.FunctionJob) { j.Spec.EventJSON = strings.Repeat("a", 96<<10+1) }, "may not be more than 98304"},
		{"event over the limit in bytes", func(j *v1alpha1.FunctionJob) { j.Spec.EventJSON = strings.Repeat("ж", 50<<10) }, "96 KiB"},
		{"negative time", func(j *v1alpha1.FunctionJob) { j.Spec.TimeoutSeconds = -1 }, "greater than or equal to 1"},
		{"more than a day", func(j *v1alpha1.FunctionJob) { j.Spec.TimeoutSeconds = 86401 }, "less than or equal to 86400"},
		{"many attempts", func(j *v1alpha1.FunctionJob) { j.Spec.BackoffLimit = 11 }, "less than or equal to 10"},
		{"negative time to live", func(j *v1alpha1.FunctionJob) { j.Spec.TTLSecondsAfterFinished = new(int32(-1)) }, "greater than or equal to 0"},
		{"time to live 0", func(j *v1alpha1.FunctionJob) { j.Spec.TTLSecondsAfterFinished = new(int32(0)) }, ""},
		{"no function", func(j *v1alpha1.FunctionJob) { j.Spec.FunctionRef.Name = "" }, "functionRef.name"},
		{"a function that can't be", func(j *v1alpha1.FunctionJob) { j.Spec.FunctionRef.Name = "a_b" }, "should match"},
		{"a name with a dot", func(j *v1alpha1.FunctionJob) { j.Name = "a.b" }, "must be a DNS label"},
		{"a name too long", func(j *v1alpha1.FunctionJob) { j.Name = strings.Repeat("a", 64) }, "must be a DNS label"},
	} {
		t.Run(test.name, func(t *testing.T) {
			job := newJob(namespace, "j", v1alpha1.FunctionJobSpec{})
			test.change(job)
			err := kube.Create(t.Context(), job)
			switch {
			case test.refuse == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.refuse != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.refuse)):
				t.Errorf("not refused with %q: %v", test.refuse, err)
			}
			if err == nil {
				if err := kube.Delete(t.Context(), job); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	job := create(t, newJob(namespace, "j", v1alpha1.FunctionJobSpec{}))
	if job.Spec.TimeoutSeconds != 300 || job.Spec.TTLSecondsAfterFinished == nil || *job.Spec.TTLSecondsAfterFinished != 3600 {
		t.Errorf("the defaults are %+v", job.Spec)
	}
}
