package registry

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/dial"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/config"
)

func TestAppend(t *testing.T) {
	s := newServer(t, false)
	base := randomImage(t)
	reference := put(t, s, "runtimes/python", "v1", base)
	r := connect(t, configFor(t, s))
	labels := map[string]string{"a": "1"}
	first, err := r.Append(t.Context(), reference, layerOf(t, "x"), "ns", "hello-1", labels)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(first.Reference, s.host()+"/sless-ns@sha256:") || first.Size == 0 {
		t.Errorf("got %+v", first)
	}
	again, err := r.Append(t.Context(), reference, layerOf(t, "x"), "ns", "hello-1", labels)
	if err != nil {
		t.Fatal(err)
	}
	found, err := r.Find(t.Context(), "ns", "hello-1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Error("not the same the second time", diff)
	}
	if diff := cmp.Diff(first, found); diff != "" {
		t.Error("found another", diff)
	}
	checkImage(t, s, base, first.Reference)
	if absent, err := r.Find(t.Context(), "other", "hello-1"); absent != nil || err != nil {
		t.Errorf("found in another's repository: %v, %v", absent, err)
	}
}

func checkImage(t *testing.T, s *server, base v1.Image, reference string) {
	t.Helper()
	ref, err := name.NewDigest(reference, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(ref, remote.WithAuth(&authn.Basic{Username: pullUser, Password: password}))
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.Labels["a"] != "1" {
		t.Errorf("labels %v", config.Config.Labels)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	below, err := base.Layers()
	if err != nil {
		t.Fatal(err)
	}
	if len(layers) != len(below)+1 {
		t.Fatalf("%d layers on %d", len(layers), len(below))
	}
	content, err := layers[len(below)].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	reader := tar.NewReader(content)
	if header, err := reader.Next(); err != nil || header.Name != "code" {
		t.Errorf("got %v, %v", header, err)
	}
}

func TestLayerReportsWhatItsWriterMet(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	want := errors.New("bad entry")
	if _, err := NewLayer(file, func(io.Writer) error { return want }); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
}

func TestErrorsAreTold(t *testing.T) {
	s := newServer(t, false)
	base := put(t, s, "runtime", "v1", randomImage(t))
	good := configFor(t, s)
	wrong := good
	wrong.PushConfigFile = credentialsFile(t, s.host(), pushUser, "wrong")
	none := good
	none.PushConfigFile = filepath.Join(t.TempDir(), "absent")
	onlyPull := good
	onlyPull.PushConfigFile = good.PullConfigFile
	away := good
	away.Host = "127.0.0.1:1"
	for name, test := range map[string]struct {
		config   config.Registry
		base     string
		reason   string
		terminal bool
	}{
		"wrong password": {wrong, base, v1alpha1.ReasonRegistryDenied, true},
		"may only pull":  {onlyPull, base, v1alpha1.ReasonRegistryDenied, true},
		"no credentials": {none, base, v1alpha1.ReasonRegistryUnavailable, false},
		"away":           {away, away.Host + base[strings.Index(base, "/"):], v1alpha1.ReasonRegistryUnavailable, false},
		"no base":        {good, s.host() + "/runtime@sha256:" + strings.Repeat("0", 64), v1alpha1.ReasonImagePullFailed, false},
		"base by tag":    {good, s.host() + "/runtime:v1", v1alpha1.ReasonBuildFailed, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := connect(t, test.config).Append(t.Context(), test.base, layerOf(t, "x"), "ns", "hello-1", nil)
			known, ok := errors.AsType[*fault.Error](err)
			if !ok || known.Reason != test.reason || known.Terminal != test.terminal {
				t.Errorf("got %v, want %s", err, test.reason)
			}
			if err != nil && strings.Contains(err.Error(), password) {
				t.Errorf("the password is in %q", err)
			}
		})
	}
}

func TestFindTakesARefusalForAbsence(t *testing.T) {
	s := newServer(t, false)
	cfg := configFor(t, s)
	cfg.PushConfigFile = credentialsFile(t, s.host(), pushUser, "wrong")
	if image, err := connect(t, cfg).Find(t.Context(), "never-used", "hello-1"); image != nil || err != nil {
		t.Errorf("got %v, %v", image, err)
	}
	cfg.Host = "127.0.0.1:1"
	if _, err := connect(t, cfg).Find(t.Context(), "ns", "hello-1"); reasonOf(err) != v1alpha1.ReasonRegistryUnavailable {
		t.Errorf("away: %v", err)
	}
}

func TestPrivateCA(t *testing.T) {
	s := newServer(t, true)
	cfg := configFor(t, s)
	cfg.Insecure = false
	ca := filepath.Join(t.TempDir(), "ca.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, cfg).Find(t.Context(), "ns", "x"); reasonOf(err) != v1alpha1.ReasonRegistryUnavailable || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the CA: %v", err)
	}
	cfg.CAFile = ca
	if _, err := connect(t, cfg).Find(t.Context(), "ns", "x"); err != nil {
		t.Errorf("with the CA: %v", err)
	}
}

