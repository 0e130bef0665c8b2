package deployed

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/naeel/sless/apiserver/internal/config"
)

// server is a registry that asks for a password.
type server struct {
	*httptest.Server
	away  atomic.Bool
	calls atomic.Int64
	bend  atomic.Pointer[func([]byte) []byte] // changes what is answered for a layer
}

func newServer(t *testing.T) (*server, *Registry) {
	t.Helper()
	s := &server{}
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		if user, password, _ := r.BasicAuth(); user != "pull" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		if s.away.Load() {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		bend := s.bend.Load()
		if bend == nil || r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
			images.ServeHTTP(w, r)
			return
		}
		recorded := httptest.NewRecorder()
		images.ServeHTTP(recorded, r)
		body := recorded.Body.Bytes()
		if !bytes.HasPrefix(body, []byte("{")) {
			body = (*bend)(body)
		}
		w.Write(body)
	}))
	t.Cleanup(s.Close)
	credentials := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(credentials, fmt.Appendf(nil, `{"auths":{%q:{"username":"pull","password":"secret"}}}`, s.host()), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := New(config.Registry{Host: s.host(), Repository: "sless-{namespace}", Insecure: true, PullConfigFile: credentials})
	if err != nil {
		t.Fatal(err)
	}
	return s, r
}

func (s *server) host() string { return s.Listener.Addr().String() }

// push puts an image of a random layer and these into a repository, and returns its name by digest and the last layer's content digest.
func (s *server) push(t *testing.T, repository string, layers ...v1.Layer) (image, digest string) {
	t.Helper()
	base, err := random.Image(100, 1)
	if err != nil {
		t.Fatal(err)
	}
	made, err := mutate.AppendLayers(base, layers...)
	if err != nil {
		t.Fatal(err)
	}
	if len(layers) == 0 {
		made = empty.Image
	}
	ref, err := name.NewRepository(s.host()+"/"+repository, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref.Tag("v1"), made, remote.WithAuth(&authn.Basic{Username: "pull", Password: "secret"})); err != nil {
		t.Fatal(err)
	}
	sum, err := made.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if len(layers) > 0 {
		diffID, err := layers[len(layers)-1].DiffID()
		if err != nil {
			t.Fatal(err)
		}
		digest = diffID.String()
	}
	return ref.Digest(sum.String()).String(), digest
}

