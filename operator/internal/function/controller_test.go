package function

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// controllerNames lets every test start the controller anew in one process.
func controllerNames() ctrlconfig.Controller {
	return ctrlconfig.Controller{SkipNameValidation: new(true)}
}

func codeHash(mark string) func(*v1alpha1.Function) {
	return func(f *v1alpha1.Function) { f.Spec.CodeHash = mark }
}

func replicas(n int32) func(*v1alpha1.Function) {
	return func(f *v1alpha1.Function) { f.Spec.Replicas = &n }
}

// trigger makes a http Trigger of a Function.
func (s *stage) trigger(name, function string, enabled bool) *v1alpha1.Trigger {
	s.t.Helper()
	trigger := &v1alpha1.Trigger{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace},
		Spec:       v1alpha1.TriggerSpec{Type: v1alpha1.TriggerHTTP, Enabled: &enabled, FunctionRef: v1alpha1.FunctionRef{Name: function}},
	}
	s.create(trigger)
	return trigger
}

// The life of a Function: built, deployed, routed; changed, failed, mended; the old version serves on meanwhile.
func TestLife(t *testing.T) {
	s := newStage(t)
	s.function("hello", codeHash("v1"))
	s.trigger("web", "hello", true)
	function := s.ready("hello", "Unknown", v1alpha1.ReasonBuilding)
	if function.Status.Phase != v1alpha1.FunctionBuilding || function.Status.Build.Step != "Fetching" {
		t.Errorf("while building: %+v", function.Status)
	}

	s.gateways.hold("gateway g lags")
	s.built("v1", "aa")
	s.ready("hello", "Unknown", v1alpha1.ReasonDeploying)
	s.rollOut("hello")
	function = s.ready("hello", "Unknown", v1alpha1.ReasonRouting)
	if function.Status.CodeHash != "v1" {
		t.Errorf("codeHash %q of pods that answer", function.Status.CodeHash)
	}
	s.gateways.hold("")
	function = s.ready("hello", "True", v1alpha1.ReasonReady)
	status := function.Status
	if status.Phase != v1alpha1.FunctionReady || !strings.HasSuffix(status.Image, ":aa") || status.SourceDigest != "sha256:source-aa" ||
		status.RuntimeVersion == "" || status.LastBuiltAt == nil || status.ReadyReplicas != 1 ||
		status.URL != "https://functions.example.org"+names.FunctionPath(s.namespace, "hello") || !strings.Contains(status.Selector, "sless.io/name=hello") {
		t.Errorf("status %+v", status)
	}
	first := s.deployment("hello")

	s.builder.fail("v2", fault.Terminal(v1alpha1.ReasonDependenciesFailed, "pip failed"))
	s.change("hello", func(f *v1alpha1.Function) {
		f.Spec.CodeHash = "v2"
		f.Spec.TimeoutSeconds = 9
		f.Spec.Replicas = new(int32(2))
	})
	function = s.ready("hello", "False", v1alpha1.ReasonDependenciesFailed)
	ready := meta.FindStatusCondition(function.Status.Conditions, v1alpha1.Ready)
	if ready.Message != "pip failed; the version before it goes on serving" || function.Status.CodeHash != "v1" || function.Status.URL == "" {
		t.Errorf("after a failed build: %q, %+v", ready.Message, function.Status)
	}
	scaled := s.deploys("hello", "2 replicas", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 2 })
	if got := scaled.Spec.Template.Labels[revisionLabel]; got != first.Spec.Template.Labels[revisionLabel] {
		t.Errorf("a build that failed changed the pods: revision %s", got)
	}

	s.built("v2", "bb")
	s.deploys("hello", "the new image", func(d *appsv1.Deployment) bool {
		return strings.HasSuffix(d.Spec.Template.Spec.Containers[0].Image, ":bb")
	})
	s.rollOutWith("hello", func(deployment *appsv1.Deployment) { deployment.Status.Replicas = 3 }) // an old pod is left
	s.ready("hello", "Unknown", v1alpha1.ReasonDeploying)
	s.rollOut("hello")
	function = s.ready("hello", "True", v1alpha1.ReasonReady)
	if function.Status.CodeHash != "v2" || function.Status.ReadyReplicas != 2 {
		t.Errorf("after mending: %+v", function.Status)
	}
	if wanted := s.service("hello").Labels[revisionLabel]; wanted != s.deployment("hello").Spec.Template.Labels[revisionLabel] || wanted == scaled.Spec.Template.Labels[revisionLabel] {
		t.Errorf("the Service names revision %q", wanted)
	}
}

