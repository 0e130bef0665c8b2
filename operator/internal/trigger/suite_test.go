package trigger

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
	"github.com/naeel/sless/operator/internal/testcluster"
)

// patience is how long a test waits for what must come; it is never waited out when all is well.
const patience = 90 * time.Second

var (
	// cluster is a real API server.
	cluster *rest.Config
	// kube reads and writes there without a cache.
	kube   client.WithWatch
	scheme = testcluster.Scheme()
)

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(started testcluster.Cluster) {
		klog.SetLogger(logr.Discard()) // it tells of every process that leader_test.go kills
		cluster = started.Config
		var err error
		if kube, err = client.NewWithWatch(cluster, client.Options{Scheme: scheme}); err != nil {
			panic(err)
		}
		system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: names.SystemNamespace}}
		if err := kube.Create(context.Background(), system); err != nil {
			panic(err)
		}
	}))
}

var namespaces struct {
	sync.Mutex
	made int
}

// newNamespace makes a namespace for one test. There is no controller that would empty it.
func newNamespace(t testing.TB) string {
	t.Helper()
	return newNamespaceOf(t, 8)
}

// newNamespaceOf makes one whose name has a length.
func newNamespaceOf(t testing.TB, length int) string {
	t.Helper()
	namespaces.Lock()
	namespaces.made++
	number := fmt.Sprintf("-%03d", namespaces.made)
	namespaces.Unlock()
	name := strings.Repeat("n", length-len(number)) + number
	if err := kube.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
	return name
}

// startManager runs a controller that sees these namespaces and sless-system, until the test ends.
func startManager(t testing.TB, reconciler *Reconciler, namespaces ...string) {
	t.Helper()
	mgr, err := newManager(cluster, reconciler, ctrl.Options{}, namespaces...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache does not fill")
	}
}

func newManager(cluster *rest.Config, reconciler *Reconciler, options ctrl.Options, namespaces ...string) (ctrl.Manager, error) {
	options.Scheme = scheme
	options.Cache.DefaultNamespaces = map[string]cache.Config{names.SystemNamespace: {}}
	for _, namespace := range namespaces {
		options.Cache.DefaultNamespaces[namespace] = cache.Config{}
	}
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	options.Controller = ctrlconfig.Controller{SkipNameValidation: new(true)}
	mgr, err := ctrl.NewManager(cluster, options)
	if err != nil {
		return nil, err
	}
	reconciler.Client = mgr.GetClient()
	if reconciler.Config == nil {
		reconciler.Config = &config.Config{ExternalURL: "https://functions.example.org"}
	}
	return mgr, reconciler.SetupWithManager(mgr)
}

// eventually polls until check is content.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not after %s: %v", what, patience, err)
}

func get[T client.Object](t testing.TB, namespace, name string, into T) T {
	t.Helper()
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func create[T client.Object](t testing.TB, object T) T {
	t.Helper()
	if err := kube.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// patch changes a spec by a JSON merge patch.
func patch(t testing.TB, object client.Object, spec string) {
	t.Helper()
	if err := kube.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"spec":`+spec+`}`))); err != nil {
		t.Fatal(err)
	}
}

// newFunction makes a Function of which status says that it serves, or what change makes of it.
func newFunction(t testing.TB, namespace, name string, change ...func(*v1alpha1.Function)) *v1alpha1.Function {
	t.Helper()
	function := create(t, &v1alpha1.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.FunctionSpec{Runtime: "python3.11", Source: v1alpha1.Source{
			Inline: map[string]v1alpha1.InlineFile{"handler.py": "def handle(event): return event"}}},
	})
	setFunction(t, function, append([]func(*v1alpha1.Function){serving}, change...)...)
	return function
}

func setFunction(t testing.TB, function *v1alpha1.Function, changes ...func(*v1alpha1.Function)) {
	t.Helper()
	for _, change := range changes {
		change(function)
	}
	function.Status.ObservedGeneration = function.Generation
	for i := range function.Status.Conditions {
		function.Status.Conditions[i].ObservedGeneration = function.Generation
		function.Status.Conditions[i].LastTransitionTime = metav1.Now()
	}
	if err := kube.Status().Update(t.Context(), function); err != nil {
		t.Fatal(err)
	}
}

func serving(f *v1alpha1.Function) { f.Status = function("True", v1alpha1.ReasonReady, true).Status }

func newTrigger(namespace, name string, spec v1alpha1.TriggerSpec) *v1alpha1.Trigger {
	if spec.FunctionRef.Name == "" {
		spec.FunctionRef.Name = "f"
	}
	if spec.Type == "" {
		spec.Type = v1alpha1.TriggerHTTP
		if spec.Cron != nil {
			spec.Type = v1alpha1.TriggerCron
		}
	}
	return &v1alpha1.Trigger{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
}

// waitReady waits for a Ready condition of the current spec and returns the Trigger.
func waitReady(t testing.TB, namespace, name, status, reason string) *v1alpha1.Trigger {
	t.Helper()
	trigger := &v1alpha1.Trigger{}
	eventually(t, fmt.Sprintf("Trigger %s/%s is Ready=%s %s", namespace, name, status, reason), func() error {
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, trigger); err != nil {
			return err
		}
		for _, condition := range trigger.Status.Conditions {
			if condition.ObservedGeneration == trigger.Generation && string(condition.Status) == status && condition.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("generation %d, conditions %+v", trigger.Generation, trigger.Status.Conditions)
	})
	return trigger
}

func condition(trigger *v1alpha1.Trigger) string {
	if len(trigger.Status.Conditions) == 0 {
		return "no condition"
	}
	return trigger.Status.Conditions[0].Message
}

// recorder is a gateway that remembers what was called.
type recorder struct {
	mu    sync.Mutex
	calls []Call
	// answer makes the outcome; nil is success at once.
	answer func(context.Context, Call) Outcome
	// called is told of each call, when set.
	called func(Call)
}

// Call remembers the call and answers it.
func (r *recorder) Call(ctx context.Context, call Call) Outcome {
	r.mu.Lock()
	r.calls = append(r.calls, call)
	answer, called := r.answer, r.called
	r.mu.Unlock()
	if called != nil {
		called(call)
	}
	if answer != nil {
		return answer(ctx, call)
	}
	return Outcome{Result: v1alpha1.RunSucceeded, Started: time.Now()}
}

// answers changes what is answered from now on.
func (r *recorder) answers(answer func(context.Context, Call) Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// counts returns how often each id was called.
func (r *recorder) counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[string]int{}
	for _, call := range r.calls {
		counts[call.ID]++
	}
	return counts
}

func (r *recorder) last() (call Call, total int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.calls) > 0 {
		call = r.calls[len(r.calls)-1]
	}
	return call, len(r.calls)
}

// handClock is a clock that is set by hand.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// fastClock goes speed times as fast as time does.
type fastClock struct {
	start time.Time
	speed time.Duration
}

func newFastClock(speed int) fastClock {
	return fastClock{start: time.Now(), speed: time.Duration(speed)}
}

func (c fastClock) Now() time.Time { return c.start.Add(time.Since(c.start) * c.speed) }

func (c fastClock) wait(d time.Duration) time.Duration {
	if d <= 0 {
		return d
	}
	return max(d/c.speed, time.Nanosecond)
}