func TestNewRefusesWhatMakesNoRepository(t *testing.T) {
	guard, err := dial.NewGuard(config.Network{})
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]config.Registry{
		"template": {Host: "registry.example.org", Repository: "Sless/{namespace}"},
		"host":     {Host: "https://registry.example.org", Repository: "sless-{namespace}"},
		"CA":       {Host: "registry.example.org", Repository: "sless-{namespace}", CAFile: "/absent"},
	} {
		if _, err := New(cfg, guard); err == nil {
			t.Errorf("%s: accepted %+v", name, cfg)
		}
	}
	r, err := New(config.Registry{Host: "registry.example.org", Repository: "org/sless-{namespace}"}, guard)
	if err != nil || r.Repository("a") != "registry.example.org/org/sless-a" {
		t.Errorf("got %v, %v", r, err)
	}
}

func TestCheck(t *testing.T) {
	s := newServer(t, false)
	cfg := configFor(t, s)
	if err := connect(t, cfg).Check(t.Context()); err != nil {
		t.Errorf("with a password: %v", err)
	}
	s.mu.Lock()
	s.open = true
	s.mu.Unlock()
	if err := connect(t, cfg).Check(t.Context()); !errors.Is(err, ErrAnonymousPush) {
		t.Errorf("open to all: %v", err)
	}
	insists := cfg
	insists.AllowAnonymousPush = true
	if err := connect(t, insists).Check(t.Context()); err != nil {
		t.Errorf("open to all and allowed: %v", err)
	}
	away := cfg
	away.Host = "127.0.0.1:1"
	if err := connect(t, away).Check(t.Context()); reasonOf(err) != v1alpha1.ReasonRegistryUnavailable {
		t.Errorf("away: %v", err)
	}
}

