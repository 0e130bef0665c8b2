package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/api/rest"
)

// rounds is how often a benchmark measures; it reports medians.
const rounds = 7

func median[T int64 | float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// BenchmarkGet sends reads of one function to an apiserver in a process of its own, 500 a second whether or not earlier ones have been
// answered, and reports how long they took: of each round of 10 s the percentile, of the rounds the median.
func BenchmarkGet(b *testing.B) {
	const rate, requests = 500, 5000
	program := startProgram(b, around.store.URL)
	tenant := newTenant(b)
	functions := program.client(b, tenant.token).Functions(tenant.namespace)
	must[rest.Stored[rest.Function]](b)(functions.Create(b.Context(), hello("hello")))
	for range b.N {
		var half, most []time.Duration
		for range 3 {
			took := make([]time.Duration, requests)
			var sent sync.WaitGroup
			began := time.Now()
			for i := range took {
				time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / rate)))
				sent.Go(func() {
					start := time.Now()
					if _, err := functions.Get(b.Context(), "hello"); err != nil {
						b.Error(err)
					}
					took[i] = time.Since(start)
				})
			}
			sent.Wait()
			slices.Sort(took)
			half, most = append(half, took[requests/2]), append(most, took[requests*99/100])
		}
		b.ReportMetric(median(half).Seconds()*1000, "ms-p50")
		b.ReportMetric(median(most).Seconds()*1000, "ms-p99")
	}
	b.ReportMetric(0, "ns/op")
}

// uploadSize is how large the archive of BenchmarkUpload is.
const uploadSize = 200 << 20

