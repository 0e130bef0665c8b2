package proxy

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/naeel/sless/gateway/internal/route"
)

// TestOverloadStaysWhereItIs holds one function at twenty times what it can take, and calls another one, which answers while not one of the first
// one's calls does: there is no queue in common. When the load ends, all of the overloaded one's are answered.
func TestOverloadStaysWhereItIs(t *testing.T) {
	const concurrency, callers = 2, 40
	s := newStack(t, "", nil)
	release := make(chan struct{})
	a := s.function("a", &route.Spec{Access: route.Open, Timeout: soon, Concurrency: concurrency}, s.pod(func(http.ResponseWriter, *http.Request) { <-release }))
	s.function("b", &route.Spec{Access: route.Open, Timeout: soon, Concurrency: 100}, s.pod(echoBody))
	answers := make(chan answer, callers)
	for range callers {
		request := s.request(http.MethodGet, "/fn/ns/a", nil)
		go func() { answers <- s.call(request) }()
	}
	eventually(t, "a is full", func() bool {
		inFlight, waiting := a.Pool.Load()
		return inFlight == concurrency && waiting == callers-concurrency
	})
	for range 300 {
		check(t, "status of b", 200, s.get("/fn/ns/b").status)
	}
	check(t, "answers of a meanwhile", 0, len(answers))
	close(release)
	for range callers {
		check(t, "status of a", 200, receive(t, "an answer of a", answers).status)
	}
	eventually(t, "nothing is left of the load", func() bool { inFlight, waiting := a.Pool.Load(); return inFlight == 0 && waiting == 0 })
	check(t, "a after the load", 200, s.get("/fn/ns/a").status)
}

// BenchmarkNeighbour calls a function alone, and then beside one that is at twenty times its limit: p99-µs of both.
func BenchmarkNeighbour(b *testing.B) {
	const concurrency = 2
	s := newStack(b, "", func(o *Options) { o.WaitTimeout = 2 * time.Second })
	a := s.function("a", &route.Spec{Access: route.Open, Timeout: soon, Concurrency: concurrency}, s.pod(func(http.ResponseWriter, *http.Request) { time.Sleep(50 * time.Millisecond) }))
	s.function("b", &route.Spec{Access: route.Open, Timeout: soon, Concurrency: 100}, s.pod(echoBody))
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	defer transport.CloseIdleConnections()
	call := func(name string) time.Duration {
		began := time.Now()
		response, err := transport.RoundTrip(s.request(http.MethodGet, "/fn/ns/"+name, nil))
		if err != nil {
			b.Error(err)
			return 0
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return time.Since(began)
	}
	measure := func(name string) {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				took = append(took, call("b"))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
	measure("alone")
	var callers sync.WaitGroup
	stop := make(chan struct{})
	for range 20 * concurrency {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					call("a")
				}
			}
		})
	}
	eventually(b, "a is full", func() bool { _, waiting := a.Pool.Load(); return waiting > 10*concurrency })
	measure("overloaded")
	close(stop)
	callers.Wait()
}
