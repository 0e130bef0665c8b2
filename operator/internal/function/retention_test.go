package function

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build"
	"github.com/naeel/sless/operator/internal/build/fault"
)

func TestLastUsed(t *testing.T) {
	for name, test := range map[string]struct {
		before []string
		image  string
		most   int
		want   []string
	}{
		"the first":       {nil, "a", 2, []string{"a"}},
		"the same":        {[]string{"a"}, "a", 2, []string{"a"}},
		"another":         {[]string{"a"}, "b", 2, []string{"b", "a"}},
		"one too many":    {[]string{"b", "a"}, "c", 2, []string{"c", "b"}},
		"back":            {[]string{"c", "b", "a"}, "a", 3, []string{"a", "c", "b"}},
		"fewer than ever": {[]string{"c", "b", "a"}, "c", 1, []string{"c"}},
	} {
		var before []v1alpha1.UsedImage
		for _, image := range test.before {
			before = append(before, v1alpha1.UsedImage{Image: image, BuildKey: "earlier"})
		}
		got := lastUsed(before, v1alpha1.UsedImage{Image: test.image, BuildKey: "new"}, test.most)
		if diff := cmp.Diff(test.want, references(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got[0].BuildKey != "new" {
			t.Errorf("%s: it is remembered as %+v", name, got[0])
		}
	}
}

// Only an image that was made of the very source that the spec names, on the runtime image of today, stands for a build.
func TestRecall(t *testing.T) {
	fixed, moving := build.Source{Inline: map[string]string{"a": "b"}}, build.Source{Git: &build.GitSource{URL: "https://x/y", Ref: "main"}}
	for name, test := range map[string]struct {
		source       build.Source
		key, runtime string
		want         string
	}{
		"the same":              {fixed, "k1", "r1", "image-1"},
		"another source":        {fixed, "k2", "r1", "now"},
		"another runtime":       {fixed, "k1", "r2", "now"},
		"what may have changed": {moving, "k1", "r1", "now"},
	} {
		function := &v1alpha1.Function{Status: v1alpha1.FunctionStatus{Image: "now", BuildKey: "k0", Images: []v1alpha1.UsedImage{
			{Image: "now", BuildKey: "k0", RuntimeVersion: "r1"},
			{Image: "image-1", BuildKey: "k1", RuntimeVersion: "r1", SourceDigest: "d1", SourceRevision: "c1"},
		}}}
		s := newScope(function, nil, time.Now())
		s.recall(build.Request{Source: test.source, Runtime: build.Runtime{Image: test.runtime}}, test.key)
		status := function.Status
		if status.Image != test.want {
			t.Errorf("%s: got %s, want %s", name, status.Image, test.want)
		}
		if recalled := status.BuildKey == "k1" && status.SourceDigest == "d1" && status.SourceRevision == "c1"; recalled != (test.want == "image-1") {
			t.Errorf("%s: status is %+v", name, status)
		}
	}
}

// Status remembers what served, newest first; the Builder hears of it when the version serves, and not before.
func TestImagesAreRetained(t *testing.T) {
	s := newStage(t)
	image := func(mark string) string { return "registry.example.org/sless@sha256:" + mark }
	marks := []string{"aa", "bb", "cc"}
	for _, mark := range marks {
		s.built(mark, mark)
	}
	s.function("hello", codeHash("aa"))
	s.rollOut("hello")
	s.ready("hello", "True", v1alpha1.ReasonReady)
	s.change("hello", codeHash("bb"))
	s.ready("hello", "Unknown", v1alpha1.ReasonDeploying)
	if diff := cmp.Diff([]string{image("aa")}, s.builder.retains("hello").images); diff != "" {
		t.Error("before the second version serves", diff)
	}
	s.rollOut("hello")
	s.ready("hello", "True", v1alpha1.ReasonReady)
	for _, mark := range []string{"cc", "aa"} {
		if mark == "aa" {
			s.builder.set("aa", build.State{Phase: build.Failed, Error: fault.Terminal(v1alpha1.ReasonSourceNotFound, "the archive of then is gone")})
		}
		s.change("hello", codeHash(mark))
		s.ready("hello", "Unknown", v1alpha1.ReasonDeploying)
		s.rollOut("hello")
		s.ready("hello", "True", v1alpha1.ReasonReady)
	}
	want := []string{image("aa"), image("cc"), image("bb")}
	if diff := cmp.Diff(want, references(s.get("hello").Status.Images)); diff != "" {
		t.Error("status.images", diff)
	}
	if diff := cmp.Diff(want, s.builder.retains("hello").images); diff != "" {
		t.Error("retained", diff)
	}
}

// Nothing that anybody in the namespace uses is free to go.
func TestImagesInUse(t *testing.T) {
	s := newStage(t)
	s.built("v1", "aa")
	s.function("hello", codeHash("v1"))
	s.rollOut("hello")
	s.ready("hello", "True", v1alpha1.ReasonReady)
	s.function("other", codeHash("unbuilt"), func(f *v1alpha1.Function) {
		f.Spec.Runtime, f.Spec.Source = "", v1alpha1.Source{Image: "r/named@sha256:01"}
	})
	job := func(name, image string, ended bool) {
		job := &v1alpha1.FunctionJob{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace},
			Spec:       v1alpha1.FunctionJobSpec{FunctionRef: v1alpha1.FunctionRef{Name: "hello"}},
		}
		s.create(job)
		job.Status.Image = image
		if ended {
			job.Status.CompletionTime = new(metav1.Now())
		}
		if err := cluster.Client.Status().Update(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	job("runs", "r/job@sha256:03", false)
	job("ended", "r/ended@sha256:04", true)
	labels := map[string]string{"app": "x"}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "r/set@sha256:05"}}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	s.create(&appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: s.tenant()},
		Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	})
	want := []string{"r/named@sha256:01", "r/job@sha256:03", "r/set@sha256:05", "registry.example.org/sless@sha256:aa"}
	s.eventually("what is in use", func() string {
		used, err := s.builder.retains("hello").inUse(t.Context())
		if err != nil {
			return err.Error()
		}
		if slices.Contains(used, "r/ended@sha256:04") {
			t.Fatal("the image of a FunctionJob that has ended is in use")
		}
		for _, image := range want {
			if !slices.Contains(used, image) {
				return image + " is not in use"
			}
		}
		return ""
	})
}