// A codeHash that stands for the same bytes is taken over and restarts nothing.
func TestSameBytes(t *testing.T) {
	s := newStage(t)
	s.built("v1", "aa")
	s.built("v2", "aa")
	s.function("hello", codeHash("v1"))
	s.rollOut("hello")
	s.ready("hello", "True", v1alpha1.ReasonReady)
	before := s.deployment("hello")
	s.change("hello", codeHash("v2"))
	function := s.ready("hello", "True", v1alpha1.ReasonReady)
	if function.Status.CodeHash != "v2" {
		t.Errorf("codeHash %q", function.Status.CodeHash)
	}
	if after := s.deployment("hello"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the Deployment was written: %s, then %s", before.ResourceVersion, after.ResourceVersion)
	}
}

// Nothing is written when nothing has changed: not by more passes, and not by applying the same spec.
func TestNothingIsWrittenWhenNothingChanged(t *testing.T) {
	s := newStage(t)
	s.built("v1", "aa")
	s.function("hello", codeHash("v1"), large, func(f *v1alpha1.Function) {
		f.Spec.Resources.Limits[corev1.ResourceCPU] = resource.MustParse("1500m")
		f.Spec.Resources.Limits[corev1.ResourceMemory] = resource.MustParse("1024Mi")
		f.Spec.Env = []v1alpha1.EnvVar{{Name: "B", Value: "2"}, {Name: "A", Value: "1"}}
	})
	s.rollOut("hello")
	function := s.ready("hello", "True", v1alpha1.ReasonReady)
	versions := func() string {
		service := &corev1.Service{}
		namespace := &corev1.Namespace{}
		for object, key := range map[client.Object]client.ObjectKey{
			service: {Namespace: s.tenant(), Name: "hello"}, namespace: {Name: s.tenant()},
		} {
			if err := cluster.Client.Get(t.Context(), key, object); err != nil {
				t.Fatal(err)
			}
		}
		return fmt.Sprint(s.get("hello").ResourceVersion, s.deployment("hello").ResourceVersion, service.ResourceVersion, namespace.ResourceVersion)
	}
	before := versions()
	reconciles := s.passes()
	for range 5 {
		s.builder.events <- build.Owner{Namespace: s.namespace, Name: "hello"}
		if err := cluster.Client.Update(t.Context(), function); err != nil { // the same again
			t.Fatal(err)
		}
		s.eventually("another pass", func() string {
			if s.passes() == reconciles {
				return "none"
			}
			return ""
		})
		reconciles = s.passes()
	}
	if after := versions(); after != before {
		t.Errorf("resource versions were %s and are %s", before, after)
	}
}

func TestUnknownRuntimeHeals(t *testing.T) {
	s := newStage(t)
	s.built("v1", "aa")
	s.function("hello", codeHash("v1"), func(f *v1alpha1.Function) { f.Spec.Runtime = "cobol" })
	function := s.ready("hello", "False", v1alpha1.ReasonUnknownRuntime)
	if function.Status.Phase != v1alpha1.FunctionFailed {
		t.Errorf("phase %s", function.Status.Phase)
	}
	s.change("hello", func(f *v1alpha1.Function) { f.Spec.Runtime = "python3.11" })
	s.rollOut("hello")
	s.ready("hello", "True", v1alpha1.ReasonReady)
}

