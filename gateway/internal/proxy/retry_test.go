package proxy

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naeel/sless/gateway/internal/backend"
	"github.com/naeel/sless/gateway/internal/route"
)

// echoBody sends the request's body back while it comes.
func echoBody(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).EnableFullDuplex()
	_, _ = io.Copy(w, r.Body)
}

// TestRefusedConnection: nothing was sent, so any request goes to another pod, whatever its method, with its body whole.
func TestRefusedConnection(t *testing.T) {
	s := newStack(t, "", nil)
	alive := s.pod(echoBody)
	for name, body := range map[string]io.Reader{
		"small": strings.NewReader("small"), "none": nil,
		"large": strings.NewReader(strings.Repeat("x", 1<<20)), "chunked": io.MultiReader(strings.NewReader("of unknown "), strings.NewReader("length")),
	} {
		t.Run(name, func(t *testing.T) {
			// Until the one that is there has been chosen often enough, the dead one is, too.
			for range 20 {
				r := s.function("f", open(), closed, alive)
				want := ""
				if body != nil {
					text, err := io.ReadAll(body)
					if err != nil {
						t.Fatal(err)
					}
					want = string(text)
					body = strings.NewReader(want)
				}
				sent := body
				if name == "chunked" {
					sent = struct{ io.Reader }{body}
				}
				got := s.call(s.request(http.MethodPost, "/fn/ns/f", sent))
				r.Pool.Close()
				if got.status != http.StatusOK || got.body != want {
					t.Fatalf("%d, %d bytes", got.status, len(got.body))
				}
				body = strings.NewReader(want)
			}
		})
	}
}

// TestNeverTwice: a pod that takes the request and dies may have run it.
func TestNeverTwice(t *testing.T) {
	s := newStack(t, "", nil)
	var ran atomic.Int32
	dies := func(http.ResponseWriter, *http.Request) {
		ran.Add(1)
		panic(http.ErrAbortHandler)
	}
	s.function("f", &route.Spec{Access: route.Open, Concurrency: 1, Timeout: soon}, s.pod(dies), s.pod(dies))
	for _, body := range []string{"", "x"} {
		ran.Store(0)
		got := s.call(s.request(http.MethodPost, "/fn/ns/f", strings.NewReader(body)))
		check(t, "answer", []any{502, "function_failed"}, []any{got.status, got.code(t)})
		check(t, "runs", int32(1), ran.Load())
	}
}

// overloaded answers as a runtime that is full, after it has read the whole request.
func overloaded(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Sless-Overload", "true")
	w.WriteHeader(http.StatusServiceUnavailable)
}

func TestFullPodIsTriedElsewhere(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", &route.Spec{Access: route.Open, Concurrency: 5, Timeout: soon}, s.pod(overloaded), s.pod(overloaded), s.pod(echoBody))
	for range 10 {
		got := s.call(s.request(http.MethodPost, "/fn/ns/f", strings.NewReader("body")))
		check(t, "answer", []any{200, "body"}, []any{got.status, got.body})
	}
}

func TestAllPodsFull(t *testing.T) {
	s := newStack(t, "", func(o *Options) { o.WaitTimeout = 200 * time.Millisecond })
	s.function("f", &route.Spec{Access: route.Open, Concurrency: 5, Timeout: soon}, s.pod(overloaded), s.pod(overloaded))
	got := s.call(s.request(http.MethodPost, "/fn/ns/f", strings.NewReader("body")))
	check(t, "answer", []any{429, "over_limit", "1"}, []any{got.status, got.code(t), got.header.Get("Retry-After")})

	// A body that is not kept can't be sent again.
	got = s.call(s.request(http.MethodPost, "/fn/ns/f", strings.NewReader(strings.Repeat("x", keepBytes+1))))
	check(t, "large body", []any{429, "over_limit"}, []any{got.status, got.code(t)})
	check(t, "memory for bodies given back", int64(spareBytes), s.gateway.spare.Load())
}

