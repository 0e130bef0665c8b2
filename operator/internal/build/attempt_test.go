package build

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	fake "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/archive"
	"github.com/naeel/sless/operator/internal/build/dial"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/build/install"
	"github.com/naeel/sless/operator/internal/build/registry"
	"github.com/naeel/sless/operator/internal/build/source"
	"github.com/naeel/sless/operator/internal/config"
)

// bench is a pipeline with a registry, an object store and a runtime image.
type bench struct {
	*pipeline
	host    string
	runtime string
	objects map[string][]byte // by path
	steps   []Step
}

func newBench(t *testing.T) *bench {
	t.Helper()
	images := httptest.NewServer(fake.New(fake.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(images.Close)
	b := &bench{host: images.Listener.Addr().String(), objects: map[string][]byte{}}
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		object, found := b.objects[r.URL.Path]
		if !found {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "<Error><Code>NoSuchKey</Code></Error>")
			return
		}
		w.Header().Set("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
		w.Write(object) //nolint:errcheck // the client notices
	}))
	t.Cleanup(store.Close)
	b.pipeline = newPipeline(t, testConfig(t, b.host, store.URL))
	b.runtime = pushRuntime(t, b.host)
	return b
}

func testConfig(t *testing.T, registryHost, storeURL string) config.Config {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"config.json": `{"auths":{}}`, "accessKeyID": "id", "secretAccessKey": "secret"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	credentials := filepath.Join(folder, "config.json")
	return config.Config{
		Registry:    config.Registry{Host: registryHost, Repository: "sless-{namespace}", Insecure: true, AllowAnonymousPush: true, PushConfigFile: credentials, PullConfigFile: credentials},
		ObjectStore: config.ObjectStore{Endpoint: storeURL, Region: "us-east-1", Bucket: "sless", CredentialsDir: folder},
		Build:       config.Build{MaxArchiveBytes: 1 << 20, MaxUnpackedBytes: 1 << 20, MaxFiles: 100, SpoolDir: t.TempDir()},
	}
}

func newPipeline(t *testing.T, cfg config.Config) *pipeline {
	t.Helper()
	guard, err := dial.NewGuard(config.Network{AllowedCIDRs: []string{"127.0.0.1/32"}})
	if err != nil {
		t.Fatal(err)
	}
	images, err := registry.New(cfg.Registry, guard)
	if err != nil {
		t.Fatal(err)
	}
	sources, err := source.New(cfg, guard)
	if err != nil {
		t.Fatal(err)
	}
	return &pipeline{config: cfg, limits: archive.Limits{Files: cfg.Build.MaxFiles, Bytes: cfg.Build.MaxUnpackedBytes}, sources: sources, registry: images}
}

func pushRuntime(t *testing.T, host string) string {
	t.Helper()
	image, err := random.Image(1024, 1)
	if err != nil {
		t.Fatal(err)
	}
	return push(t, host+"/runtimes/python:v1", image)
}

