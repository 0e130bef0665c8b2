package function

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/config"
)

const (
	oldRuntime = "registry.example.org/python@sha256:aa"
	newRuntime = "registry.example.org/python@sha256:a2"
)

// upgraded is the configuration with another image of python3.11.
func upgraded(t *testing.T, most int) *config.Config {
	cfg := testConfig(t)
	cfg.Runtimes[0].Image = newRuntime
	cfg.RuntimeUpgrade.MaxConcurrent = most
	return cfg
}

// rebuilt answers the Builder's question about a code hash on the new runtime image. The code is that of the image before.
func (s *stage) rebuilt(codeHash, image, before string) {
	s.builder.set(codeHash+" on "+newRuntime, build.State{Phase: build.Done, Result: &build.Result{
		Image: "registry.example.org/sless@sha256:" + image, SourceDigest: "sha256:source-" + before, BuiltAt: time.Now(),
	}})
}

// newPodsFail plays the controller of Deployments when the new pods do not become ready: the old ones go on.
func newPodsFail(deployment *appsv1.Deployment) {
	status := &deployment.Status
	status.Replicas, status.UpdatedReplicas = status.Replicas+1, 1
	status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
}

// newPodsStart plays it while they start.
func newPodsStart(deployment *appsv1.Deployment) {
	status := &deployment.Status
	status.Replicas, status.UpdatedReplicas = status.Replicas+1, 1
}

func runs(d *appsv1.Deployment, image string) bool {
	return d != nil && strings.HasSuffix(d.Spec.Template.Spec.Containers[0].Image, ":"+image)
}

// upgrade waits until the status of a Function's upgrade is as wanted, with Ready True and in its message the words.
func (s *stage) upgrade(name string, state v1alpha1.UpgradeState, words string) *v1alpha1.Function {
	s.t.Helper()
	var function *v1alpha1.Function
	s.eventually("upgrade of "+name, func() string {
		function = s.get(name)
		ready := meta.FindStatusCondition(function.Status.Conditions, v1alpha1.Ready)
		got := v1alpha1.UpgradeState("")
		if function.Status.Upgrade != nil {
			got = function.Status.Upgrade.State
		}
		if got != state || ready == nil || ready.Status != "True" || !strings.Contains(ready.Message, words) {
			return fmt.Sprintf("want %q and %q, got %+v and %+v", state, words, function.Status.Upgrade, ready)
		}
		return ""
	})
	return function
}

// readiness watches that Ready of all Functions is True all the time.
func (s *stage) alwaysReady(names []string) (end func()) {
	quit := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			for _, name := range names {
				function := &v1alpha1.Function{}
				if err := cluster.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, function); err != nil {
					s.t.Error(err)
					return
				}
				ready := meta.FindStatusCondition(function.Status.Conditions, v1alpha1.Ready)
				if ready.Status != "True" || function.Status.ReadyReplicas != int32(min(1, *function.Spec.Replicas)) {
					s.t.Errorf("%s: %d ready, %+v", name, function.Status.ReadyReplicas, ready)
					return
				}
			}
			select {
			case <-quit:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return func() { close(quit); all.Wait() }
}

