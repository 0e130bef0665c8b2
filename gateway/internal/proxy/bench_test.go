package proxy

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/naeel/sless/gateway/internal/access"
	"github.com/naeel/sless/gateway/internal/auth"
	"github.com/naeel/sless/gateway/internal/backend"
	"github.com/naeel/sless/gateway/internal/metrics"
	"github.com/naeel/sless/gateway/internal/route"
	"github.com/naeel/sless/gateway/internal/transport"
)

// BenchmarkProxy compares the gateway, with its metrics, log, limits and balancing on, with a bare ReverseProxy that has the same Transport and
// pooled buffers: 1 KiB there and back over 64 connections. What counts is cpu-µs/op, which is the whole process: caller and pods as well, the
// same for all. The difference is the gateway's.
func BenchmarkProxy(b *testing.B) {
	body := strings.Repeat("x", 1<<10)
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, body)
	}))
	defer pod.Close()
	b.Run("direct", func(b *testing.B) { load(b, pod.URL+"/x", body) })
	b.Run("bare", func(b *testing.B) {
		target, err := url.Parse(pod.URL)
		if err != nil {
			b.Fatal(err)
		}
		server := httptest.NewServer(&httputil.ReverseProxy{
			Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(target); r.SetXForwarded() },
			Transport:  NewTransport(),
			BufferPool: newBufferPool(),
			ErrorLog:   log.New(io.Discard, "", 0),
		})
		defer server.Close()
		load(b, server.URL+"/fn/ns/function-0/x", body)
	})
	for _, routes := range []int{1, 1000, 10_000} {
		for _, limit := range []int{0, 100} {
			b.Run(fmt.Sprintf("gateway/routes=%d/limit=%d", routes, limit), func(b *testing.B) {
				server := benchGateway(b, pod, routes, limit)
				load(b, server.URL+"/fn/ns/function-0/x", body)
			})
		}
	}
}

func benchGateway(b *testing.B, pod *httptest.Server, routes, limit int) *httptest.Server {
	table, transport := route.NewTable(""), transport.New(NewTransport())
	counters := metrics.New(table.Len, func() int { return 0 })
	asker := backend.NewHTTPAsker(transport, 10)
	for i := range routes {
		name := fmt.Sprint("function-", i)
		r := &route.Route{Namespace: "ns", Name: name, Pool: backend.NewPool(asker, 100, backend.NewRoom(1000)), Meter: counters.Meter("ns", name)}
		r.SetSpec(&route.Spec{Access: route.Open, Timeout: soon, Concurrency: limit})
		if i == 0 {
			address := pod.Listener.Addr().String()
			r.Pool.SetTargets([]backend.Target{{Address: address, UID: "1", Ready: true, Serving: true}, {Address: address, UID: "2", Ready: true, Serving: true}}, "")
		}
		table.Put(r)
	}
	gateway := New(Options{
		Table: table, Metrics: counters, Transport: transport, Auth: auth.New(reviewer{}, nil), Access: access.New(io.Discard), LogRequests: LogAll,
		MaxBodyBytes: 32 << 20, BodyTimeout: soon, WaitTimeout: soon,
	})
	server := httptest.NewServer(gateway.Public())
	b.Cleanup(func() {
		server.Close()
		gateway.Wait()
		for _, r := range table.All() {
			r.Pool.Close()
		}
		transport.CloseIdleConnections()
	})
	return server
}

// load calls a URL over 64 connections, and reports the CPU that a call costs.
func load(b *testing.B, target, body string) {
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	defer transport.CloseIdleConnections()
	b.SetParallelism(32) // times GOMAXPROCS, which is 2 on the machine that the numbers in docs are of
	b.ReportAllocs()
	before := cpu(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			request, err := http.NewRequest(http.MethodPost, target, strings.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				b.Error(err)
				return
			}
			n, err := io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if err != nil || n != int64(len(body)) || response.StatusCode != http.StatusOK {
				b.Errorf("%d, %d bytes, %v", response.StatusCode, n, err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-µs/op")
}

// cpu returns the process's CPU time in microseconds.
func cpu(b *testing.B) int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return (usage.Utime.Nano() + usage.Stime.Nano()) / 1000
}
