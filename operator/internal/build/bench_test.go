package build

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	fake "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/naeel/sless/operator/internal/build/archive"
	"github.com/naeel/sless/operator/internal/build/dial"
	"github.com/naeel/sless/operator/internal/build/fetch"
	"github.com/naeel/sless/operator/internal/build/install"
	"github.com/naeel/sless/operator/internal/build/registry"
	"github.com/naeel/sless/operator/internal/build/source"
	"github.com/naeel/sless/operator/internal/config"
)

// withBoth runs a test with either builder: what it says is true of both.
func withBoth(t *testing.T, test func(*testing.T, *bench)) {
	for _, kind := range []Kind{Append, Kaniko} {
		t.Run(string(kind), func(t *testing.T) { test(t, newBench(t, kind)) })
	}
}

// bench is a pipeline with a registry, an object store and a runtime image.
type bench struct {
	*pipeline
	host    string
	runtime string
	mu      sync.Mutex        // guards objects while the store is asked
	objects map[string][]byte // by path
	steps   []Step
}

func newBench(t *testing.T, kind Kind) *bench {
	t.Helper()
	images := httptest.NewServer(fake.New(fake.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(images.Close)
	b := &bench{host: images.Listener.Addr().String(), objects: map[string][]byte{}}
	store := httptest.NewServer(http.HandlerFunc(b.serveObject))
	t.Cleanup(store.Close)
	b.pipeline = newPipeline(t, kind, testConfig(t, b.host, store.URL))
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

func newPipeline(t *testing.T, kind Kind, cfg config.Config) *pipeline {
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
	return &pipeline{config: cfg, limits: archive.Limits{Files: cfg.Build.MaxFiles, Bytes: cfg.Build.MaxUnpackedBytes}, sources: sources, registry: images, maker: newMaker(kind, cfg, images, sources.S3)}
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

// must has the image made, by a Job if need be; dependencies must be there.
func (b *bench) must(t *testing.T, request Request) *Result {
	t.Helper()
	out, err := b.try(t, request)
	if steps := b.steps; err == nil && out.job != nil && out.job.Installer == "" {
		b.play(t, out.job)
		out, err = b.try(t, request)
		b.steps = steps
	}
	if err != nil {
		t.Fatal(err)
	}
	if out.result == nil {
		t.Fatalf("no image, but %+v", out.job)
	}
	return out.result
}

// play does what a Job of kaniko's does: it fetches the parcel and copies it onto the base.
func (b *bench) play(t *testing.T, job *install.Spec) {
	t.Helper()
	folder := b.unpack(t, job)
	file, err := source.Spool(b.config.Build.SpoolDir)
	if err != nil {
		t.Fatal(err)
	}
	layer, err := registry.NewLayer(file, func(w io.Writer) error {
		writer := tar.NewWriter(w)
		return errors.Join(writer.AddFS(os.DirFS(folder)), writer.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()
	_, tag, _ := strings.Cut(strings.TrimPrefix(job.Destination, b.host), ":")
	if _, err := b.registry.Append(t.Context(), job.Base, layer, job.Namespace, tag, job.Labels); err != nil {
		t.Fatal(err)
	}
	if err := b.release(t.Context(), *job); err != nil {
		t.Fatal(err)
	}
}

// unpack fetches a Job's parcel as its step does.
func (b *bench) unpack(t *testing.T, job *install.Spec) string {
	t.Helper()
	address, err := b.sources.S3.SignParcel(t.Context(), job.Parcel.Object, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	file, folder := filepath.Join(t.TempDir(), "address"), t.TempDir()
	if err := os.WriteFile(file, []byte(address), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := fetch.Run([]string{file, job.Parcel.SHA256, folder}, t.Output()); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	return folder
}

// manifests lists what an install step gets to see.
func (b *bench) manifests(t *testing.T, job *install.Spec) []string {
	t.Helper()
	if job.Parcel == nil {
		return files(t, job.Installer)
	}
	var found []string
	err := fs.WalkDir(os.DirFS(b.unpack(t, job)), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found = append(found, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// serveObject answers as an object store does.
func (b *bench) serveObject(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	object, found := b.objects[r.URL.Path]
	switch {
	case r.Method == http.MethodPut:
		b.objects[r.URL.Path] = unchunk(r.Body)
		w.Header().Set("ETag", `"x"`)
	case r.Method == http.MethodDelete:
		delete(b.objects, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	case !found:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<Error><Code>NoSuchKey</Code></Error>")
	default:
		w.Header().Set("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
		w.Write(object) //nolint:errcheck // the client notices
	}
}

// unchunk takes a body out of the signed chunks that S3 clients send it in.
func unchunk(body io.Reader) (content []byte) {
	for reader := bufio.NewReader(body); ; {
		line, err := reader.ReadString('\n')
		length, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		size, bad := strconv.ParseInt(length, 16, 64)
		if err != nil || bad != nil || size == 0 {
			return content
		}
		chunk := make([]byte, size)
		io.ReadFull(reader, chunk) //nolint:errcheck // a short one shows in its digest
		content = append(content, chunk...)
		reader.ReadString('\n') //nolint:errcheck // the line's end
	}
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
