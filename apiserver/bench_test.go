package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3afero"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/spf13/afero"

	"github.com/naeel/sless/api/rest"
)

// BenchmarkGet sends reads of one function at 500 a second, whether or not earlier ones have been answered, and reports how long they took.
func BenchmarkGet(b *testing.B) {
	const rate = 500
	tenant := newTenant(b)
	must[rest.Stored[rest.Function]](b)(tenant.Functions(tenant.namespace).Create(b.Context(), hello("hello")))
	took := make([]time.Duration, b.N)
	var requests sync.WaitGroup
	began := time.Now()
	for i := range took {
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / rate)))
		requests.Go(func() {
			start := time.Now()
			if _, err := tenant.Functions(tenant.namespace).Get(b.Context(), "hello"); err != nil {
				b.Error(err)
			}
			took[i] = time.Since(start)
		})
	}
	requests.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
}

// uploadSize is how large the archive of BenchmarkUpload is.
const uploadSize = 200 << 20

// BenchmarkUpload uploads a large archive, and copies the same bytes to the same object store with its own client. It reports the
// times' ratio, and by how much the apiserver's memory has grown meanwhile.
func BenchmarkUpload(b *testing.B) {
	endpoint := separateStore(b)
	settings, err := around.settings(b.TempDir(), "")
	if err != nil {
		b.Fatal(err)
	}
	settings.ObjectStore.Endpoint, settings.Build.MaxArchiveBytes = endpoint, 1<<30
	own, _ := startWith(b, settings, slog.New(slog.DiscardHandler))
	tenant := newTenant(b)
	client := clientOf(b, own, rest.Config{Token: tenant.token})
	target, err := url.Parse(endpoint)
	if err != nil {
		b.Fatal(err)
	}
	plain, err := minio.New(target.Host, &minio.Options{Creds: credentials.NewStaticV4("sless", "sless-secret", "")})
	if err != nil {
		b.Fatal(err)
	}
	var uploading, copying time.Duration
	var grown int64
	for i := range b.N {
		archive := noise(b, i)
		start := time.Now()
		if _, err := plain.PutObject(b.Context(), "sless", fmt.Sprintf("copy-%d", i), archive, uploadSize, minio.PutObjectOptions{}); err != nil {
			b.Fatal(err)
		}
		copying += time.Since(start)
		debug.FreeOSMemory()
		before := peak(b, true)
		start = time.Now()
		if _, err := client.Upload(b.Context(), tenant.namespace, archive); err != nil {
			b.Fatal(err)
		}
		uploading += time.Since(start)
		grown = max(grown, peak(b, false)-before)
	}
	b.ReportMetric(float64(uploading)/float64(copying), "times-copying")
	b.ReportMetric(float64(grown)/(1<<20), "MiB-grown")
	if grown > 32<<20 {
		b.Errorf("memory has grown by %d MiB", grown>>20)
	}
}

// noise makes a file with a stored zip archive of random bytes around it.
func noise(b *testing.B, i int) *os.File {
	b.Helper()
	file, err := os.Create(filepath.Join(b.TempDir(), fmt.Sprint(i)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	end := []byte("PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	if _, err := io.CopyN(file, rand.Reader, uploadSize-int64(len(end))); err != nil {
		b.Fatal(err)
	}
	if _, err := file.Write(end); err != nil {
		b.Fatal(err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		b.Fatal(err)
	}
	return file
}

// peak is the most memory that this process has had since it was last reset.
func peak(b *testing.B, reset bool) int64 {
	b.Helper()
	if reset {
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
			b.Skip("the kernel tells no peak of memory: ", err)
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); n == 1 {
			return kilobytes << 10
		}
	}
	b.Fatal("no VmHWM")
	return 0
}

// storeVariable makes this test program an object store, in a folder.
const storeVariable = "SLESS_TEST_OBJECT_STORE"

// separateStore starts an object store in a process of its own, whose memory does not count.
func separateStore(b *testing.B) string {
	b.Helper()
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program)
	command.Env = append(os.Environ(), storeVariable+"="+b.TempDir())
	out, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cancel()
		_ = command.Wait() // it was killed
	})
	var endpoint string
	if _, err := fmt.Fscanln(out, &endpoint); err != nil {
		b.Fatal(err)
	}
	return endpoint
}

// serveStore is what the process of separateStore does.
func serveStore(dir string) error {
	backend, err := s3afero.MultiBucket(afero.NewBasePathFs(afero.NewOsFs(), dir))
	if err != nil {
		return err
	}
	if err := backend.CreateBucket("sless"); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	return http.Serve(listener, gofakes3.New(backend).Server())
}