func push(t *testing.T, tag string, image v1.Image) string {
	t.Helper()
	ref, err := name.NewTag(tag, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	descriptor, err := remote.Head(ref)
	if err != nil {
		t.Fatal(err)
	}
	return ref.Context().Digest(descriptor.Digest.String()).String()
}

func (b *bench) inline(namespace, function string, files map[string]string) Request {
	return Request{
		Owner: Owner{namespace, function}, NamespaceUID: "uid-of-" + namespace, Runtime: Runtime{Image: b.runtime, Language: "python"},
		Entrypoint: "handler.handle", Source: Source{Inline: files}, TimeoutSeconds: 60,
	}
}

func (b *bench) try(t *testing.T, request Request) (outcome, error) {
	t.Helper()
	b.steps = nil
	return b.attempt(context.Background(), request, func(step Step) { b.steps = append(b.steps, step) })
}

func (b *bench) must(t *testing.T, request Request) *Result {
	t.Helper()
	out, err := b.try(t, request)
	if err != nil {
		t.Fatal(err)
	}
	if out.result == nil {
		t.Fatalf("no image, but %+v", out.install)
	}
	return out.result
}

// files lists the names in the last layer of an image.
func files(t *testing.T, image string) []string {
	t.Helper()
	ref, err := name.ParseReference(image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := pulled.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[len(layers)-1].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var found []string
	reader := tar.NewReader(content)
	for {
		header, err := reader.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			found = append(found, header.Name)
		}
	}
}

func TestCodeAloneIsOneLayer(t *testing.T) {
	b := newBench(t)
	request := b.inline("ns", "hello", map[string]string{"handler.py": "x", "lib/util.py": "y"})
	first := b.must(t, request)
	if !slices.Equal(b.steps, []Step{Fetching, Pushing}) {
		t.Errorf("steps %v", b.steps)
	}
	if diff := cmp.Diff([]string{"function/code/handler.py", "function/code/lib/util.py"}, files(t, first.Image)); diff != "" {
		t.Error(diff)
	}
	again := b.must(t, request)
	if again.Image != first.Image || again.SourceDigest != first.SourceDigest || again.Size != first.Size {
		t.Errorf("got %+v, then %+v", first, again)
	}
	if !slices.Equal(b.steps, []Step{Fetching}) {
		t.Errorf("pushed what was there: %v", b.steps)
	}
}

func TestV1V2V3V2(t *testing.T) {
	b := newBench(t)
	var images []string
	for _, code := range []string{"1", "2", "3", "2"} {
		images = append(images, b.must(t, b.inline("ns", "hello", map[string]string{"handler.py": code})).Image)
	}
	if images[1] != images[3] || images[0] == images[1] || images[1] == images[2] || images[0] == images[2] {
		t.Errorf("got %q", images)
	}
}

func TestZipAndInlineAreOneSource(t *testing.T) {
	b := newBench(t)
	request := b.inline("ns", "hello", map[string]string{"handler.py": "x"})
	inline := b.must(t, request)
	var buffer bytes.Buffer
	writer := zip.NewWriter(&buffer)
	w, err := writer.Create("project/handler.py")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "x"); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	b.objects["/sless/tenants/uid-of-ns/hello.zip"] = buffer.Bytes()
	request.Source = Source{S3: &S3Source{Key: "hello.zip"}}
	if zipped := b.must(t, request); zipped.SourceDigest != inline.SourceDigest || zipped.Image != inline.Image {
		t.Errorf("got %+v, want %+v", zipped, inline)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(buffer.Bytes()) })) //nolint:errcheck // the client notices
	defer server.Close()
	sum := sha256.Sum256(buffer.Bytes())
	request.Source = Source{HTTP: &HTTPSource{URL: server.URL, SHA256: hex.EncodeToString(sum[:])}}
	if fetched := b.must(t, request); fetched.SourceDigest != inline.SourceDigest || fetched.Image != inline.Image {
		t.Errorf("got %+v, want %+v", fetched, inline)
	}
}

func TestImagesOfTwoFunctionsAreTwo(t *testing.T) {
	b := newBench(t)
	code := map[string]string{"handler.py": "x"}
	a, c := b.must(t, b.inline("ns", "a", code)), b.must(t, b.inline("ns", "c", code))
	if a.Image == c.Image {
		t.Error("one digest: deleting the one would delete the other")
	}
	if a.SourceDigest != c.SourceDigest {
		t.Error("two source digests of one source")
	}
}

func TestNamespaceMadeAgainInheritsNothing(t *testing.T) {
	b := newBench(t)
	request := b.inline("ns", "hello", map[string]string{"handler.py": "x", "requirements.txt": "x"})
	before, err := b.try(t, request)
	if err != nil {
		t.Fatal(err)
	}
	request.NamespaceUID = "another"
	after, err := b.try(t, request)
	if err != nil {
		t.Fatal(err)
	}
	if before.install.Key == after.install.Key {
		t.Error("one dependency image for both")
	}
}

