package build

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	fake "github.com/google/go-containerregistry/pkg/registry"
)

// A build's memory is that of its buffers, whatever the size of the archive: 200 MB of it, from the address to the registry.
func TestMemoryDoesNotGrowWithAnArchive(t *testing.T) {
	file, digest := bigZip(t, 2, 100<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) }))
	defer server.Close()
	images := httptest.NewServer(swallow(fake.New(fake.Logger(log.New(io.Discard, "", 0)))))
	defer images.Close()
	cfg := testConfig(t, images.Listener.Addr().String(), server.URL)
	cfg.Build.MaxArchiveBytes, cfg.Build.MaxUnpackedBytes = 256<<20, 1<<30
	b := &bench{host: cfg.Registry.Host, pipeline: newPipeline(t, Append, cfg)}
	b.runtime = pushRuntime(t, b.host)
	request := b.inline("ns", "hello", nil)
	request.Source = Source{HTTP: &HTTPSource{URL: server.URL, SHA256: digest}}

	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var stats runtime.MemStats
		for highest := uint64(0); ; time.Sleep(2 * time.Millisecond) {
			runtime.ReadMemStats(&stats)
			highest = max(highest, stats.HeapInuse)
			select {
			case <-stop:
				peak <- highest
				return
			default:
			}
		}
	}()
	result := b.must(t, request)
	close(stop)
	highest := <-peak
	t.Logf("%d MiB of heap in use at most, image of %d MiB", highest>>20, result.Size>>20)
	if result.Size < 200<<20 || highest > 48<<20 {
		t.Errorf("%d MiB of heap in use for an image of %d MiB", highest>>20, result.Size>>20)
	}
}

// bigZip makes an archive of a handler and files of bytes that do not compress.
func bigZip(t *testing.T, files int, size int64) (path, digest string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "code.zip")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sum := sha256.New()
	writer := zip.NewWriter(io.MultiWriter(file, sum))
	noise := rand.New(rand.NewSource(1))
	for i := range files + 1 {
		name, contents := "handler.py", io.Reader(strings.NewReader("x"))
		if i > 0 {
			name, contents = string(rune('a'+i)), io.LimitReader(noise, size)
		}
		entry, err := writer.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = io.Copy(entry, contents)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return path, hex.EncodeToString(sum.Sum(nil))
}

// swallow is a registry that takes the tenant's layers and keeps none: the fake one would keep them in the memory that is measured.
func swallow(images http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/v2/sless-ns/blobs/") {
			images.ServeHTTP(w, r)
			return
		}
		io.Copy(io.Discard, r.Body) //nolint:errcheck // the client notices
		w.Header().Set("Location", "/v2/sless-ns/blobs/uploads/x")
		switch {
		case r.Method == http.MethodHead:
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodPut || r.URL.Query().Get("mount") != "":
			w.WriteHeader(http.StatusCreated)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
}
