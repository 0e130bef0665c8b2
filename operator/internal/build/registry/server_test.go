package registry

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	fake "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/naeel/sless/operator/internal/build/dial"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/config"
)

// server is a registry that asks for a password.
type server struct {
	*httptest.Server
	images http.Handler

	mu          sync.Mutex
	credentials []string // Authorization headers seen
	open        bool     // takes everything from everybody
	keeps       bool     // deletes nothing
	broken      bool
}

const (
	pushUser = "push"
	pullUser = "pull"
	password = "a secret"
)

func newServer(t *testing.T, tls bool) *server {
	t.Helper()
	s := &server{images: fake.New(fake.Logger(log.New(io.Discard, "", 0)))}
	if tls {
		s.Server = httptest.NewTLSServer(s)
	} else {
		s.Server = httptest.NewServer(s)
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.Close)
	return s
}

func (s *server) host() string { return s.Listener.Addr().String() }

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credentials = append(s.credentials, r.Header.Get("Authorization"))
	user, given, _ := r.BasicAuth()
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case s.broken:
		http.Error(w, "broken", http.StatusNotImplemented)
	case s.open, given == password && (user == pushUser || user == pullUser && reads):
		s.serve(w, r)
	case given == password:
		w.WriteHeader(http.StatusForbidden)
	default:
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
	}
}

// serve lets a digest's tags go with it, as real registries do.
func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	folder, digest, isDigest := strings.Cut(r.URL.Path, "/manifests/sha256:")
	if r.Method != http.MethodDelete || !isDigest {
		s.images.ServeHTTP(w, r)
		return
	}
	if s.keeps {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	for _, tag := range s.tags(folder) {
		head := httptest.NewRecorder()
		s.images.ServeHTTP(head, httptest.NewRequest(http.MethodHead, folder+"/manifests/"+tag, nil))
		if head.Header().Get("Docker-Content-Digest") == "sha256:"+digest {
			s.images.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodDelete, folder+"/manifests/"+tag, nil))
		}
	}
	s.images.ServeHTTP(w, r)
}

func (s *server) tags(folder string) []string {
	answer := httptest.NewRecorder()
	s.images.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, folder+"/tags/list", nil))
	var list struct{ Tags []string }
	if json.Unmarshal(answer.Body.Bytes(), &list) != nil {
		return nil
	}
	slices.Sort(list.Tags)
	return list.Tags
}

// credentialsFile writes a Docker config.json.
func credentialsFile(t *testing.T, host, user, password string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	text, err := json.Marshal(map[string]any{"auths": map[string]any{host: authn.AuthConfig{Username: user, Password: password}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func configFor(t *testing.T, s *server) config.Registry {
	return config.Registry{
		Host: s.host(), Repository: "sless-{namespace}", Insecure: true,
		PushConfigFile: credentialsFile(t, s.host(), pushUser, password), PullConfigFile: credentialsFile(t, s.host(), pullUser, password),
	}
}

func connect(t *testing.T, cfg config.Registry, allowedHosts ...string) *Registry {
	t.Helper()
	guard, err := dial.NewGuard(config.Network{AllowedHosts: allowedHosts})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(cfg, guard)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// put pushes an image past the code under test, and returns it by digest.
func put(t *testing.T, s *server, repository, tag string, image v1.Image) string {
	t.Helper()
	ref, err := name.NewTag(s.host()+"/"+repository+":"+tag, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image, remote.WithAuth(&authn.Basic{Username: pushUser, Password: password}), remote.WithTransport(s.Client().Transport)); err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return ref.Context().Digest(digest.String()).String()
}

func randomImage(t *testing.T) v1.Image {
	t.Helper()
	image, err := random.Image(1024, 2)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func layerOf(t *testing.T, text string) *Layer {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	layer, err := NewLayer(file, func(w io.Writer) error {
		tw := tar.NewWriter(w)
		if err := tw.WriteHeader(&tar.Header{Name: "code", Size: int64(len(text)), Mode: 0o644}); err != nil {
			return err
		}
		if _, err := io.WriteString(tw, text); err != nil {
			return err
		}
		return tw.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { layer.Close() })
	return layer
}

func reasonOf(err error) string {
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return known.Reason
	}
	return ""
}
