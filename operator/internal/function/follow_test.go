package function

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build"
	"github.com/naeel/sless/operator/internal/build/fault"
)

func result(image, revision string) build.State {
	return build.State{Phase: build.Done, Started: time.Now(), Result: &build.Result{
		Image: "registry.example.org/sless@sha256:" + image, SourceDigest: "sha256:source-" + image, Revision: revision, BuiltAt: time.Now(),
	}}
}

// An object that is overwritten is deployed under the same spec; what is there serves until then, and when the new one is no good.
func TestPolledSource(t *testing.T) {
	s := newStage(t)
	s.builder.set("v1", result("aa", "one"))
	s.function("hello", codeHash("v1"), func(f *v1alpha1.Function) {
		f.Spec.Source = v1alpha1.Source{S3: &v1alpha1.S3Source{Key: "code.zip", PollIntervalSeconds: 60}}
	})
	s.rollOut("hello")
	f := s.ready("hello", "True", v1alpha1.ReasonReady)
	if f.Status.SourceRevision != "one" {
		t.Errorf("revision %q", f.Status.SourceRevision)
	}
	builtAt := f.Status.LastBuiltAt

	// It is read again, which may take a while, and then fails.
	s.changed("two", build.State{Phase: build.Building, Step: build.Fetching, Error: fault.Transient(v1alpha1.ReasonObjectStoreUnavailable, "away")})
	s.eventually("it is read again", func() string {
		if got := s.get("hello").Status.Build.Step; got != "Fetching" {
			return "step " + got
		}
		return ""
	})
	s.ready("hello", "True", v1alpha1.ReasonReady)
	s.changed("two", build.State{Phase: build.Failed, Error: fault.Terminal(v1alpha1.ReasonSourceInvalid, "no zip")})
	s.ready("hello", "False", v1alpha1.ReasonSourceInvalid)
	if got := s.deployment("hello").Spec.Template.Spec.Containers[0].Image; got != "registry.example.org/sless@sha256:aa" {
		t.Errorf("the pods are of %s", got)
	}

	// The same bytes under another ETag change the revision alone.
	before := s.deployment("hello").Generation
	s.changed("three", result("aa", "three"))
	f = s.ready("hello", "True", v1alpha1.ReasonReady)
	if f.Status.SourceRevision != "three" || !f.Status.LastBuiltAt.Equal(builtAt) || s.deployment("hello").Generation != before {
		t.Errorf("status %+v, generation of the Deployment %d, was %d", f.Status, s.deployment("hello").Generation, before)
	}

	s.changed("four", result("bb", "five")) // it changed once more while it was read
	s.rollOut("hello")
	s.eventually("the new code is deployed", func() string {
		f = s.get("hello")
		if f.Status.SourceRevision != "five" || f.Status.Image != "registry.example.org/sless@sha256:bb" {
			return f.Status.SourceRevision + " " + f.Status.Image
		}
		return ""
	})
}

func TestGitCredentials(t *testing.T) {
	s := newStage(t)
	s.builder.set("v1", result("aa", "commit"))
	s.function("hello", codeHash("v1"), func(f *v1alpha1.Function) {
		f.Spec.Source = v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "https://example.org/code", Ref: "main", SecretName: "login"}}
	})
	s.ready("hello", "False", v1alpha1.ReasonSourceNotFound)
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "login", Namespace: s.namespace},
		StringData: map[string]string{"username": "tenant", "password": "s3cr3t"}, Type: corev1.SecretTypeBasicAuth,
	})
	s.change("hello", func(f *v1alpha1.Function) { f.Spec.TimeoutSeconds = 7 }) // or in 45 s by itself
	s.rollOut("hello")
	if f := s.ready("hello", "True", v1alpha1.ReasonReady); f.Status.SourceRevision != "commit" {
		t.Errorf("revision %q", f.Status.SourceRevision)
	}
}