// Twelve Functions come to a new runtime image, two at a time, although upgrades are paused and the operator is restarted on the way. One
// does not start on it, one can't be built, one is off: each ends where it should, and none is ever not Ready.
func TestRuntimeUpgrade(t *testing.T) {
	const most = 2
	s := newStage(t)
	var names []string
	for i := range 12 {
		name := fmt.Sprintf("f%02d", i)
		names = append(names, name)
		s.built("v-"+name, name)
		n := int32(1)
		if name == "f07" {
			n = 0
		}
		s.function(name, codeHash("v-"+name), replicas(n))
	}
	for _, name := range names {
		s.rollOut(name)
	}
	for _, name := range names {
		s.upgrade(name, "", "")
		if name == "f05" {
			s.builder.fail("v-f05 on "+newRuntime, fault.Terminal(v1alpha1.ReasonDependenciesFailed, "no wheel for it"))
			continue
		}
		s.rebuilt("v-"+name, name+"-new", name)
	}
	ready := s.alwaysReady(names)
	defer ready()
	going := func() (list []string) {
		var functions v1alpha1.FunctionList // of one moment: read one by one, a place that is handed on would count twice
		if err := cluster.Client.List(t.Context(), &functions, client.InNamespace(s.namespace)); err != nil {
			t.Fatal(err)
		}
		for i := range functions.Items {
			if function := &functions.Items[i]; placeOf(&function.Status) != nil {
				list = append(list, function.Name)
			}
		}
		if len(list) > most {
			t.Errorf("%v have a place", list)
		}
		return list
	}

	cfg := upgraded(t, most)
	cfg.RuntimeUpgrade.Paused = true
	s.start(cfg)
	for _, name := range names {
		s.upgrade(name, v1alpha1.UpgradePaused, "while upgrades are paused")
	}

	// Two begin. They keep their places, and no other gets one, when the operator is restarted or upgrades are paused again.
	s.start(upgraded(t, most))
	for _, name := range names[:most] {
		s.deploys(name, "the new image", func(d *appsv1.Deployment) bool { return runs(d, name+"-new") })
		s.upgrade(name, v1alpha1.Upgrading, "it is being brought to the new image of runtime python3.11")
	}
	for _, name := range names[most:] {
		s.upgrade(name, v1alpha1.UpgradeWaiting, "waits for its turn")
	}
	s.start(upgraded(t, most))
	s.settles(names)
	if got := going(); len(got) != most || got[0] != names[0] || got[1] != names[1] {
		t.Errorf("after a restart %v have a place", got)
	}
	cfg = upgraded(t, most)
	cfg.RuntimeUpgrade.Paused = true
	s.start(cfg)
	for _, name := range names[most:] {
		s.upgrade(name, v1alpha1.UpgradePaused, "")
	}
	for _, name := range names[:most] {
		s.rollOut(name)
		if function := s.upgrade(name, "", ""); function.Status.RuntimeVersion != newRuntime || !strings.HasSuffix(function.Status.Image, name+"-new") {
			t.Errorf("%s is on %s with %s", name, function.Status.RuntimeVersion, function.Status.Image)
		}
	}
	s.settles(names)
	if got := going(); len(got) != 0 {
		t.Errorf("%v begin while upgrades are paused", got)
	}

	// All come there in the end, or say why not.
	s.start(upgraded(t, most))
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		list, left := going(), 0
		for _, name := range names {
			if function := s.get(name); function.Status.RuntimeVersion != newRuntime && function.Status.RuntimeHeld != newRuntime || placeOf(&function.Status) != nil {
				left++
			}
		}
		if left == 0 {
			break
		}
		for _, name := range list {
			switch d := s.deployment(name); {
			case name == "f03":
				s.rollOutWith(name, func(d *appsv1.Deployment) { // it may have been taken back since it was looked at
					if runs(d, "f03-new") {
						newPodsFail(d)
					}
				})
			case runs(d, name+"-new"):
				s.rollOut(name)
			}
		}
	}
	for _, name := range names {
		switch name {
		case "f03":
			s.upgrade(name, v1alpha1.UpgradeHeld, "the pods did not become ready in time")
		case "f05":
			s.upgrade(name, v1alpha1.UpgradeHeld, "could not be brought to the new one: no wheel for it")
		default:
			s.upgrade(name, "", "")
			continue
		}
		if function := s.get(name); function.Status.RuntimeVersion != oldRuntime || !runs(s.deployment(name), name) || function.Status.RuntimeHeld != newRuntime {
			t.Errorf("%s is on %s and runs %s", name, function.Status.RuntimeVersion, s.deployment(name).Spec.Template.Spec.Containers[0].Image)
		}
		s.hasEvent(name, runtimeHeld)
	}
	if function := s.get("f07"); function.Status.RuntimeVersion != newRuntime || *s.deployment("f07").Spec.Replicas != 0 || !runs(s.deployment("f07"), "f07-new") {
		t.Errorf("the Function that is off: %+v", function.Status)
	}
	s.eventually("metrics", func() string {
		if on, held := gauge("python3.11", "current"), gauge("python3.11", "held"); on != 10 || held != 2 {
			return fmt.Sprint(on, " on the new image and ", held, " held")
		}
		return ""
	})

	// Held ones stay so over a restart, and go back to nothing when the catalogue does: their pods are never touched.
	s.start(upgraded(t, most))
	s.upgrade("f03", v1alpha1.UpgradeHeld, "in time")
	before := s.deployment("f03").ResourceVersion
	cfg = testConfig(t)
	cfg.RuntimeUpgrade.Paused = true
	s.start(cfg)
	if function := s.upgrade("f03", "", ""); function.Status.RuntimeHeld != "" || s.deployment("f03").ResourceVersion != before {
		t.Errorf("after going back: %+v", function.Status)
	}
}