// Triggers that are all disabled take the pods away, and one that is enabled brings them back; the Deployment stays the same.
func TestDisabledTriggersAndScaleToZero(t *testing.T) {
	s := newStage(t)
	s.built("v1", "aa")
	s.function("hello", codeHash("v1"), replicas(3))
	web, other := s.trigger("web", "hello", true), s.trigger("other", "hello", false)
	s.rollOut("hello")
	s.ready("hello", "True", v1alpha1.ReasonReady)
	first := s.deployment("hello")

	enable := func(trigger *v1alpha1.Trigger, on bool) {
		t.Helper()
		trigger.Spec.Enabled = &on
		if err := cluster.Client.Update(t.Context(), trigger); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(n int32) {
		t.Helper()
		s.deploys("hello", fmt.Sprint(n, " replicas"), func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == n })
		s.rollOut("hello")
	}
	enable(web, false)
	wants(0)
	if function := s.ready("hello", "True", v1alpha1.ReasonDisabled); function.Status.URL != "" {
		t.Errorf("url %q of a disabled function", function.Status.URL)
	}
	enable(other, true)
	wants(3)
	s.ready("hello", "True", v1alpha1.ReasonReady)

	s.change("hello", replicas(0))
	wants(0)
	s.ready("hello", "True", v1alpha1.ReasonScaledToZero)
	s.change("hello", replicas(1))
	wants(1)
	s.ready("hello", "True", v1alpha1.ReasonReady)
	if last := s.deployment("hello"); last.UID != first.UID || last.Spec.Template.Labels[revisionLabel] != first.Spec.Template.Labels[revisionLabel] {
		t.Errorf("the Deployment was made again or its pods replaced: %+v", last)
	}
	// The last enabled one gone, the disabled one decides; all gone, the function is one without Triggers.
	if err := cluster.Client.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	wants(0)
	s.ready("hello", "True", v1alpha1.ReasonDisabled)
	if err := cluster.Client.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	wants(1)
	s.ready("hello", "True", v1alpha1.ReasonReady)
}

// A Secret that env names: missing, made, changed together with replicas, deleted.
func TestEnvironment(t *testing.T) {
	s := newStage(t)
	s.built("v1", "aa")
	from := func(secret string) *v1alpha1.EnvVarSource {
		return &v1alpha1.EnvVarSource{SecretKeyRef: &v1alpha1.KeyRef{Name: secret, Key: "password"}}
	}
	s.function("hello", codeHash("v1"), func(f *v1alpha1.Function) {
		f.Spec.Env = []v1alpha1.EnvVar{{Name: "PLAIN", Value: "x"}, {Name: "PASSWORD", ValueFrom: from("db")}}
	})
	function := s.ready("hello", "False", v1alpha1.ReasonEnvNotFound)
	if message := meta.FindStatusCondition(function.Status.Conditions, v1alpha1.Ready).Message; !strings.Contains(message, "Secret "+s.namespace+"/db does not exist") {
		t.Errorf("message %q", message)
	}
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: s.namespace}, Data: map[string][]byte{"password": []byte("one")}})
	s.poke("hello")
	s.rollOut("hello")
	s.ready("hello", "True", v1alpha1.ReasonReady)
	first := s.environment("hello")
	if string(first.Data["PASSWORD"]) != "one" || string(first.Data["PLAIN"]) != "x" || first.Immutable == nil || !*first.Immutable {
		t.Errorf("environment %+v", first)
	}

	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: s.namespace}, Data: map[string][]byte{"password": []byte("two")}})
	s.change("hello", func(f *v1alpha1.Function) {
		f.Spec.Env[1].ValueFrom = from("other")
		f.Spec.Replicas = new(int32(4))
	})
	// Nobody ever sees more replicas with the old environment.
	s.deploys("hello", "4 replicas", func(d *appsv1.Deployment) bool {
		old := d.Spec.Template.Spec.Containers[0].EnvFrom[0].SecretRef.Name == first.Name
		if old && *d.Spec.Replicas == 4 {
			t.Error("scaled before the environment was there")
		}
		return *d.Spec.Replicas == 4 && !old
	})
	s.rollOut("hello")
	s.ready("hello", "True", v1alpha1.ReasonReady)
	if got := s.environment("hello"); string(got.Data["PASSWORD"]) != "two" {
		t.Errorf("environment %+v", got)
	}

	if err := cluster.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: s.namespace}}); err != nil {
		t.Fatal(err)
	}
	s.poke("hello")
	function = s.ready("hello", "False", v1alpha1.ReasonEnvNotFound)
	if message := meta.FindStatusCondition(function.Status.Conditions, v1alpha1.Ready).Message; !strings.Contains(message, "the version before it goes on serving") {
		t.Errorf("message %q", message)
	}
}

