package functionjob

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/ledger"
	"github.com/naeel/sless/operator/internal/config"
	"github.com/naeel/sless/operator/internal/env"
	"github.com/naeel/sless/operator/internal/kstatustest"
	"github.com/naeel/sless/operator/internal/testcluster"
)

// patience is how long a test waits for what must come; it is never waited out when all is well.
const patience = 90 * time.Second

var (
	// cluster is a real API server, with no controller but the one under test: the tests play Kubernetes' Job controller and kubelet.
	cluster *rest.Config
	// kube reads and writes there without a cache.
	kube   client.Client
	scheme = testcluster.Scheme()
)

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(started testcluster.Cluster) {
		cluster, kube = started.Config, started.Client
	}))
}

var namespaces struct {
	sync.Mutex
	made int
}

// newNamespace makes a user's namespace for one test.
func newNamespace(t *testing.T) string {
	t.Helper()
	return newNamespaceOf(t, 8)
}

// newNamespaceOf makes one whose name has a length.
func newNamespaceOf(t *testing.T, length int) string {
	t.Helper()
	namespaces.Lock()
	namespaces.made++
	number := fmt.Sprintf("-%03d", namespaces.made)
	namespaces.Unlock()
	name := strings.Repeat("n", length-len(number)) + number
	makeNamespace(t, name)
	return name
}

func makeNamespace(t *testing.T, name string) {
	t.Helper()
	err := kube.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
}

// plainTenants makes namespaces without boundaries, and remembers which it was asked to release.
type plainTenants struct {
	mu       sync.Mutex
	released map[string]bool
	err      error
}

// Ensure makes the namespace.
func (p *plainTenants) Ensure(ctx context.Context, namespace string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return "", p.err
	}
	name := names.FunctionNamespace(namespace)
	err := kube.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return name, client.IgnoreAlreadyExists(err)
}

// Release remembers.
func (p *plainTenants) Release(_ context.Context, namespace string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released == nil {
		p.released = map[string]bool{}
	}
	p.released[namespace] = true
	return nil
}

func (p *plainTenants) has(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.released[namespace]
}

func (p *plainTenants) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// records is a ledger in memory.
type records struct {
	mu   sync.Mutex
	kept []ledger.Record
}

// On says that records are kept.
func (r *records) On() bool { return true }

// Write keeps one.
func (r *records) Write(record *ledger.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, *record)
}

func (r *records) all() []ledger.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.kept)
}

// operator is a controller that runs until the test ends.
type operator struct {
	tenants plainTenants
	ledger  records
	// deaf are watches of Jobs that bring nothing any more once it is set.
	deaf *gate
}

func startOperator(t *testing.T, namespace string) *operator {
	t.Helper()
	o := &operator{deaf: &gate{closed: make(chan struct{})}}
	connection := rest.CopyConfig(cluster)
	connection.Wrap(o.deaf.wrap)
	mgr, err := ctrl.NewManager(connection, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {}, names.FunctionNamespace(namespace): {}},
			ByObject:          map[client.Object]cache.ByObject{&corev1.Namespace{}: {}},
		},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	reconciler := &Reconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Config: &config.Config{Function: defaults}, Tenants: &o.tenants, Ledger: &o.ledger,
		Env: &env.Store{Client: mgr.GetClient(), Reader: mgr.GetAPIReader()},
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		o.deaf.open()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	return o
}

// gate holds back what watches of Jobs bring once it is shut.
type gate struct {
	mu     sync.Mutex
	shut   bool
	closed chan struct{}
}

func (g *gate) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && request.URL.Query().Get("watch") == "true" && strings.HasSuffix(request.URL.Path, "/jobs") {
			response.Body = &heldBody{ReadCloser: response.Body, gate: g}
		}
		return response, err
	})
}

func (g *gate) shutNow() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

// open ends the test.
func (g *gate) open() { close(g.closed) }

func (g *gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// heldBody is the body of a watch's answer.
type heldBody struct {
	io.ReadCloser
	gate *gate
}

// Read brings nothing once the gate is shut.
func (b *heldBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.gate.isShut() {
		<-b.gate.closed
	}
	return n, err
}

// eventually polls until check is content.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not after %s: %v", what, patience, err)
}

func create[T client.Object](t *testing.T, object T) T {
	t.Helper()
	if err := kube.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	return object
}

func get[T client.Object](t *testing.T, namespace, name string, into T) T {
	t.Helper()
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into); err != nil {
		t.Fatal(err)
	}
	return into
}

