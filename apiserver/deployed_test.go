package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
)

// deploy does what the operator does once it has built: it puts an image with the code into the tenant's repository and names it in the
// status.
func (t *tenant) deploy(test *testing.T, function, handler string) {
	test.Helper()
	var text bytes.Buffer
	files := tar.NewWriter(&text)
	if err := files.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "function/code/handler.py", Mode: 0o644, Size: int64(len(handler))}); err != nil {
		test.Fatal(err)
	}
	_, _ = io.WriteString(files, handler) // into memory
	if err := files.Close(); err != nil {
		test.Fatal(err)
	}
	layer := must[v1.Layer](test)(tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil }))
	image := must[v1.Image](test)(mutate.AppendLayers(empty.Image, layer))
	repository := must[name.Repository](test)(name.NewRepository(around.registryHost()+"/sless-"+t.namespace, name.Insecure))
	if err := remote.Write(repository.Tag("v1"), image); err != nil {
		test.Fatal(err)
	}
	digest, content := must[v1.Hash](test)(image.Digest()), must[v1.Hash](test)(layer.DiffID())
	t.setImage(test, function, repository.Digest(digest.String()).String(), content.String())
}

// setImage writes what the status says of the image, and waits until the apiserver has read it.
func (t *tenant) setImage(test *testing.T, function, image, digest string) {
	test.Helper()
	if err := eventually(func() error {
		fn := &v1alpha1.Function{}
		if err := cluster.client.Get(test.Context(), t.key(function), fn); err != nil {
			return err
		}
		fn.Status.Image, fn.Status.SourceDigest = image, digest
		return cluster.client.Status().Update(test.Context(), fn)
	}); err != nil {
		test.Fatal(err)
	}
	if err := eventually(func() error {
		got, err := t.Functions(t.namespace).Get(test.Context(), function)
		if err == nil && got.Object.Status.Image != image {
			err = io.ErrNoProgress
		}
		return err
	}); err != nil {
		test.Fatal(err)
	}
}

// handlerIn is the text of handler.py in a zip archive.
func handlerIn(t *testing.T, archive []byte) string {
	t.Helper()
	reader := must[*zip.Reader](t)(zip.NewReader(bytes.NewReader(archive), int64(len(archive))))
	file, err := reader.Open("handler.py")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	return string(must[[]byte](t)(io.ReadAll(file)))
}

func TestGetCodeIsWhatIsDeployed(t *testing.T) {
	tenant := newTenant(t)
	functions := tenant.Functions(tenant.namespace)
	must[rest.Stored[rest.Function]](t)(functions.Create(t.Context(), hello("hello")))
	path := "/v1/namespaces/" + tenant.namespace + "/functions/hello/code"
	response, body := send(t, tenant.token, "GET", path, nil)
	wantProblem(t, response, body, 409, rest.CodeNoCode)

	tenant.deploy(t, "hello", "v1")
	first, body := send(t, tenant.token, "GET", path, nil)
	if got := handlerIn(t, []byte(body)); got != "v1" || first.Header.Get("Content-Type") != "application/zip" || first.Header.Get("ETag") == "" {
		t.Errorf("got %q %v", got, first.Header)
	}
	// Another version is written and not deployed, because it does not build.
	must[rest.Stored[rest.Function]](t)(tenant.PutCode(t.Context(), tenant.namespace, "hello", bytes.NewReader(archiveOf(t, map[string]string{"handler.py": "v2"})), ""))
	second, again := send(t, tenant.token, "GET", path, nil)
	if again != body || second.Header.Get("ETag") != first.Header.Get("ETag") {
		t.Errorf("got %q with ETag %s, deployed is what has ETag %s", handlerIn(t, []byte(again)), second.Header.Get("ETag"), first.Header.Get("ETag"))
	}
	same, nothing := send(t, tenant.token, "GET", path, nil, "If-None-Match", `"x", `+first.Header.Get("ETag"))
	if same.StatusCode != 304 || nothing != "" || same.Header.Get("ETag") != first.Header.Get("ETag") {
		t.Errorf("what the caller has: %d %v", same.StatusCode, same.Header)
	}
	tenant.deploy(t, "hello", "v3")
	third, body := send(t, tenant.token, "GET", path, nil, "If-None-Match", first.Header.Get("ETag"))
	if got := handlerIn(t, []byte(body)); got != "v3" || third.Header.Get("ETag") == first.Header.Get("ETag") {
		t.Errorf("after another build: %q", got)
	}
	tenant.setImage(t, "hello", "elsewhere.example.org/image@sha256:"+strings.Repeat("0", 64), "sha256:"+strings.Repeat("0", 64))
	response, body = send(t, tenant.token, "GET", path, nil)
	wantProblem(t, response, body, 409, rest.CodeNoCode)
}

func TestGetCodeWithoutItsRegistry(t *testing.T) {
	tenant := newTenant(t)
	must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), hello("hello")))
	digest := "sha256:" + strings.Repeat("0", 64)
	for about, test := range map[string]struct {
		host   string
		status int
		code   string
	}{
		"not configured": {"", http.StatusNotImplemented, rest.CodeNoRegistry},
		"away":           {"127.0.0.1:1", http.StatusServiceUnavailable, rest.CodeRegistryAway},
	} {
		settings, err := around.settings(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		settings.Registry.Host = test.host
		own, _ := startWith(t, settings, slog.New(slog.DiscardHandler))
		tenant.setImage(t, "hello", "127.0.0.1:1/sless-"+tenant.namespace+"@"+digest, digest)
		_, err = clientOf(t, own, rest.Config{Token: tenant.token}).GetCode(t.Context(), tenant.namespace, "hello")
		t.Log(about)
		wantCode(t, err, test.status, test.code)
	}
}

// TestADownloadThatBreaksOffIsNotTakenForTheWhole cuts the layer that the code is read from.
func TestADownloadThatBreaksOffIsNotTakenForTheWhole(t *testing.T) {
	tenant := newTenant(t)
	must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), hello("hello")))
	var noise strings.Builder // what does not compress is under way before the end is missed
	for noise.Len() < 1<<20 {
		noise.WriteString(rand.Text())
	}
	tenant.deploy(t, "hello", noise.String())
	around.cut.Store(true)
	defer around.cut.Store(false)
	code := must[io.ReadCloser](t)(tenant.GetCode(t.Context(), tenant.namespace, "hello"))
	defer code.Close()
	if _, err := io.ReadAll(code); err == nil {
		t.Error("it looks complete")
	}
}