// poke brings a pass about, as the timer does later.
func (s *stage) poke(name string) {
	s.builder.events <- build.Owner{Namespace: s.namespace, Name: name}
}

// environment returns the Secret that the Deployment's pods have as their environment.
func (s *stage) environment(name string) *corev1.Secret {
	s.t.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.tenant(), Name: s.deployment(name).Spec.Template.Spec.Containers[0].EnvFrom[0].SecretRef.Name}
	if err := cluster.Client.Get(s.t.Context(), key, secret); err != nil {
		s.t.Fatal(err)
	}
	return secret
}

// A pod of the new version that ends by itself: its words are in the condition, and it heals when the pods do.
func TestCrash(t *testing.T) {
	s := newStage(t)
	s.built("v1", "aa")
	s.function("hello", codeHash("v1"))
	deployment := s.deploys("hello", "anything", func(*appsv1.Deployment) bool { return true })
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "hello-1", Namespace: s.tenant(), Labels: deployment.Spec.Template.Labels},
		Spec:       deployment.Spec.Template.Spec,
	}
	s.create(pod)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{ended(1, "Error", `{"error": "handler.py, line 3: no module named flask"}`)}
	if err := cluster.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.rollOutWith("hello", func(deployment *appsv1.Deployment) {
		deployment.Status.ReadyReplicas, deployment.Status.AvailableReplicas = 0, 0
	})
	function := s.ready("hello", "False", v1alpha1.ReasonCrashed)
	if message := meta.FindStatusCondition(function.Status.Conditions, v1alpha1.Ready).Message; !strings.Contains(message, "line 3: no module named flask") {
		t.Errorf("message %q", message)
	}
	s.rollOut("hello")
	s.ready("hello", "True", v1alpha1.ReasonReady)
}

// What the API server refuses is said, and what ran runs on.
func TestRefusedSpec(t *testing.T) {
	s := newStage(t)
	s.built("v1", "aa")
	s.function("hello", codeHash("v1"))
	s.rollOut("hello")
	s.ready("hello", "True", v1alpha1.ReasonReady)
	s.change("hello", func(f *v1alpha1.Function) {
		f.Spec.Resources = &v1alpha1.Resources{
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
		}
	})
	s.ready("hello", "False", v1alpha1.ReasonSpecRefused)
	s.change("hello", func(f *v1alpha1.Function) { f.Spec.Resources = nil })
	s.ready("hello", "True", v1alpha1.ReasonReady)
}

// A deleted Function takes its children along, and the last one its namespace; a name that is used again starts anew.
func TestDeletion(t *testing.T) {
	s := newStage(t)
	s.built("v1", "aa")
	for _, name := range []string{"one", "two"} {
		s.function(name, codeHash("v1"), func(f *v1alpha1.Function) { f.Spec.Env = []v1alpha1.EnvVar{{Name: "A", Value: "1"}} })
		s.rollOut(name)
		s.ready(name, "True", v1alpha1.ReasonReady)
	}
	s.delete("one")
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.SecretList{}} {
		own := client.MatchingLabels(names.Selector(Kind, s.namespace, "one"))
		if err := cluster.Client.List(t.Context(), list, client.InNamespace(s.tenant()), own); err != nil {
			t.Fatal(err)
		}
		if n := meta.LenList(list); n != 0 {
			t.Errorf("%d left of %T", n, list)
		}
	}
	if s.deployment("two") == nil {
		t.Error("the other function's Deployment is gone")
	}
	if namespace := s.namespaceOf(s.tenant()); !namespace.DeletionTimestamp.IsZero() {
		t.Error("the namespace goes although a function is left")
	}
	s.delete("two")
	s.eventually("namespace goes", func() string {
		if s.namespaceOf(s.tenant()).DeletionTimestamp.IsZero() {
			return "it stays"
		}
		return ""
	})
	s.builder.mu.Lock()
	defer s.builder.mu.Unlock()
	if len(s.builder.removed) < 2 {
		t.Errorf("removed %v", s.builder.removed)
	}
}

