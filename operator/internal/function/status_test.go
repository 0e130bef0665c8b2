package function

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/config"
	"github.com/naeel/sless/operator/internal/kstatustest"
)

// serving is the scope of a pass that found everything in order.
func serving() *scope {
	s := testScope(testFunction())
	s.deployment, s.deployed, s.revision = deploymentWith(1, 1, 1), true, "r1"
	s.rollout = judgeDeployment(s.deployment, 1, s.now)
	s.triggers = triggers{any: true, enabled: true, enabledHTTP: true}
	s.routing = Routing{Complete: true}
	return s
}

func withDeployment(s *scope, d *appsv1.Deployment) *scope {
	s.deployment, s.rollout = d, judgeDeployment(d, s.replicas(), s.now)
	return s
}

func TestSetStatus(t *testing.T) {
	unknown := fault.Terminal(v1alpha1.ReasonUnknownRuntime, "no such runtime")
	away := fault.Transient(v1alpha1.ReasonRegistryUnavailable, "the registry is away")
	building := func(obstacle *fault.Error, old *appsv1.Deployment) *scope {
		s := serving()
		s.image, s.deployed, s.rollout, s.deployment = nil, false, rollout{}, old
		s.builder = &build.State{Phase: build.Building, Step: build.Installing, JobName: "job"}
		s.stop(obstacle, 0)
		return s
	}
	for name, test := range map[string]struct {
		scope    *scope
		phase    v1alpha1.FunctionPhase
		ready    metav1.ConditionStatus
		reason   string
		message  string
		built    metav1.ConditionStatus
		answers  metav1.ConditionStatus // Available
		url      string
		codeHash string
	}{
		"serving": {serving(), "Ready", "True", "Ready", "", "True", "True", "https://functions.example.org/fn/shop/hello", "mark-2"},
		"no trigger": {func() *scope { s := serving(); s.triggers = triggers{}; return s }(),
			"Ready", "True", "Ready", "", "True", "True", "", "mark-2"},
		"building": {building(fault.Transient(v1alpha1.ReasonBuilding, "installing"), nil),
			"Building", "Unknown", "Building", "installing", "Unknown", "Unknown", "", ""},
		"registry away": {building(away, nil), "Building", "Unknown", "RegistryUnavailable", "away", "Unknown", "Unknown", "", ""},
		"failed build, old version": {building(fault.Terminal(v1alpha1.ReasonBuildFailed, "pip failed"), deploymentWith(1, 1, 1)),
			"Failed", "False", "BuildFailed", "pip failed; the version before it goes on serving", "False", "True", "https://functions.example.org/fn/shop/hello", ""},
		"unknown runtime": {func() *scope { s := building(unknown, nil); s.builder = nil; return s }(),
			"Failed", "False", "UnknownRuntime", "no such runtime", "False", "False", "", ""},
		"deploying": {withDeployment(serving(), deploymentWith(1, 1, 0)), "Deploying", "Unknown", "Deploying", "0 of 1", "True", "Unknown", "", ""},
		"new pods, old ones left": {withDeployment(serving(), deploymentWith(2, 1, 2)),
			"Deploying", "Unknown", "Deploying", "yet to go", "True", "True", "https://functions.example.org/fn/shop/hello", ""},
		"crashed, old version": {func() *scope {
			s := withDeployment(serving(), deploymentWith(2, 1, 1))
			s.rollout.problem = fault.Terminal(v1alpha1.ReasonCrashed, "boom")
			return s
		}(), "Failed", "False", "Crashed", "boom; the version before it goes on serving", "True", "True", "https://functions.example.org/fn/shop/hello", ""},
		"one of two crashed": {func() *scope {
			s := serving()
			s.function.Spec.Replicas = new(int32(2))
			withDeployment(s, deploymentWith(2, 2, 1)).rollout.problem = fault.Terminal(v1alpha1.ReasonCrashed, "boom")
			return s
		}(), "Failed", "False", "Crashed", "boom", "True", "False", "https://functions.example.org/fn/shop/hello", ""},
		"routing": {func() *scope { s := serving(); s.routing = Routing{Message: "gateway g lags"}; return s }(),
			"Deploying", "Unknown", "Routing", "gateway g lags", "True", "True", "https://functions.example.org/fn/shop/hello", "mark-2"},
		"scaled to zero": {func() *scope {
			s := serving()
			s.function.Spec.Replicas = new(int32(0))
			return withDeployment(s, deploymentWith(0, 0, 0))
		}(), "Ready", "True", "ScaledToZero", "replicas is 0", "True", "True", "", "mark-2"},
		"going to zero": {func() *scope {
			s := serving()
			s.function.Spec.Replicas = new(int32(0))
			return withDeployment(s, deploymentWith(1, 1, 1))
		}(), "Deploying", "Unknown", "Deploying", "yet to go", "True", "Unknown", "", ""},
		"disabled": {func() *scope {
			s := serving()
			s.triggers = triggers{any: true}
			return withDeployment(s, deploymentWith(0, 0, 0))
		}(), "Ready", "True", "Disabled", "every Trigger", "True", "True", "", "mark-2"},
		"not looked at": {newScope(testFunction(), nil, testScope(testFunction()).now), "Pending", "Unknown", "Pending", "", "Unknown", "Unknown", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			setStatus(test.scope, testConfig(t))
			status := test.scope.function.Status
			ready := meta.FindStatusCondition(status.Conditions, v1alpha1.Ready)
			if ready.Status != test.ready || ready.Reason != test.reason || !strings.Contains(ready.Message, test.message) {
				t.Errorf("Ready is %s %s %q, want %s %s %q", ready.Status, ready.Reason, ready.Message, test.ready, test.reason, test.message)
			}
			if test.message == "boom" && ready.Message != "boom" {
				t.Errorf("Ready says %q of a version that is the only one", ready.Message)
			}
			if got := meta.FindStatusCondition(status.Conditions, v1alpha1.Built).Status; got != test.built {
				t.Errorf("Built is %s, want %s", got, test.built)
			}
			if got := meta.FindStatusCondition(status.Conditions, v1alpha1.Available).Status; got != test.answers {
				t.Errorf("Available is %s, want %s", got, test.answers)
			}
			if status.Phase != test.phase || status.URL != test.url || status.CodeHash != test.codeHash {
				t.Errorf("got phase %s, url %q, codeHash %q; want %s, %q, %q", status.Phase, status.URL, status.CodeHash, test.phase, test.url, test.codeHash)
			}
			if got, want := kstatustest.Of(t, test.scope.function), map[metav1.ConditionStatus]string{"True": "Current", "Unknown": "InProgress", "False": "Failed"}[test.ready]; got != want {
				t.Errorf("kstatus says %s, want %s", got, want)
			}
			for _, condition := range status.Conditions {
				if condition.ObservedGeneration != 3 || condition.Message == "" {
					t.Errorf("condition %+v lacks its generation or a message", condition)
				}
			}
		})
	}
}

