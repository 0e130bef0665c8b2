package function

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
)

// A new process writes nothing; one with another idea of pods replaces those of few Functions at a time, and of all in the end.
func TestNewVersionOfSless(t *testing.T) {
	const most, functions = 5, 8 // 5 is the default
	s := newStage(t)
	s.built("v1", "aa")
	name := func(i int) string { return fmt.Sprint("f", i) }
	for i := range functions {
		s.function(name(i), codeHash("v1"))
		s.rollOut(name(i))
	}
	settled := func() (versions string) {
		for i := range functions {
			s.ready(name(i), "True", v1alpha1.ReasonReady)
			versions += s.deployment(name(i)).ResourceVersion + " "
		}
		return versions
	}
	before := settled()
	s.start(testConfig(t))
	s.built("v1", "aa")
	s.function("new", codeHash("v1"))
	s.rollOut("new") // the new process works
	s.eventually("it has come to all", func() string {
		if passes := s.passes(); passes < functions {
			return fmt.Sprint(passes, " passes")
		}
		return ""
	})
	if after := settled(); after != before {
		t.Errorf("a new process wrote Deployments: versions were %s and are %s", before, after)
	}
	s.delete("new")

	cfg := testConfig(t)
	cfg.Function.TmpSize = "1Gi"
	s.start(cfg)
	replaced := func() (names []string) {
		for i := range functions {
			if s.deployment(name(i)).Spec.Template.Spec.Volumes[0].EmptyDir.SizeLimit.String() == "1Gi" {
				names = append(names, name(i))
			}
		}
		return names
	}
	s.eventually("the first are replaced", func() string {
		if n := len(replaced()); n < most {
			return fmt.Sprint(n, " are")
		}
		return ""
	})
	// A tenant's own change is not held up, and brings the new pods along.
	last := ""
	for i := range functions {
		if !slices.Contains(replaced(), name(i)) {
			last = name(i)
		}
	}
	s.change(last, func(f *v1alpha1.Function) { f.Spec.TimeoutSeconds = 9 })
	s.deploys(last, "both changes", func(d *appsv1.Deployment) bool {
		return slices.Contains(replaced(), last) && *d.Spec.Template.Spec.TerminationGracePeriodSeconds < 60
	})
	if n := len(replaced()); n != most+1 {
		t.Errorf("%d are replaced at a time, want %d and the changed one", n, most)
	}
	for done := map[string]bool{}; len(done) < functions; {
		for _, name := range replaced() {
			if !done[name] {
				s.rollOut(name)
				done[name] = true
			}
		}
		for i := range functions {
			s.poke(name(i)) // as the timer does later
		}
	}
	settled()
}

// An image that a node can't pull may be lost: the Builder is asked to see to it, and the status says what the matter is meanwhile.
func TestLostImage(t *testing.T) {
	s := newStage(t)
	s.built("v1", "aa")
	s.function("hello", codeHash("v1"))
	s.rollOut("hello")
	s.ready("hello", "True", v1alpha1.ReasonReady)
	asked := func() int {
		s.builder.mu.Lock()
		defer s.builder.mu.Unlock()
		return s.builder.asked
	}
	before := asked()
	deployment := s.deployment("hello")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "hello-1", Namespace: s.tenant(), Labels: deployment.Spec.Template.Labels}, Spec: deployment.Spec.Template.Spec}
	s.create(pod)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{waiting("InvalidImageName", "manifest unknown")}
	if err := cluster.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.rollOutWith("hello", func(deployment *appsv1.Deployment) {
		deployment.Status.ReadyReplicas, deployment.Status.AvailableReplicas = 0, 0
	})
	s.ready("hello", "False", v1alpha1.ReasonImagePullFailed)
	s.poke("hello")
	s.eventually("the Builder is asked", func() string {
		if asked() == before {
			return "it is not"
		}
		return ""
	})
	s.ready("hello", "False", v1alpha1.ReasonImagePullFailed)
	if err := cluster.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.rollOut("hello")
	s.ready("hello", "True", v1alpha1.ReasonReady)
}