func TestDependenciesAreInstalledFirst(t *testing.T) {
	b := newBench(t)
	code := func(text string) Request {
		return b.inline("ns", "hello", map[string]string{"handler.py": text, "requirements.txt": "requests==2.32.3"})
	}
	out, err := b.try(t, code("1"))
	if err != nil {
		t.Fatal(err)
	}
	spec := out.install
	if spec == nil {
		t.Fatal("nothing to install")
	}
	if diff := cmp.Diff([]string{"manifests/requirements.txt"}, files(t, spec.Installer)); diff != "" {
		t.Error("the installer has more than manifests", diff)
	}
	want := install.Spec{
		Key: spec.Key, Namespace: "ns", Base: b.runtime, Installer: spec.Installer, Destination: b.host + "/sless-ns:deps-" + spec.Key, TimeoutSeconds: 60,
		Labels: map[string]string{registry.NamespaceUIDLabel: "uid-of-ns", tagLabel: "deps-" + spec.Key},
	}
	if diff := cmp.Diff(want, *spec); diff != "" {
		t.Error(diff)
	}
	deps, err := random.Image(2048, 2)
	if err != nil {
		t.Fatal(err)
	}
	push(t, spec.Destination, deps)
	for _, text := range []string{"1", "2"} { // another code has the same dependencies
		result := b.must(t, code(text))
		if diff := cmp.Diff([]string{"function/code/handler.py", "function/code/requirements.txt"}, files(t, result.Image)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestLocalDependenciesNeedAllCode(t *testing.T) {
	b := newBench(t)
	request := func(text string) Request {
		return b.inline("ns", "hello", map[string]string{"handler.py": "x", "requirements.txt": "./local", "local/setup.py": text})
	}
	one, err := b.try(t, request("1"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := b.try(t, request("2"))
	if err != nil {
		t.Fatal(err)
	}
	if one.install.Key == two.install.Key {
		t.Error("the key does not cover the local package")
	}
	want := []string{"manifests/handler.py", "manifests/local/setup.py", "manifests/requirements.txt"}
	if diff := cmp.Diff(want, files(t, one.install.Installer)); diff != "" {
		t.Error(diff)
	}
}

func TestBadSources(t *testing.T) {
	b := newBench(t)
	request := func(source Source) Request {
		r := b.inline("ns", "hello", nil)
		r.Source = source
		return r
	}
	b.objects["/sless/tenants/uid-of-ns/text.zip"] = []byte("hello")
	elsewhere := request(Source{Inline: map[string]string{"src/main.py": "", "a": "", "b": "", "c": "", "d": "", "e": ""}})
	elsewhere.Entrypoint = "pkg.sub.main"
	for name, test := range map[string]struct {
		request Request
		reason  string
		says    []string
	}{
		"no entrypoint":   {elsewhere, v1alpha1.ReasonSourceInvalid, []string{"pkg.sub.main", "pkg/sub.py", "pkg/sub/__init__.py", `"a"`, "…", "spec.entrypoint"}},
		"no object":       {request(Source{S3: &S3Source{Key: "absent.zip"}}), v1alpha1.ReasonSourceNotFound, []string{"tenants/uid-of-ns/absent.zip"}},
		"no zip":          {request(Source{S3: &S3Source{Key: "text.zip"}}), v1alpha1.ReasonSourceInvalid, []string{"zip"}},
		"empty Secret":    {request(Source{S3: &S3Source{Key: "x.zip", Bucket: "own", Credentials: &S3Credentials{}}}), v1alpha1.ReasonSourceNotFound, []string{"accessKeyID"}},
		"another's image": {request(Source{Image: b.host + "/sless-other:v1"}), v1alpha1.ReasonImageNotAllowed, []string{"sless-ns"}},
		"no image":        {request(Source{Image: b.host + "/sless-ns:v1"}), v1alpha1.ReasonSourceNotFound, []string{"sless-ns:v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.try(t, test.request)
			known, ok := errors.AsType[*fault.Error](err)
			if !ok || known.Reason != test.reason || !known.Terminal {
				t.Fatalf("got %v, want %s", err, test.reason)
			}
			for _, part := range test.says {
				if !strings.Contains(known.Message, part) {
					t.Errorf("message %q lacks %q", known.Message, part)
				}
			}
		})
	}
}

func TestImageIsPinned(t *testing.T) {
	b := newBench(t)
	image, err := random.Image(1024, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := push(t, b.host+"/sless-ns:v1", image)
	request := b.inline("ns", "hello", nil)
	request.Source = Source{Image: b.host + "/sless-ns:v1"}
	if result := b.must(t, request); result.Image != want || !strings.HasSuffix(want, "@"+result.SourceDigest) {
		t.Errorf("got %+v, want %s", result, want)
	}
}

func TestUnfitRegistryGetsNothing(t *testing.T) {
	b := newBench(t)
	b.config.Registry.AllowAnonymousPush = false
	b.pipeline = newPipeline(t, b.config)
	if _, err := b.try(t, b.inline("ns", "hello", map[string]string{"handler.py": ""})); !errors.Is(err, registry.ErrAnonymousPush) {
		t.Errorf("got %v", err)
	}
	repository, err := name.NewRepository(b.host+"/sless-ns", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if tags, err := remote.List(repository); err == nil {
		t.Errorf("pushed %v", tags)
	}
}