// settles waits until turns were given and taken, if there are any.
func (s *stage) settles(names []string) {
	s.t.Helper()
	was := ""
	since := time.Now()
	s.eventually("nothing moves", func() string {
		now := ""
		for _, name := range names {
			now += s.get(name).ResourceVersion + " "
		}
		if now != was {
			was, since = now, time.Now()
		}
		if time.Since(since) < 2*turnEvery {
			return "it moves"
		}
		return ""
	})
}

func (s *stage) hasEvent(name, reason string) {
	s.t.Helper()
	s.eventually("Event "+reason, func() string {
		var list eventsv1.EventList
		if err := cluster.Client.List(s.t.Context(), &list, client.InNamespace(s.namespace)); err != nil {
			return err.Error()
		}
		for i := range list.Items {
			if list.Items[i].Regarding.Name == name && list.Items[i].Reason == reason {
				return ""
			}
		}
		return "there is none"
	})
}

// gauge reads one of the Function gauges.
func gauge(runtime, state string) float64 {
	families, _ := metrics.Registry.Gather() // other collectors may fail
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := metric.GetLabel() // sorted by name
			if family.GetName() == "sless_functions" && labels[0].GetValue() == runtime && labels[1].GetValue() == state {
				return metric.GetGauge().GetValue()
			}
		}
	}
	return -1
}

// What a tenant changes comes first, on the image that works; it tries a new runtime again, and what it breaks is its own failure.
func TestTenantChangesDuringUpgrade(t *testing.T) {
	s := newStage(t)
	s.built("v1", "one")
	s.function("hello", codeHash("v1"), replicas(1))
	s.rollOut("hello")
	s.upgrade("hello", "", "")
	s.rebuilt("v1", "one-new", "one")
	s.start(upgraded(t, 1))
	newPods := func() {
		t.Helper()
		s.deploys("hello", "the new image", func(d *appsv1.Deployment) bool { return runs(d, "one-new") })
	}
	oldPods := func(seconds int64) {
		t.Helper()
		s.deploys("hello", "the old image", func(d *appsv1.Deployment) bool {
			return runs(d, "one") && *d.Spec.Template.Spec.TerminationGracePeriodSeconds == seconds
		})
	}
	grace := *s.deployment("hello").Spec.Template.Spec.TerminationGracePeriodSeconds

	// During the roll-out: the change rolls out by itself, and the upgrade begins anew after it.
	newPods()
	s.rollOutWith("hello", newPodsStart)
	s.upgrade("hello", v1alpha1.Upgrading, "")
	s.change("hello", func(f *v1alpha1.Function) { f.Spec.TimeoutSeconds -= 10 })
	oldPods(grace - 10)
	s.ready("hello", "Unknown", v1alpha1.ReasonDeploying)
	s.rollOut("hello")
	newPods()

	// The pods do not become ready: back, and held until the tenant changes something that makes pods.
	s.rollOutWith("hello", newPodsFail)
	oldPods(grace - 10)
	s.rollOut("hello")
	s.upgrade("hello", v1alpha1.UpgradeHeld, "stays on an earlier image of runtime python3.11")
	s.change("hello", replicas(2))
	s.deploys("hello", "two replicas", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 2 && runs(d, "one") })
	s.rollOut("hello")
	s.upgrade("hello", v1alpha1.UpgradeHeld, "")
	s.change("hello", func(f *v1alpha1.Function) { f.Spec.TimeoutSeconds -= 10 })
	oldPods(grace - 20)
	s.rollOut("hello")
	newPods()
	s.rollOutWith("hello", newPodsFail)
	oldPods(grace - 20)
	s.rollOut("hello")
	s.upgrade("hello", v1alpha1.UpgradeHeld, "")

	// Other code is built on the catalogue's image, and that it fails is a failure like any other.
	s.builder.fail("v2", fault.Terminal(v1alpha1.ReasonDependenciesFailed, "pip failed"))
	s.change("hello", codeHash("v2"))
	s.ready("hello", "False", v1alpha1.ReasonDependenciesFailed)
	s.change("hello", codeHash("v1")) // as it was
	s.upgrade("hello", v1alpha1.UpgradeHeld, "in time")
	s.built("v3", "three")
	s.change("hello", codeHash("v3"))
	s.deploys("hello", "other code", func(d *appsv1.Deployment) bool { return runs(d, "three") })
	s.rollOutWith("hello", newPodsFail)
	s.ready("hello", "False", v1alpha1.ReasonProgressDeadlineExceeded)
	s.rollOut("hello")
	if function := s.upgrade("hello", "", ""); function.Status.RuntimeVersion != newRuntime || function.Status.RuntimeHeld != "" {
		t.Errorf("status %+v", function.Status)
	}
}