func (s *stage) delete(name string) {
	s.t.Helper()
	function := s.get(name)
	if err := cluster.Client.Delete(s.t.Context(), function); err != nil {
		s.t.Fatal(err)
	}
	s.eventually("Function goes", func() string {
		err := cluster.Client.Get(s.t.Context(), client.ObjectKeyFromObject(function), function)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("it stays, with finalizers %v, %v", function.Finalizers, err)
	})
}

func (s *stage) namespaceOf(name string) *corev1.Namespace {
	s.t.Helper()
	namespace := &corev1.Namespace{}
	if err := cluster.Client.Get(s.t.Context(), client.ObjectKey{Name: name}, namespace); err != nil {
		s.t.Fatal(err)
	}
	return namespace
}

// A Function in the platform's own namespaces does nothing, and its deletion is not held up.
func TestPlatformNamespaces(t *testing.T) {
	s := newStage(t)
	s.namespace = metav1.NamespacePublic
	s.function("hello")
	function := s.ready("hello", "False", v1alpha1.ReasonNotAllowed)
	if len(function.Finalizers) != 0 {
		t.Errorf("finalizers %v", function.Finalizers)
	}
	s.delete("hello")
}

// A Function that is deleted while it is being built goes at once; so does one whose namespace is deleted.
func TestDeletionWhileBuilding(t *testing.T) {
	s := newStage(t)
	s.function("hello")
	s.ready("hello", "Unknown", v1alpha1.ReasonBuilding)
	s.delete("hello")
	s.function("again")
	s.ready("again", "Unknown", v1alpha1.ReasonBuilding)
	if err := cluster.Client.Delete(t.Context(), s.namespaceOf(s.namespace)); err != nil {
		t.Fatal(err)
	}
	s.delete("again") // as the namespace's own controller does
}

// What somebody changes by hand is changed back.
func TestDrift(t *testing.T) {
	s := newStage(t)
	s.built("v1", "aa")
	s.function("hello", codeHash("v1"))
	s.rollOut("hello")
	s.ready("hello", "True", v1alpha1.ReasonReady)
	deployment := s.deployment("hello")
	deployment.Spec.Replicas = new(int32(7))
	deployment.Spec.Template.Spec.Containers[0].Image = "evil"
	if err := cluster.Client.Update(t.Context(), deployment); err != nil && !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	s.deploys("hello", "what the Function says", func(d *appsv1.Deployment) bool {
		return *d.Spec.Replicas == 1 && strings.HasSuffix(d.Spec.Template.Spec.Containers[0].Image, ":aa")
	})
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hello", Namespace: s.tenant()}}
	if err := cluster.Client.Delete(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	s.eventually("Service is made again", func() string {
		return text(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(service), service))
	})
}

// passes counts passes over built Functions: each tells the Builder that nothing is to be done.
func (s *stage) passes() int {
	s.builder.mu.Lock()
	defer s.builder.mu.Unlock()
	return s.builder.followed
}

// A Function that is one too many says so, is not built, and comes about when there is room; what is deployed stays when the limit is
// lowered.
func TestNumberOfFunctions(t *testing.T) {
	s := newStage(t)
	cfg := testConfig(t)
	cfg.Tenants.MaxFunctions = 2
	s.start(cfg)
	for _, name := range []string{"first", "second", "third"} {
		s.function(name, codeHash(name))
		s.built(name, name)
	}
	s.rollOut("first")
	s.rollOut("second")
	ready := meta.FindStatusCondition(s.ready("third", metav1.ConditionFalse, v1alpha1.ReasonQuotaExceeded).Status.Conditions, v1alpha1.Ready)
	if !strings.Contains(ready.Message, "may have 2 Functions") || s.deployment("third") != nil {
		t.Errorf("the third says %q", ready.Message)
	}
	cfg = testConfig(t)
	cfg.Tenants.MaxFunctions = 1
	s.start(cfg)
	s.change("second", func(f *v1alpha1.Function) { f.Spec.Replicas = new(int32(0)) })
	s.eventually("the second goes on being served as its spec says", func() string {
		if n := *s.deployment("second").Spec.Replicas; n != 0 {
			return fmt.Sprintf("%d replicas", n)
		}
		return ""
	})
}