func TestCheckAccount(t *testing.T) {
	good := config.Registry{Host: "registry.example.org", Repository: "sless-{namespace}", PushConfigFile: credentialsFile(t, "registry.example.org", pushUser, password)}
	other, absent, insists := good, good, good
	other.Host = "other.example.org"
	absent.PushConfigFile = filepath.Join(t.TempDir(), "absent")
	insists.Host, insists.AllowAnonymousPush = "other.example.org", true
	for name, test := range map[string]struct {
		config config.Registry
		want   string
	}{
		"an account":      {good, ""},
		"for another":     {other, "has no account for registry.host other.example.org"},
		"no file":         {absent, "registry.pushConfigFile: read registry credentials"},
		"none is allowed": {insists, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := connect(t, test.config).CheckAccount()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestResolveInThePlatformsRegistry(t *testing.T) {
	s := newServer(t, false)
	labelled := func(uid string) v1.Image {
		image, err := mutate.Config(randomImage(t), v1.Config{Labels: map[string]string{NamespaceUIDLabel: uid}})
		if err != nil {
			t.Fatal(err)
		}
		return image
	}
	own := put(t, s, "sless-ns", "own", labelled("uid-1"))
	put(t, s, "sless-ns", "earlier", labelled("uid-0"))
	foreign := put(t, s, "sless-ns", "pushed-by-hand", randomImage(t))
	put(t, s, "sless-other", "v1", randomImage(t))
	put(t, s, "runtimes/python", "v1", randomImage(t))
	r := connect(t, configFor(t, s))
	for image, want := range map[string]string{
		own:                        own,
		s.host() + "/sless-ns:own": own,
		s.host() + "/sless-ns:own@" + own[strings.Index(own, "sha256:"):]: own,
		s.host() + "/sless-ns:pushed-by-hand":                             foreign,
		s.host() + "/sless-ns:earlier":                                    v1alpha1.ReasonImageNotAllowed,
		s.host() + "/sless-other:v1":                                      v1alpha1.ReasonImageNotAllowed,
		s.host() + "/runtimes/python:v1":                                  v1alpha1.ReasonImageNotAllowed,
		s.host() + "/sless-ns/sub:v1":                                     v1alpha1.ReasonImageNotAllowed,
		s.host() + "/sless-ns:absent":                                     v1alpha1.ReasonSourceNotFound,
		"not an image":                                                    v1alpha1.ReasonSourceInvalid,
	} {
		got, err := r.Resolve(t.Context(), image, "ns", "uid-1")
		if err != nil {
			got = reasonOf(err)
		}
		if got != want {
			t.Errorf("%s: got %q (%v), want %q", image, got, err, want)
		}
	}
}

func TestResolveElsewhere(t *testing.T) {
	platform, other := newServer(t, false), newServer(t, false)
	image := put(t, other, "public/x", "v1", randomImage(t))
	tag := other.host() + "/public/x:v1"
	cfg := configFor(t, platform)
	if _, err := connect(t, cfg).Resolve(t.Context(), tag, "ns", "uid"); reasonOf(err) != v1alpha1.ReasonImageNotAllowed {
		t.Errorf("at a forbidden address: %v", err)
	}
	if _, err := connect(t, cfg, "127.0.0.1").Resolve(t.Context(), tag, "ns", "uid"); reasonOf(err) != v1alpha1.ReasonSourceNotFound {
		t.Errorf("not public: %v", err)
	}
	other.mu.Lock()
	other.open, other.credentials = true, nil
	other.mu.Unlock()
	if got, err := connect(t, cfg, "127.0.0.1").Resolve(t.Context(), tag, "ns", "uid"); err != nil || got != image {
		t.Errorf("public: got %q, %v, want %q", got, err, image)
	}
	if got, err := connect(t, cfg, "127.0.0.1").Resolve(t.Context(), other.host()+"/public/x:absent", "ns", "uid"); reasonOf(err) != v1alpha1.ReasonSourceNotFound {
		t.Errorf("absent: got %q, %v", got, err)
	}
	if seen := slices.DeleteFunc(other.credentials, func(c string) bool { return c == "" }); len(seen) > 0 || len(other.credentials) == 0 {
		t.Errorf("credentials sent to a host that a tenant named: %q", seen)
	}
}

func TestCredentialsAreForOneHost(t *testing.T) {
	file := credentialsFile(t, "registry.example.org", pushUser, password)
	keys := keychain{host: "registry.example.org", file: file}
	for host, want := range map[string]bool{"registry.example.org": true, "registry.example.org:443": false, "evil.example.org": false, "example.org": false} {
		registry, err := name.NewRegistry(host)
		if err != nil {
			t.Fatal(err)
		}
		auth, err := keys.Resolve(registry)
		if err != nil {
			t.Fatal(err)
		}
		if got := auth != authn.Anonymous; got != want {
			t.Errorf("%s: credentials %v, want %v", host, got, want)
		}
	}
	if err := os.WriteFile(file, []byte(`{"auths": "`+password), 0o600); err != nil {
		t.Fatal(err)
	}
	registry, err := name.NewRegistry("registry.example.org")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Resolve(registry); err == nil || strings.Contains(err.Error(), password) {
		t.Errorf("got %v", err)
	}
}

func TestPrune(t *testing.T) {
	s := newServer(t, false)
	r := connect(t, configFor(t, s))
	for _, tag := range []string{"a-1", "a-2", "b-1"} {
		put(t, s, "sless-ns", tag, randomImage(t))
	}
	put(t, s, "sless-other", "a-1", randomImage(t))
	ofA := func(tag string) bool { return strings.HasPrefix(tag, "a-") }
	for range 2 { // the second time there is nothing to do
		if err := r.Prune(t.Context(), "ns", ofA); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"b-1"}, s.tags("/v2/sless-ns")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a-1"}, s.tags("/v2/sless-other")); diff != "" {
		t.Error("another's repository", diff)
	}
	if err := r.Prune(t.Context(), "never-used", ofA); err != nil {
		t.Errorf("no repository: %v", err)
	}
	if err := r.Delete(t.Context(), "ns", "b-1"); err != nil || len(s.tags("/v2/sless-ns")) > 0 {
		t.Errorf("%v, left %v", err, s.tags("/v2/sless-ns"))
	}
	put(t, s, "sless-ns", "a-3", randomImage(t))
	s.keeps = true
	if err := r.Prune(t.Context(), "ns", ofA); !errors.Is(err, ErrNoDelete) {
		t.Errorf("a registry that keeps everything: %v", err)
	}
}

func TestLayerIsWhatWasWritten(t *testing.T) {
	layer := layerOf(t, "x")
	plain, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(plain)
	if err != nil {
		t.Fatal(err)
	}
	digest, _, err := v1.SHA256(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compressed, err := layer.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	packed, size, err := v1.SHA256(compressed)
	if err != nil {
		t.Fatal(err)
	}
	if digest != layer.diffID || packed != layer.digest || size != layer.size {
		t.Errorf("says %+v, is %s, %s of %d bytes", layer, digest, packed, size)
	}
	if mutated, err := mutate.AppendLayers(empty.Image, layer); err != nil || mutated == nil {
		t.Errorf("can't be appended: %v", err)
	}
}