func TestFullPodIsTriedAgain(t *testing.T) {
	s := newStack(t, "", nil)
	var asked atomic.Int32
	s.function("f", &route.Spec{Access: route.Open, Concurrency: 5, Timeout: soon}, s.pod(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < 3 {
			overloaded(w, r)
			return
		}
		echoBody(w, r)
	}))
	got := s.call(s.request(http.MethodPost, "/fn/ns/f", strings.NewReader("body")))
	check(t, "answer", []any{200, "body", int32(3)}, []any{got.status, got.body, asked.Load()})
}

// TestBurstWhileStarting: requests that come before the pod listens wait, and all are answered.
func TestBurstWhileStarting(t *testing.T) {
	s := newStack(t, "", nil)
	r := s.function("f", open())
	p := s.pod(echoBody)
	const callers = 50
	answers := make(chan answer, callers)
	var all sync.WaitGroup
	for range callers {
		request := s.request(http.MethodPost, "/fn/ns/f", strings.NewReader("x"))
		all.Go(func() { answers <- s.call(request) })
	}
	eventually(t, "all wait", func() bool { _, waiting := r.Pool.Load(); return waiting == callers })
	r.Pool.SetTargets([]backend.Target{{Address: p.address, UID: "1"}}, "")
	all.Wait()
	for range callers {
		got := <-answers
		check(t, "answer", []any{200, "x"}, []any{got.status, got.body})
	}
}

func TestNoPodInTime(t *testing.T) {
	s := newStack(t, "", func(o *Options) { o.WaitTimeout = 50 * time.Millisecond })
	s.function("f", open())
	got := s.get("/fn/ns/f")
	check(t, "answer", []any{503, "no_endpoint", "2"}, []any{got.status, got.code(t), got.header.Get("Retry-After")})

	s.function("dead", open(), closed)
	got = s.get("/fn/ns/dead")
	check(t, "refused", []any{503, "no_endpoint"}, []any{got.status, got.code(t)})
}

// TestHopeless: a Function that only a change can help is not waited for (the stack's waiting time is longer than the test's).
func TestHopeless(t *testing.T) {
	s := newStack(t, "", func(o *Options) { o.WaitTimeout = time.Hour })
	s.function("f", &route.Spec{Access: route.Open, Hopeless: true, Timeout: time.Hour})
	check(t, "code", "no_endpoint", s.get("/fn/ns/f").code(t))
	s.function("f", &route.Spec{Access: route.Open, Hopeless: true, Timeout: time.Hour}, s.pod(echoBody))
	check(t, "with the old version still there", 200, s.get("/fn/ns/f").status)
}

func TestConcurrencyAndQueue(t *testing.T) {
	s := newStack(t, "", func(o *Options) { o.WaitTimeout = 100 * time.Millisecond })
	var began atomic.Int32
	release := make(chan struct{})
	handler := func(http.ResponseWriter, *http.Request) {
		began.Add(1)
		<-release
	}
	r := s.function("f", &route.Spec{Access: route.Open, Concurrency: 1, Timeout: soon}, s.pod(handler), s.pod(handler))
	s.function("other", &route.Spec{Access: route.Open, Concurrency: 1, Timeout: soon}, s.pod(echoBody))
	const callers = 10
	answers := make(chan answer, callers)
	for range callers {
		request := s.request(http.MethodGet, "/fn/ns/f", nil)
		go func() { answers <- s.call(request) }()
	}
	for range callers - 2 {
		got := receive(t, "a refusal", answers)
		check(t, "answer", []any{429, "over_limit", "1"}, []any{got.status, got.code(t), got.header.Get("Retry-After")})
	}
	check(t, "a neighbour", 200, s.get("/fn/ns/other").status)
	eventually(t, "two run", func() bool { return began.Load() == 2 })
	close(release)
	for range 2 {
		check(t, "those that run", 200, receive(t, "an answer", answers).status)
	}
	check(t, "at once", int32(2), began.Load())
	eventually(t, "nothing in flight", func() bool { n, waiting := r.Pool.Load(); return n == 0 && waiting == 0 })
	check(t, "afterwards", 200, s.get("/fn/ns/f").status)
}
