package function

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/env"
	"github.com/naeel/sless/operator/internal/tenant"
)

// cluster is a real API server with a real controller manager's work done by the tests, started once for all tests.
var cluster struct {
	config *rest.Config
	client client.WithWatch
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(withCluster(m))
}

func withCluster(m *testing.M) int {
	environment := &envtest.Environment{
		CRDDirectoryPaths:        []string{filepath.Join("..", "..", "..", "config", "crd")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 3 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		environment.BinaryAssetsDirectory = filepath.Join("..", "..", "..", ".dev", "bin")
	}
	config, err := environment.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		return 1
	}
	defer environment.Stop()
	config.QPS = -1
	cluster.config = config
	cluster.client, err = client.NewWithWatch(config, client.Options{Scheme: testScheme()})
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a client:", err)
		return 1
	}
	return m.Run()
}

func testScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme)
	_ = v1alpha1.AddToScheme(scheme)
	return scheme
}

// stage is a running reconciler with one namespace of its own and parts that the test plays.
type stage struct {
	t         *testing.T
	namespace string
	builder   *fakeBuilder
	gateways  *fakeGateways
}

// newStage starts a reconciler. Its controller sees every namespace, but tests of one package run one after the other.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{
		t: t, namespace: "t-" + names.Hash(t.Name())[:12],
		builder:  &fakeBuilder{states: map[string]build.State{}, events: make(chan build.Owner, 100)},
		gateways: &fakeGateways{},
	}
	pullConfig := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(pullConfig, []byte(`{"auths":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(cluster.config, ctrl.Options{
		Scheme:                  testScheme(),
		Metrics:                 server.Options{BindAddress: "0"},
		Controller:              controllerNames(),
		GracefulShutdownTimeout: new(30 * time.Second),
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}, &appsv1.ReplicaSet{}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	reconciler := &Reconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Config: testConfig(t), Builder: s.builder, Gateways: s.gateways,
		Tenants:  &tenant.Tenants{Client: mgr.GetClient(), PullConfigFile: pullConfig},
		Env:      &env.Store{Client: mgr.GetClient(), Reader: mgr.GetAPIReader()},
		Recorder: mgr.GetEventRecorder("sless-operator"),
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	return s
}

// patience is how long a test waits for what must come. It is long because machines may be slow, and costs nothing when they are not.
const patience = 2 * time.Minute

// eventually waits until try returns "", and otherwise fails with what it said last.
func (s *stage) eventually(what string, try func() string) {
	s.t.Helper()
	lack := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if lack = try(); lack == "" {
			return
		}
	}
	s.t.Fatalf("%s: %s", what, lack)
}

func (s *stage) create(object client.Object) {
	s.t.Helper()
	if err := cluster.client.Create(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}

// function makes a Function in the stage's namespace.
func (s *stage) function(name string, changes ...func(*v1alpha1.Function)) {
	s.t.Helper()
	function := testFunction(changes...)
	function.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: s.namespace, Annotations: function.Annotations}
	s.create(function)
}

// change edits a Function as a user does.
func (s *stage) change(name string, edit func(*v1alpha1.Function)) {
	s.t.Helper()
	s.eventually("change Function", func() string {
		function := s.get(name)
		edit(function)
		return text(cluster.client.Update(s.t.Context(), function))
	})
}

func (s *stage) get(name string) *v1alpha1.Function {
	s.t.Helper()
	function := &v1alpha1.Function{}
	if err := cluster.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, function); err != nil {
		s.t.Fatal(err)
	}
	return function
}

// ready waits until Ready has the status and reason, for the newest spec, and returns the Function.
func (s *stage) ready(name string, status metav1.ConditionStatus, reason string) *v1alpha1.Function {
	s.t.Helper()
	var function *v1alpha1.Function
	s.eventually("Ready of "+name, func() string {
		function = s.get(name)
		ready := meta.FindStatusCondition(function.Status.Conditions, v1alpha1.Ready)
		if ready == nil || ready.ObservedGeneration != function.Generation || ready.Status != status || ready.Reason != reason {
			return fmt.Sprintf("want %s %s of generation %d, got %+v", status, reason, function.Generation, ready)
		}
		return ""
	})
	return function
}

func (s *stage) tenant() string { return names.FunctionNamespace(s.namespace) }

// deployment returns the Deployment of a Function, or nil.
func (s *stage) deployment(name string) *appsv1.Deployment {
	s.t.Helper()
	deployment := &appsv1.Deployment{}
	err := cluster.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.tenant(), Name: name}, deployment)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return deployment
}

// rollOut plays the controller of Deployments: every pod that the Deployment asks for now answers.
func (s *stage) rollOut(name string) { s.t.Helper(); s.rollOutWith(name, nil) }

func (s *stage) rollOutWith(name string, edit func(*appsv1.DeploymentStatus)) {
	s.t.Helper()
	s.eventually("write status of Deployment", func() string {
		deployment := s.deployment(name)
		if deployment == nil {
			return "no Deployment yet"
		}
		n := *deployment.Spec.Replicas
		deployment.Status = appsv1.DeploymentStatus{
			ObservedGeneration: deployment.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		}
		if edit != nil {
			edit(&deployment.Status)
		}
		return text(cluster.client.Status().Update(s.t.Context(), deployment))
	})
}

// deploys waits until the Deployment is as the test wants it.
func (s *stage) deploys(name, what string, want func(*appsv1.Deployment) bool) *appsv1.Deployment {
	s.t.Helper()
	var deployment *appsv1.Deployment
	s.eventually("Deployment with "+what, func() string {
		if deployment = s.deployment(name); deployment == nil || !want(deployment) {
			return fmt.Sprintf("got %+v", deployment)
		}
		return ""
	})
	return deployment
}

func text(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// built answers the Builder's question about a code hash with an image.
func (s *stage) built(codeHash, image string) {
	s.builder.set(codeHash, build.State{Phase: build.Done, Started: time.Now(), Result: &build.Result{
		Image: "registry.example.org/sless@sha256:" + image, SourceDigest: "sha256:source-" + image, BuiltAt: time.Now(),
	}})
}

// fakeBuilder says what the test told it, by the code hash of the request. What it was not told of is being built.
type fakeBuilder struct {
	mu      sync.Mutex
	states  map[string]build.State
	owners  []build.Owner
	removed []build.Owner
	// forgotten counts calls of Forget.
	forgotten int
	events    chan build.Owner
}

func (b *fakeBuilder) set(codeHash string, state build.State) {
	b.mu.Lock()
	b.states[codeHash] = state
	owners := b.owners
	b.mu.Unlock()
	for _, owner := range owners {
		b.events <- owner
	}
}

func (b *fakeBuilder) Ensure(_ context.Context, request build.Request) build.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := false
	for _, owner := range b.owners {
		known = known || owner == request.Owner
	}
	if !known {
		b.owners = append(b.owners, request.Owner)
	}
	if state, ok := b.states[request.CodeHash]; ok {
		return state
	}
	return build.State{Phase: build.Building, Step: build.Fetching}
}

func (b *fakeBuilder) Forget(build.Owner) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgotten++
}

func (b *fakeBuilder) Remove(owner build.Owner, _ bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removed = append(b.removed, owner)
}

func (b *fakeBuilder) Events() <-chan build.Owner { return b.events }

// fail makes the build of a code hash fail.
func (b *fakeBuilder) fail(codeHash string, err *fault.Error) {
	b.set(codeHash, build.State{Phase: build.Failed, Error: err})
}

// fakeGateways route to everything unless the test holds them.
type fakeGateways struct {
	mu    sync.Mutex
	lag   string
	asked []string
}

func (g *fakeGateways) hold(lag string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lag = lag
}

func (g *fakeGateways) Routing(_ context.Context, _ client.ObjectKey, revision string) Routing {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, revision)
	return Routing{Complete: g.lag == "", Message: g.lag, Again: 20 * time.Millisecond}
}