// BenchmarkUpload uploads a large archive, and copies the same bytes to the same object store with its own client, in turn. Object store
// and apiserver are processes of their own. It reports the median times and their ratio, and the most by which the apiserver's memory has
// grown in any upload.
func BenchmarkUpload(b *testing.B) {
	endpoint := startStore(b)
	program := startProgram(b, endpoint)
	tenant := newTenant(b)
	client := program.client(b, tenant.token)
	target, err := url.Parse(endpoint)
	if err != nil {
		b.Fatal(err)
	}
	plain, err := minio.New(target.Host, &minio.Options{Creds: credentials.NewStaticV4("sless", "sless-secret", "")})
	if err != nil {
		b.Fatal(err)
	}
	if err := plain.MakeBucket(b.Context(), "sless", minio.MakeBucketOptions{}); err != nil {
		b.Fatal(err)
	}
	archive := noise(b)
	for n := range b.N {
		var copying, uploading, ratios []float64
		var grown int64
		for i := range rounds {
			renew(b, archive, n*rounds+i)
			start := time.Now()
			if _, err := plain.PutObject(b.Context(), "sless", "copy", archive, uploadSize, minio.PutObjectOptions{}); err != nil {
				b.Fatal(err)
			}
			copied := time.Since(start)
			before := program.peak(b, true)
			start = time.Now()
			uploaded, err := client.Upload(b.Context(), tenant.namespace, archive)
			if err != nil {
				b.Fatal(err)
			}
			took := time.Since(start)
			grown = max(grown, program.peak(b, false)-before)
			copying, uploading, ratios = append(copying, copied.Seconds()), append(uploading, took.Seconds()), append(ratios, took.Seconds()/copied.Seconds())
			removeAll(b, plain, uploaded)
		}
		b.ReportMetric(median(copying), "s-copy")
		b.ReportMetric(median(uploading), "s-upload")
		b.ReportMetric(median(ratios), "times-copying")
		b.ReportMetric(float64(grown)/(1<<20), "MiB-grown")
		if grown > 32<<20 {
			b.Errorf("memory has grown by %d MiB", grown>>20)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// noise makes a file with a stored zip archive of random bytes around it.
func noise(b *testing.B) *os.File {
	b.Helper()
	file, err := os.Create(filepath.Join(b.TempDir(), "archive"))
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
	return file
}

// renew makes other bytes of the archive, so that nothing is there already.
func renew(b *testing.B, archive *os.File, i int) {
	b.Helper()
	if _, err := archive.WriteAt(binary.BigEndian.AppendUint64(nil, uint64(i)), 0); err != nil {
		b.Fatal(err)
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		b.Fatal(err)
	}
}

// removeAll empties the bucket, in which the upload must be.
func removeAll(b *testing.B, plain *minio.Client, uploaded rest.SourceUpload) {
	b.Helper()
	found := false
	for object := range plain.ListObjects(b.Context(), "sless", minio.ListObjectsOptions{Recursive: true}) {
		if object.Err != nil {
			b.Fatal(object.Err)
		}
		found = found || strings.HasSuffix(object.Key, uploaded.Key) && object.Size == uploadSize
		if err := plain.RemoveObject(b.Context(), "sless", object.Key, minio.RemoveObjectOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	if !found {
		b.Fatalf("%s is not in the bucket", uploaded.Key)
	}
}

// program is an apiserver in a process of its own.
type program struct {
	endpoint string
	pid      int
}

// programVariable makes this test program the apiserver.
const programVariable = "SLESS_TEST_APISERVER"

// startProgram starts an apiserver that uses an object store.
func startProgram(b *testing.B, store string) *program {
	b.Helper()
	dir := b.TempDir()
	settings, err := around.settings(dir, "apiserver: {limits: {requestsPerSecond: 100000, burst: 100000}}")
	if err != nil {
		b.Fatal(err)
	}
	settings.ObjectStore.Endpoint, settings.Build.MaxArchiveBytes = store, 1<<30
	text, err := yaml.Marshal(settings)
	if err != nil {
		b.Fatal(err)
	}
	kube := clientcmdapi.NewConfig()
	kube.Clusters["c"] = &clientcmdapi.Cluster{Server: cluster.config.Host, CertificateAuthorityData: cluster.config.CAData}
	kube.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: cluster.config.CertData, ClientKeyData: cluster.config.KeyData, Impersonate: asAPIServer().Impersonate.UserName}
	kube.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	kube.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*kube, filepath.Join(dir, "kubeconfig")); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), text, 0o600); err != nil {
		b.Fatal(err)
	}
	public, admin := freeAddress(b), freeAddress(b)
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	command := exec.Command(self, "-config", filepath.Join(dir, "config.yaml"), "-listen", public, "-listen-admin", admin)
	command.Env = append(os.Environ(), programVariable+"=1", "KUBECONFIG="+filepath.Join(dir, "kubeconfig"))
	launch(b, command)
	waitFor(b, "http://"+admin+"/readyz")
	return &program{"http://" + public, command.Process.Pid}
}

func (p *program) client(b *testing.B, token string) *rest.Client {
	b.Helper()
	client, err := rest.NewClient(rest.Config{Endpoint: p.endpoint, Token: token, RetryFor: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	return client
}

// peak is the most memory that the process has had since it was last reset.
func (p *program) peak(b *testing.B, reset bool) int64 {
	b.Helper()
	if reset {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.pid), []byte("5"), 0); err != nil {
			b.Skip("the kernel tells no peak of memory: ", err)
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
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

// startStore starts the object store of the local cluster, with a folder of its own.
func startStore(b *testing.B) string {
	b.Helper()
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		dir = filepath.Join("..", ".dev", "bin")
	}
	path := filepath.Join(dir, "versitygw")
	if _, err := os.Stat(path); err != nil {
		b.Fatalf("no object store to measure with (make kubernetes builds it): %v", err)
	}
	address := freeAddress(b)
	command := exec.Command(path, "--port", address, "--access", "sless", "--secret", "sless-secret", "--quiet", "posix", b.TempDir())
	launch(b, command)
	waitFor(b, "http://"+address+"/")
	return "http://" + address
}

// launch starts a process that ends with the benchmark.
func launch(b *testing.B, command *exec.Cmd) {
	b.Helper()
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // it was killed
		if b.Failed() {
			b.Logf("%s: %s", command.Path, &out)
		}
	})
}

func freeAddress(b *testing.B) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// waitFor waits until a server answers at all, and a health check that all is well.
func waitFor(b *testing.B, address string) {
	b.Helper()
	if err := eventually(func() error {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode >= 500 {
			return fmt.Errorf("%s answers %d", address, response.StatusCode)
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
}