// layer makes one as the operator does.
func layer(t *testing.T, write func(*tar.Writer)) v1.Layer {
	t.Helper()
	var text bytes.Buffer
	files := tar.NewWriter(&text)
	write(files)
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	made, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func put(t *testing.T, files *tar.Writer, header tar.Header, text string) {
	t.Helper()
	header.Size = int64(len(text))
	if err := files.WriteHeader(&header); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(files, text); err != nil {
		t.Fatal(err)
	}
}

func codeLayer(t *testing.T) v1.Layer {
	return layer(t, func(files *tar.Writer) {
		for _, folder := range []string{"function/", "function/code/", "function/code/bin/"} {
			put(t, files, tar.Header{Typeflag: tar.TypeDir, Name: folder, Mode: 0o755}, "")
		}
		put(t, files, tar.Header{Typeflag: tar.TypeReg, Name: "function/code/bin/run", Mode: 0o755}, "#!/bin/sh")
		put(t, files, tar.Header{Typeflag: tar.TypeReg, Name: "function/code/handler.py", Mode: 0o644}, "def handle(event): return 1")
		put(t, files, tar.Header{Typeflag: tar.TypeSymlink, Name: "function/code/link.py", Linkname: "handler.py", Mode: 0o777}, "")
	})
}

func download(t *testing.T, r *Registry, image, digest string) []byte {
	t.Helper()
	code, err := r.Open(t.Context(), "shop", image, digest)
	if err != nil {
		t.Fatal(err)
	}
	defer code.Close()
	var out bytes.Buffer
	if err := code.WriteZip(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestTheCodeIsTheLastLayer(t *testing.T) {
	s, r := newServer(t)
	image, digest := s.push(t, "sless-shop", codeLayer(t))
	archive := download(t, r, image, digest)
	if !bytes.Equal(archive, download(t, r, image, digest)) {
		t.Error("the same code gives other bytes")
	}
	reader, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Mode fs.FileMode
		Text string
	}
	got := map[string]entry{}
	for _, file := range reader.File {
		content, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		got[file.Name] = entry{file.Mode(), string(text)}
	}
	want := map[string]entry{
		"bin/":       {fs.ModeDir | 0o755, ""},
		"bin/run":    {0o755, "#!/bin/sh"},
		"handler.py": {0o644, "def handle(event): return 1"},
		"link.py":    {fs.ModeSymlink | 0o777, "handler.py"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNoCodeOfThisNamespace(t *testing.T) {
	s, r := newServer(t)
	code := codeLayer(t)
	image, digest := s.push(t, "sless-shop", code)
	theirs, _ := s.push(t, "sless-other", code)
	bare, _ := s.push(t, "sless-shop")
	foreign, _ := newServer(t)
	for about, test := range map[string]struct{ image, digest string }{
		"another digest":        {image, "sha256:" + strings.Repeat("0", 64)},
		"another's repository":  {theirs, digest},
		"another registry":      {foreign.host() + "/sless-shop@sha256:" + strings.Repeat("0", 64), digest},
		"an image that is gone": {s.host() + "/sless-shop@sha256:" + strings.Repeat("0", 64), digest},
		"no layer":              {bare, digest},
		"a tag":                 {s.host() + "/sless-shop:v1", digest},
		"no name":               {"?", digest},
	} {
		if _, err := r.Open(t.Context(), "shop", test.image, test.digest); !errors.Is(err, ErrNoCode) {
			t.Errorf("%s: %v", about, err)
		}
	}
	if foreign.calls.Load() > 0 {
		t.Error("a registry was asked that is not the platform's")
	}
}

func TestARegistryThatCanNotBeAsked(t *testing.T) {
	s, r := newServer(t)
	image, digest := s.push(t, "sless-shop", codeLayer(t))
	if _, err := (&Registry{}).Open(t.Context(), "shop", image, digest); !errors.Is(err, ErrNotConfigured) {
		t.Errorf("without configuration: %v", err)
	}
	refused := *r
	refused.config.PullConfigFile = ""
	if _, err := refused.Open(t.Context(), "shop", image, digest); err == nil || errors.Is(err, ErrNoCode) {
		t.Errorf("without credentials: %v", err)
	}
	broken := *r
	broken.config.PullConfigFile = filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(broken.config.PullConfigFile, []byte(`{"auths": "hunter2`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := broken.Open(t.Context(), "shop", image, digest); err == nil || errors.Is(err, ErrNoCode) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("with broken credentials: %v", err)
	}
	s.away.Store(true)
	if _, err := r.Open(t.Context(), "shop", image, digest); err == nil || errors.Is(err, ErrNoCode) {
		t.Errorf("away: %v", err)
	}
}

func TestALayerThatIsNotWhatItsDigestSays(t *testing.T) {
	s, r := newServer(t)
	image, digest := s.push(t, "sless-shop", codeLayer(t))
	for about, bend := range map[string]func([]byte) []byte{
		"cut":     func(body []byte) []byte { return body[:len(body)/2] },
		"changed": func(body []byte) []byte { body[len(body)-6] ^= 1; return body },
		"another": func([]byte) []byte { return []byte("nothing") },
	} {
		s.bend.Store(&bend)
		code, err := r.Open(t.Context(), "shop", image, digest)
		if err == nil {
			err = code.WriteZip(io.Discard)
			code.Close()
		}
		if err == nil || errors.Is(err, ErrNoCode) {
			t.Errorf("%s: %v", about, err)
		}
	}
}

func TestLargeCodeTakesLittleMemory(t *testing.T) {
	s, r := newServer(t)
	const size = 64 << 20
	big := layer(t, func(files *tar.Writer) {
		put(t, files, tar.Header{Typeflag: tar.TypeReg, Name: "function/code/big", Mode: 0o644}, strings.Repeat("\x00", size))
	})
	image, digest := s.push(t, "sless-shop", big)
	code, err := r.Open(t.Context(), "shop", image, digest)
	if err != nil {
		t.Fatal(err)
	}
	defer code.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := code.WriteZip(io.Discard); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > size/8 {
		t.Errorf("%d bytes were allocated for %d", grown, size)
	}
}