func TestStatusKeepsWhatWasBuilt(t *testing.T) {
	s := serving()
	s.function.Status.Image, s.function.Status.BuildKey, s.function.Status.CodeHash = "i", "k", "mark-1"
	s.function.Status.Build = &v1alpha1.BuildStatus{Step: "Done"}
	s.image, s.deployed = nil, false
	s.stop(fault.Terminal(v1alpha1.ReasonBuildFailed, "failed"), 0)
	setStatus(s, testConfig(t))
	if got := s.function.Status; got.Image != "i" || got.BuildKey != "k" || got.CodeHash != "mark-1" || got.Build.Step != "Done" {
		t.Errorf("got %+v", got)
	}
}

// The hash in hosts may not change: they are in what users keep.
func TestPublicURL(t *testing.T) {
	for want, cfg := range map[string]config.Config{
		"https://f.example.org/fn/shop/hello":    {ExternalURL: "https://f.example.org", Domain: "example.net"},
		"":                                       {},
		"http://hello-shop-e2f406a4.example.net": {Domain: "example.net"},
		"https://hello-shop-e2f406a4.example.net": {Domain: "example.net", Ingress: config.Ingress{TLSSecretName: "wild"}},
	} {
		if got := publicURL(&cfg, "shop", "hello"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestObserveTriggers(t *testing.T) {
	http := v1alpha1.Trigger{Spec: v1alpha1.TriggerSpec{Type: v1alpha1.TriggerHTTP}}
	cron := v1alpha1.Trigger{Spec: v1alpha1.TriggerSpec{Type: v1alpha1.TriggerCron}}
	off := *http.DeepCopy()
	off.Spec.Enabled = new(false)
	going := *http.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{}
	going.DeletionTimestamp.Time = testScope(testFunction()).now
	for name, test := range map[string]struct {
		list []v1alpha1.Trigger
		want triggers
	}{
		"none":             {nil, triggers{}},
		"http":             {[]v1alpha1.Trigger{http}, triggers{true, true, true}},
		"cron":             {[]v1alpha1.Trigger{cron}, triggers{true, true, false}},
		"off":              {[]v1alpha1.Trigger{off}, triggers{true, false, false}},
		"off and cron":     {[]v1alpha1.Trigger{off, cron}, triggers{true, true, false}},
		"deleted":          {[]v1alpha1.Trigger{going}, triggers{}},
		"deleted and off":  {[]v1alpha1.Trigger{going, off}, triggers{true, false, false}},
		"off, http, again": {[]v1alpha1.Trigger{off, http, off}, triggers{true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := observeTriggers(test.list); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