// patch changes a spec by a JSON merge patch.
func patch(t *testing.T, object client.Object, spec string) {
	t.Helper()
	if err := kube.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"spec":`+spec+`}`))); err != nil {
		t.Fatal(err)
	}
}

// newFunction makes a Function f that is not built.
func newFunction(t *testing.T, namespace string) *v1alpha1.Function {
	t.Helper()
	return create(t, &v1alpha1.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "f"},
		Spec: v1alpha1.FunctionSpec{Runtime: "python3.11", Replicas: new(int32(0)), Env: []v1alpha1.EnvVar{{Name: "A", Value: "b"}},
			Source: v1alpha1.Source{Inline: map[string]v1alpha1.InlineFile{"handler.py": "def handle(event): return event"}}},
	})
}

// setBuilt says of a Function how far its image is.
func setBuilt(t *testing.T, function *v1alpha1.Function, status metav1.ConditionStatus, reason, image string) {
	t.Helper()
	function.Status = v1alpha1.FunctionStatus{Image: image, Conditions: []metav1.Condition{{
		Type: v1alpha1.Built, Status: status, Reason: reason, Message: "what the build says", ObservedGeneration: function.Generation, LastTransitionTime: metav1.Now(),
	}}}
	if err := kube.Status().Update(t.Context(), function); err != nil {
		t.Fatal(err)
	}
}

const image = "registry.example.org/ns@sha256:0123"

func builtFunction(t *testing.T, namespace string) *v1alpha1.Function {
	t.Helper()
	function := newFunction(t, namespace)
	setBuilt(t, function, metav1.ConditionTrue, v1alpha1.ReasonBuilt, image)
	return function
}

func newJob(namespace, name string, spec v1alpha1.FunctionJobSpec) *v1alpha1.FunctionJob {
	spec.FunctionRef.Name = "f"
	return &v1alpha1.FunctionJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
}

// waitPhase waits for a phase of the current spec and returns the FunctionJob.
func waitPhase(t *testing.T, namespace, name string, phase v1alpha1.FunctionJobPhase, reason string) *v1alpha1.FunctionJob {
	t.Helper()
	job := &v1alpha1.FunctionJob{}
	eventually(t, fmt.Sprintf("FunctionJob %s/%s is %s, %s", namespace, name, phase, reason), func() error {
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, job); err != nil {
			return err
		}
		status := job.Status
		if status.ObservedGeneration != job.Generation || status.Phase != phase || len(status.Conditions) == 0 || status.Conditions[0].Reason != reason {
			return fmt.Errorf("generation %d, status %+v", job.Generation, status)
		}
		return nil
	})
	want := map[metav1.ConditionStatus]string{"True": "Current", "Unknown": "InProgress", "False": "Failed"}[job.Status.Conditions[0].Status]
	if got := kstatustest.Of(t, job); got != want {
		t.Errorf("kstatus says %s of %+v, want %s", got, job.Status, want)
	}
	return job
}

// waitRun waits until a run goes on and returns its Kubernetes Job.
func waitRun(t *testing.T, namespace, name string, runID int64) (*v1alpha1.FunctionJob, *batchv1.Job) {
	t.Helper()
	job, run := &v1alpha1.FunctionJob{}, &batchv1.Job{}
	eventually(t, fmt.Sprintf("run %d of %s/%s goes on", runID, namespace, name), func() error {
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, job); err != nil {
			return err
		}
		if job.Status.Phase != v1alpha1.FunctionJobRunning || job.Status.RunID != runID {
			return fmt.Errorf("status %+v", job.Status)
		}
		return kube.Get(t.Context(), client.ObjectKey{Namespace: names.FunctionNamespace(namespace), Name: job.Status.JobName}, run)
	})
	return job, run
}

// playPod makes the pod of a run, ended as kubelet would say it.
func playPod(t *testing.T, run *batchv1.Job, code int32, message string) {
	t.Helper()
	pod := create(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: run.Namespace, GenerateName: run.Name[:min(len(run.Name), 40)] + "-", Labels: run.Spec.Template.Labels},
		Spec:       run.Spec.Template.Spec,
	})
	pod.Labels[batchv1.JobNameLabel] = run.Name
	if err := kube.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "function", Image: image, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message, FinishedAt: metav1.Now(), StartedAt: metav1.Now()}}}}
	if err := kube.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// playEnd ends a Kubernetes Job as its controller would.
func playEnd(t *testing.T, run *batchv1.Job, kind batchv1.JobConditionType, reason string) {
	t.Helper()
	now := metav1.Now()
	run.Status.StartTime = &now
	before := batchv1.JobConditionType(batchv1.JobFailureTarget)
	if kind == batchv1.JobComplete {
		before = batchv1.JobSuccessCriteriaMet
		run.Status.CompletionTime, run.Status.Succeeded = &now, 1
	} else {
		run.Status.Failed = 1
	}
	for _, kind := range []batchv1.JobConditionType{before, kind} {
		run.Status.Conditions = append(run.Status.Conditions, batchv1.JobCondition{Type: kind, Status: "True", Reason: reason, Message: "what the Job says", LastTransitionTime: now})
	}
	if err := kube.Status().Update(t.Context(), run); err != nil {
		t.Fatal(err)
	}
}

// succeed ends a run well.
func succeed(t *testing.T, run *batchv1.Job, result string) {
	t.Helper()
	playPod(t, run, 0, `{"result": `+result+`, "truncated": false}`)
	playEnd(t, run, batchv1.JobComplete, "")
}

func gone(t *testing.T, namespace, name string, into client.Object) {
	t.Helper()
	eventually(t, fmt.Sprintf("%T %s/%s is gone", into, namespace, name), func() error {
		err := kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %v", err)
	})
}
