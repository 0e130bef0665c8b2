package proxy

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/naeel/sless/gateway/internal/route"
)

// TestOverloadStaysWhereItIs holds one function at twenty times what it can take, and looks at another one: its calls take no longer than they did
// before. When the load ends, the overloaded one answers at once.
func TestOverloadStaysWhereItIs(t *testing.T) {
	const concurrency, each = 2, 50 * time.Millisecond
	s := newStack(t, "", func(o *Options) { o.WaitTimeout = 2 * time.Second })
	busy := s.pod(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(each)
		fmt.Fprint(w, "done")
	})
	a := s.function("a", &route.Spec{Access: route.Open, Timeout: soon, Concurrency: concurrency}, busy)
	s.function("b", &route.Spec{Access: route.Open, Timeout: soon, Concurrency: 100}, s.pod(echoBody))
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	defer transport.CloseIdleConnections()
	call := func(name string) (status int, took time.Duration) {
		began := time.Now()
		response, err := transport.RoundTrip(s.request(http.MethodGet, "/fn/ns/"+name, nil))
		if err != nil {
			t.Error(err)
			return 0, 0
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode, time.Since(began)
	}
	p99 := func() time.Duration {
		var all []time.Duration
		for range 300 {
			status, took := call("b")
			check(t, "status of b", 200, status)
			all = append(all, took)
		}
		slices.Sort(all)
		return all[len(all)*99/100]
	}
	before := p99()

	stop := make(chan struct{})
	var callers sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range 20 * concurrency {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				status, _ := call("a")
				mu.Lock()
				statuses[status]++
				mu.Unlock()
			}
		})
	}
	eventually(t, "a is full", func() bool { _, waiting := a.Pool.Load(); return waiting > 10*concurrency })
	during := p99()
	close(stop)
	callers.Wait()
	t.Logf("p99 of b: %s before, %s while a is at 20 times its limit; a answered %v", before, during, statuses)
	// A call of a waits for twenty others, two at a time: half a second. In a queue in common b's would as well; a busy machine adds less.
	if during > 2*before+200*time.Millisecond {
		t.Errorf("p99 of b was %s and is %s", before, during)
	}
	for status := range statuses {
		if status != 200 && status != 429 {
			t.Errorf("a answered %d", status)
		}
	}
	status, took := call("a")
	if inFlight, waiting := a.Pool.Load(); status != 200 || waiting != 0 {
		t.Errorf("after the load: %d in %s, %d in flight, %d wait", status, took, inFlight, waiting)
	}
}