// Trouble that passes is no failure, a lost catalogue entry for a moment changes nothing, and one that goes back takes the pods back.
func TestUpgradeIsPatient(t *testing.T) {
	s := newStage(t)
	s.built("v1", "one")
	s.function("hello", codeHash("v1"), replicas(1))
	s.rollOut("hello")
	s.upgrade("hello", "", "")
	s.builder.set("v1 on "+newRuntime, build.State{Phase: build.Building, Error: fault.Transient(v1alpha1.ReasonRegistryUnavailable, "the registry is away")})
	s.start(upgraded(t, 1))
	s.upgrade("hello", v1alpha1.Upgrading, "the registry is away; sless tries again")
	s.rebuilt("v1", "one-new", "one")
	s.deploys("hello", "the new image", func(d *appsv1.Deployment) bool { return runs(d, "one-new") })
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace, pod.Labels = "hello-1", s.tenant(), s.deployment("hello").Spec.Template.Labels
	pod.Spec = s.deployment("hello").Spec.Template.Spec
	s.create(pod)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{waiting("InvalidImageName", "manifest unknown")}
	if err := cluster.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.rollOutWith("hello", newPodsFail)
	s.upgrade("hello", v1alpha1.Upgrading, "the node can't pull the image: manifest unknown")
	pod.Status.ContainerStatuses = nil
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "Insufficient cpu"}}
	if err := cluster.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.rollOutWith("hello", newPodsFail)
	s.upgrade("hello", v1alpha1.Upgrading, "no node takes pod hello-1: Insufficient cpu")

	s.start(testConfig(t)) // the catalogue goes back in the middle
	s.deploys("hello", "the old image", func(d *appsv1.Deployment) bool { return runs(d, "one") })
	s.upgrade("hello", v1alpha1.Upgrading, "its pods are being replaced")
	s.rollOut("hello")
	if function := s.upgrade("hello", "", ""); function.Status.Upgrade != nil || function.Status.RuntimeVersion != oldRuntime {
		t.Errorf("status %+v", function.Status)
	}
}

// Code that has changed under its name is not brought along by an upgrade.
func TestUpgradeTakesNoOtherCode(t *testing.T) {
	s := newStage(t)
	s.built("v1", "one")
	s.function("hello", codeHash("v1"), replicas(1), func(f *v1alpha1.Function) {
		f.Spec.Source = v1alpha1.Source{S3: &v1alpha1.S3Source{Key: "code.zip"}}
	})
	s.rollOut("hello")
	s.upgrade("hello", "", "")
	s.rebuilt("v1", "one-new", "other")
	s.start(upgraded(t, 1))
	s.upgrade("hello", v1alpha1.UpgradeHeld, "change codeHash to have it built")
	if !runs(s.deployment("hello"), "one") {
		t.Error("it was deployed")
	}
}

// A polled object that is overwritten is the tenant's own change: on the new runtime image at once, be it paused or under way.
func TestPolledSourceDuringUpgrade(t *testing.T) {
	s := newStage(t)
	s.builder.set("v1", result("one", "etag-one"))
	s.function("hello", codeHash("v1"), replicas(1), func(f *v1alpha1.Function) {
		f.Spec.Source = v1alpha1.Source{S3: &v1alpha1.S3Source{Key: "code.zip", PollIntervalSeconds: 60}}
	})
	s.rollOut("hello")
	s.upgrade("hello", "", "")
	cfg := upgraded(t, 1)
	cfg.RuntimeUpgrade.Paused = true
	s.start(cfg)
	s.upgrade("hello", v1alpha1.UpgradePaused, "")
	s.changed("etag-two", result("two", "etag-two"))
	s.poke("hello")
	s.deploys("hello", "the code that was put there", func(d *appsv1.Deployment) bool { return runs(d, "two") })
	s.rollOut("hello")
	if function := s.upgrade("hello", "", ""); function.Status.RuntimeVersion != newRuntime || function.Status.SourceRevision != "etag-two" {
		t.Errorf("status %+v", function.Status)
	}

	// An upgrade that reads other code than before has read what the tenant wants.
	s.builder.set("v1 on "+oldRuntime, result("three", "etag-three"))
	s.start(testConfig(t))
	s.deploys("hello", "what was read", func(d *appsv1.Deployment) bool { return runs(d, "three") })
	s.rollOut("hello")
	if function := s.upgrade("hello", "", ""); function.Status.RuntimeVersion != oldRuntime || function.Status.SourceRevision != "etag-three" {
		t.Errorf("status %+v", function.Status)
	}
}
