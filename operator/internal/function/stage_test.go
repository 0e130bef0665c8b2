package function

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/config"
	"github.com/naeel/sless/operator/internal/env"
	"github.com/naeel/sless/operator/internal/tenant"
	"github.com/naeel/sless/operator/internal/testcluster"
)

// cluster is an API server for all tests of this package.
var cluster testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c testcluster.Cluster) { cluster = c }))
}

// stage is a running reconciler with one namespace of its own and parts that the test plays.
type stage struct {
	t         *testing.T
	namespace string
	builder   *fakeBuilder
	gateways  *fakeGateways
	stop      func()
}

// newStage starts a reconciler with a namespace for its test. It sees no Functions of other tests.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, namespace: "t-" + names.Hash(t.Name())[:12]}
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	s.start(testConfig(t))
	return s
}

// start starts a reconciler with the configuration in place of the one that runs, if one does, as a new version of sless would.
func (s *stage) start(cfg *config.Config) {
	t := s.t
	t.Helper()
	if s.stop != nil {
		s.stop()
	}
	states := map[string]build.State{}
	if s.builder != nil { // the registry outlives a process
		states = s.builder.states
	}
	s.builder = &fakeBuilder{states: states, events: make(chan build.Owner, 100)}
	s.gateways = &fakeGateways{}
	pullConfig := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(pullConfig, []byte(`{"auths":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(cluster.Config, ctrl.Options{
		Scheme:                  testcluster.Scheme(),
		Metrics:                 server.Options{BindAddress: "0"},
		Controller:              controllerNames(),
		GracefulShutdownTimeout: new(30 * time.Second),
		Cache:                   cache.Options{DefaultNamespaces: map[string]cache.Config{s.namespace: {}, s.tenant(): {}, metav1.NamespacePublic: {}}},
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}, &appsv1.ReplicaSet{}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	reconciler := &Reconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Config: cfg, Builder: s.builder, Gateways: s.gateways,
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
	s.stop = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	t.Cleanup(s.stop)
}

func (s *stage) eventually(what string, try func() string) {
	s.t.Helper()
	testcluster.Eventually(s.t, what, try)
}

func (s *stage) create(object client.Object) {
	s.t.Helper()
	if err := cluster.Client.Create(s.t.Context(), object); err != nil {
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
		return text(cluster.Client.Update(s.t.Context(), function))
	})
}

func (s *stage) get(name string) *v1alpha1.Function {
	s.t.Helper()
	function := &v1alpha1.Function{}
	if err := cluster.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, function); err != nil {
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
	err := cluster.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.tenant(), Name: name}, deployment)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return deployment
}

// service returns the Service of a Function.
func (s *stage) service(name string) *corev1.Service {
	s.t.Helper()
	service := &corev1.Service{}
	if err := cluster.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.tenant(), Name: name}, service); err != nil {
		s.t.Fatal(err)
	}
	return service
}

// rollOut plays the controller of Deployments: every pod that the Deployment asks for now answers.
func (s *stage) rollOut(name string) { s.t.Helper(); s.rollOutWith(name, nil) }

func (s *stage) rollOutWith(name string, edit func(*appsv1.Deployment)) {
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
			edit(deployment)
		}
		return text(cluster.Client.Status().Update(s.t.Context(), deployment))
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

// fakeBuilder says what the test told it, by the wished revision or code hash of the request, or the latter and its runtime image with
// "on" between. What it was not told of is being built.
type fakeBuilder struct {
	mu      sync.Mutex
	states  map[string]build.State
	owners  []build.Owner
	removed []build.Owner
	// followed counts calls of Follow, and newer is what it returns to one that was told another revision.
	followed int
	newer    string
	// retained is what Retain was told last, by name.
	retained map[string]retained
	// asked counts calls of Ensure.
	asked int
	// request is what Ensure was called with last.
	request build.Request
	events  chan build.Owner
}

func (b *fakeBuilder) set(codeHash string, state build.State) { b.setNewer("", codeHash, state) }

// setNewer is set, and lets polled sources be at another revision from the same moment on, when it is not "".
func (b *fakeBuilder) setNewer(revision, codeHash string, state build.State) {
	b.mu.Lock()
	b.states[codeHash] = state
	b.newer = cmp.Or(revision, b.newer)
	owners := b.owners
	b.mu.Unlock()
	for _, owner := range owners {
		b.events <- owner
	}
}

func (b *fakeBuilder) Ensure(_ context.Context, request build.Request) build.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	b.request = request
	known := false
	for _, owner := range b.owners {
		known = known || owner == request.Owner
	}
	if !known {
		b.owners = append(b.owners, request.Owner)
	}
	if state, ok := b.states[request.CodeHash+" on "+request.Runtime.Image]; ok {
		return state
	}
	if state, ok := b.states[cmp.Or(request.Revision, request.CodeHash)]; ok {
		if request.Revision != "" && state.Phase == build.Done {
			b.newer = state.Result.Revision
		}
		return state
	}
	return build.State{Phase: build.Building, Step: build.Fetching}
}

func (b *fakeBuilder) Forget(build.Owner) {}

func (b *fakeBuilder) Follow(request build.Request, revision string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.followed++
	if request.Source.S3 == nil || request.Source.S3.PollInterval == 0 || revision == b.newer {
		return ""
	}
	return b.newer
}

// changed lets a polled source be at another revision, for which the Builder answers with a state.
func (s *stage) changed(revision string, state build.State) {
	s.builder.setNewer(revision, revision, state)
}

// retained is what Retain was told.
type retained struct {
	images []string
	inUse  build.InUse
}

func (b *fakeBuilder) Retain(owner build.Owner, images []string, inUse build.InUse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.retained == nil {
		b.retained = map[string]retained{}
	}
	b.retained[owner.Name] = retained{images, inUse}
}

func (b *fakeBuilder) retains(name string) retained {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.retained[name]
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
