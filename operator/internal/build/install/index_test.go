package install

import (
	"context"
	"encoding/base64"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/names"
)

// testIndex has a secret of every kind.
var testIndex = Index{
	pipConf: []byte("[global]\nextra-index-url =\n    https://ci:p%40ss-one@pypi.example.org/simple\n    https://token-two@pypi.example.org/simple\n"),
	netrc:   []byte("machine a.example.org\nlogin ci password pass-three\nmachine b.example.org login token-four password x-oauth-basic\n"),
	npmrc:   []byte("@own:registry=https://npm.example.org/\n//npm.example.org/:_authToken=\"token-five\"\n_auth = Y2k6cGFzcy1zaXg=\n//x.example.org/:_password=cGFzcy1zZXZlbg==\n//y/:_password=abc\n"),
}

func TestSecretsOfAnIndex(t *testing.T) {
	secrets := testIndex.secrets()
	for _, want := range []string{
		"p@ss-one", "p%40ss-one", "token-two", "pass-three", "token-four", "token-five", "pass-six", "pass-seven", "Y2k6cGFzcy1zaXg=", "cGFzcy1zZXZlbg==",
		base64.StdEncoding.EncodeToString([]byte("ci:p@ss-one")), // as an Authorization header has it
	} {
		if !slices.Contains(secrets, want) {
			t.Errorf("%q is not among %q", want, secrets)
		}
	}
	for _, not := range []string{"ci", "abc", "", "pypi.example.org"} {
		if slices.Contains(secrets, not) {
			t.Errorf("%q is taken for a secret", not)
		}
	}
	if !slices.IsSortedFunc(secrets, func(a, b string) int { return len(b) - len(a) }) {
		t.Errorf("not the longest first: %q", secrets)
	}
	log := "Looking in indexes: https://ci:p%40ss-one@pypi.example.org/simple\nuser ci says pass-three, or is it pass-six?"
	if got := Tail(log, secrets...); got != "Looking in indexes: https://***@pypi.example.org/simple\nuser ci says ***, or is it ***?" {
		t.Errorf("got %q", got)
	}
}

func TestIndexOfTheTenantGoesFirst(t *testing.T) {
	for text, own := range map[string]bool{"[global]\nindex-url = https://x\n": true, "[global]\n  Index_URL: https://x": true, "[global]\nextra-index-url = https://x": false, "": false} {
		if got := (Index{pipConf: []byte(text)}).ownIndex(); got != own {
			t.Errorf("%q: %v", text, got)
		}
	}
	for text, own := range map[string]bool{"registry=https://x": true, "a=b\nregistry = https://x": true, "@own:registry=https://x": false, "": false} {
		if got := (Index{npmrc: []byte(text)}).ownRegistry(); got != own {
			t.Errorf("%q: %v", text, got)
		}
	}
	spec := testSpec
	spec.Index = Index{pipConf: []byte("index-url = https://x"), npmrc: []byte("registry = https://x")}
	for _, variable := range buildInstall(spec, closed).Env {
		if variable.Name == "PIP_INDEX_URL" || variable.Name == "NPM_CONFIG_REGISTRY" {
			t.Errorf("%s is set, and would win", variable.Name)
		}
	}
}

// The files come into a Secret that belongs to the Job, and the log is shown without what they have; without the list it is not shown.
func TestIndexBelongsToTheJob(t *testing.T) {
	r := newRunner(t)
	spec := specOf(t, r)
	spec.Index = testIndex
	if err := r.Ensure(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	job := getJob(t, spec.Key)
	secrets := client.CoreV1().Secrets(names.BuildNamespace)
	given, err := secrets.Get(t.Context(), job.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range testIndex {
		if string(given.Data[name]) != string(want) {
			t.Errorf("%s is %q", name, given.Data[name])
		}
	}
	if owners := given.OwnerReferences; len(owners) != 1 || owners[0].UID != job.UID {
		t.Errorf("owners %v", owners)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: names.BuildNamespace}, Spec: job.Spec.Template.Spec}
	values, err := r.secrets(t.Context(), pod)
	if err != nil || !slices.Equal(values, testIndex.secrets()) {
		t.Errorf("got %q, %v", values, err)
	}
	if err := secrets.Delete(context.Background(), job.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if values, err := r.secrets(t.Context(), pod); err == nil {
		t.Errorf("without the Secret: %q", values)
	}
}

func TestIndexIsSeenByTheInstallStepAlone(t *testing.T) {
	spec := testSpec
	spec.Index = testIndex
	for _, s := range []Spec{spec, {Key: spec.Key, Index: testIndex, Installer: "x", Parcel: &Parcel{}}} {
		pod := buildJob(s, closed).Spec.Template.Spec
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			mounted := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == indexVolume })
			if mounted != (container.Name == installStep) {
				t.Errorf("%s: mounted %v", container.Name, mounted)
			}
		}
		for _, volume := range pod.Volumes {
			if volume.Name != indexVolume {
				continue
			}
			for _, item := range volume.Secret.Items {
				if item.Key == corev1.DockerConfigJsonKey || item.Key == addressFile {
					t.Errorf("the install step sees %s", item.Key)
				}
			}
			if len(volume.Secret.Items) != 4 {
				t.Errorf("items %v", volume.Secret.Items)
			}
		}
	}
}
