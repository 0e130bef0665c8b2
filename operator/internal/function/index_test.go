package function

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

// The Secret that build.secretName names: missing, without a file, made; and not asked for any more once the image is there.
func TestBuildSecret(t *testing.T) {
	s := newStage(t)
	s.built("v1", "aa")
	says := func(parts ...string) {
		t.Helper()
		message := meta.FindStatusCondition(s.ready("hello", "False", v1alpha1.ReasonBuildSecretNotFound).Status.Conditions, v1alpha1.Ready).Message
		for _, part := range append(parts, "Secret "+s.namespace+"/index", "build.secretName", "netrc, npmrc, pip.conf") {
			if !strings.Contains(message, part) {
				t.Errorf("message %q lacks %q", message, part)
			}
		}
	}
	s.function("hello", codeHash("v1"), func(f *v1alpha1.Function) { f.Spec.Build.SecretName = "index" })
	says("does not exist")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "index", Namespace: s.namespace}, Data: map[string][]byte{"password": []byte("hunter2")}}
	s.create(secret)
	s.poke("hello")
	s.eventually("the key is missed", func() string {
		if c := meta.FindStatusCondition(s.get("hello").Status.Conditions, v1alpha1.Ready); !strings.Contains(c.Message, "has none of the keys") {
			return c.Message
		}
		return ""
	})
	says("has none of the keys")
	secret.Data = map[string][]byte{"netrc": []byte("machine x password hunter2"), "other": []byte("y")}
	if err := cluster.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.poke("hello")
	s.rollOut("hello")
	s.ready("hello", "True", v1alpha1.ReasonReady)
	s.builder.mu.Lock()
	index := s.builder.request.Index
	s.builder.mu.Unlock()
	if index == nil || index.SecretName != "index" || len(index.Files) != 1 || string(index.Files["netrc"]) != "machine x password hunter2" {
		t.Errorf("the builder was given %+v", index)
	}
	if err := cluster.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.change("hello", func(f *v1alpha1.Function) { f.Spec.Replicas = new(int32(2)) })
	s.deploys("hello", "two replicas", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 2 })
	s.rollOut("hello")
	s.ready("hello", "True", v1alpha1.ReasonReady)
}
