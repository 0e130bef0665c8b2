package contract

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/naeel/sless/hack/internal/collector"
)

// callee is whom the kit calls: it remembers the trace context of each request, by path.
type callee struct {
	*httptest.Server
	mu  sync.Mutex // guards got
	got map[string][2]string
}

func newCallee(t *testing.T) *callee {
	c := &callee{got: map[string][2]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.got[r.URL.Path] = [2]string{r.Header.Get("Traceparent"), r.Header.Get("Tracestate")}
	}))
	t.Cleanup(func() {
		c.CloseClientConnections()
		c.Close()
	})
	return c
}

func (c *callee) of(path string) [2]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got[path]
}

// traced is what the kit says of its call.
type traced struct{ Traceparent, Tracestate string }

// calls has the kit make requests to paths of the callee below name, with a trace context.
func (s *server) calls(t *testing.T, c *callee, name, traceparent, tracestate string) (said traced) {
	t.Helper()
	header := http.Header{}
	if traceparent != "" {
		header.Set("Traceparent", traceparent)
		header.Set("Tracestate", tracestate)
	}
	got := s.send(t, request{do: "call", args: url.Values{"url": {c.URL + "/" + name}}, header: header})
	if err := json.Unmarshal(got.body, &said); got.status != 200 || err != nil {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if own := c.of("/" + name + "/own"); own[0] != "mine" {
		t.Errorf("the handler's own header became %q", own[0])
	}
	return said
}

// ways are those in which the kit makes requests.
var ways = []string{"direct", "later"}

// Without a collector the handler gets the context that came, and its requests carry it on; those of calls at the same time their own.
func TestTraceContext(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		c := newCallee(t)
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				name, parent := fmt.Sprint("call-", i), fmt.Sprintf("00-%032x-%016x-0%d", i+1, i+1, i%2)
				if said := s.calls(t, c, name, parent, "a=1,b=2"); said != (traced{parent, "a=1,b=2"}) {
					t.Errorf("the context says %v", said)
				}
				for _, way := range ways {
					if got := c.of("/" + name + "/" + way); got != [2]string{parent, "a=1,b=2"} {
						t.Errorf("%s carries %v, want %s", way, got, parent)
					}
				}
			})
		}
		all.Wait()
		for i, invalid := range []string{"", "junk", "00-" + strings.Repeat("0", 32) + "-0000000000000001-01"} {
			name := fmt.Sprint("none-", i)
			if said := s.calls(t, c, name, invalid, "a=1"); said != (traced{}) {
				t.Errorf("the context says %v", said)
			}
			for _, way := range ways {
				if got := c.of("/" + name + "/" + way); got != [2]string{} {
					t.Errorf("%s carries %v after %q", way, got, invalid)
				}
			}
		}
	})
}

func TestPropagationCanBeOff(t *testing.T) {
	eachKit(t, []string{"OTEL_PROPAGATORS=none"}, func(t *testing.T, s *server) {
		c := newCallee(t)
		parent := fmt.Sprintf("00-%032x-%016x-01", 1, 1)
		if said := s.calls(t, c, "x", parent, ""); said.Traceparent != parent {
			t.Errorf("the context says %v", said)
		}
		for _, way := range ways {
			if got := c.of("/x/" + way); got[0] != "" {
				t.Errorf("%s carries %v", way, got)
			}
		}
	})
}

// With a collector each call is a span below the caller's, and what the handler does is below that.
func TestSpansOfCalls(t *testing.T) {
	t.Parallel()
	receiver := &collector.Collector{}
	to := httptest.NewServer(receiver)
	t.Cleanup(to.Close)
	env := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + to.URL, "OTEL_RESOURCE_ATTRIBUTES=team=red%20one"}
	for at, r := range runtimes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			s := r.serve(t, r.kit(t, "kit.handle"), env...)
			c := newCallee(t)
			trace := func(n int) string { return fmt.Sprintf("%032x", 100*(at+1)+n) }
			one := func(trace string) (span collector.Span) {
				t.Helper()
				eventually(t, "a span is there", func() bool {
					found := receiver.Of(trace)
					if len(found) > 0 {
						span = found[0]
					}
					return len(found) == 1
				})
				return span
			}
			said := s.calls(t, c, "sampled", "00-"+trace(1)+"-00f067aa0ba902b7-01", "a=1")
			span := one(trace(1))
			if span.Name != "fn" || span.Parent != "00f067aa0ba902b7" || span.State != "a=1" || span.Failed || span.Attributes["http.response.status_code"] != int64(200) ||
				span.Resource["service.name"] != "fn" || span.Resource["service.namespace"] != "space" || span.Resource["team"] != "red one" {
				t.Errorf("span %+v", span)
			}
			if want := (traced{"00-" + trace(1) + "-" + span.ID + "-01", "a=1"}); said != want {
				t.Errorf("the context says %v, want %v", said, want)
			}
			for _, way := range ways {
				if got := c.of("/sampled/" + way); got[0] != said.Traceparent {
					t.Errorf("%s carries %v", way, got)
				}
			}

			failed := s.send(t, request{do: "raise", header: http.Header{"Traceparent": {"00-" + trace(2) + "-00f067aa0ba902b7-01"}, "X-Request-Id": {"id-1"}}})
			failed.wantProblem(t, 500, "function_failed")
			span = one(trace(2))
			if !span.Failed || span.Attributes["error.type"] != "function_failed" || span.Attributes["sless.request_id"] != "id-1" || strings.Contains(fmt.Sprint(span), "secret") {
				t.Errorf("span %+v", span)
			}

			parent := "00-" + trace(3) + "-00f067aa0ba902b7-00"
			if said := s.calls(t, c, "unsampled", parent, ""); said.Traceparent != parent {
				t.Errorf("the context says %v", said)
			}
			said = s.calls(t, c, "new", "", "") // a call without a context begins a trace
			if span := one(said.Traceparent[3:35]); span.Parent != "" {
				t.Errorf("span %+v", span)
			}
			if found := receiver.Of(trace(3)); found != nil {
				t.Errorf("spans %v, though the caller wanted none", found)
			}
		})
	}
}

// A job's run has its context from the environment, and its span is there when it has ended.
func TestSpanOfAJob(t *testing.T) {
	eachRuntime(t, func(t *testing.T, r *runtime) {
		receiver := &collector.Collector{}
		to := httptest.NewServer(receiver)
		t.Cleanup(to.Close)
		trace := strings.Repeat("ab", 16)
		env := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + to.URL + "/", "TRACEPARENT=00-" + trace + "-00f067aa0ba902b7-01", "SLESS_REQUEST_ID=id-2"}
		p := r.job(t, `{"do":"context"}`, env...)
		if code := p.exit(t); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		spans := receiver.Of(trace)
		if len(spans) != 1 || spans[0].Parent != "00f067aa0ba902b7" || spans[0].Attributes["sless.request_id"] != "id-2" || spans[0].Failed {
			t.Fatalf("spans %+v", spans)
		}
		if want := "00-" + trace + "-" + spans[0].ID + "-01"; !strings.Contains(string(p.lastWords(t)), want) {
			t.Errorf("last words %s have no %s", p.lastWords(t), want)
		}
		failed := r.job(t, `{"do":"raise"}`, env...)
		if code := failed.exit(t); code != 1 {
			t.Errorf("exit code %d", code)
		}
		if spans := receiver.Of(trace); len(spans) != 2 || !spans[1].Failed {
			t.Errorf("spans %+v", spans)
		}
	})
}

// A pod that has just started may not reach the collector at once.
func TestSpanOfAJobWaitsForTheNetwork(t *testing.T) {
	eachRuntime(t, func(t *testing.T, r *runtime) {
		receiver := &collector.Collector{}
		address := fmt.Sprint("127.0.0.1:", freePort(t))
		trace := strings.Repeat("cd", 16)
		p := r.job(t, `{"do":"context"}`, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+address, "TRACEPARENT=00-"+trace+"-00f067aa0ba902b7-01")
		eventually(t, "it was tried in vain", func() bool { return strings.Contains(p.log(t), "spans are lost") })
		to := httptest.NewUnstartedServer(receiver)
		to.Listener.Close()
		var err error
		if to.Listener, err = net.Listen("tcp", address); err != nil {
			t.Fatal(err)
		}
		to.Start()
		t.Cleanup(to.Close)
		if code := p.exit(t); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		if spans := receiver.Of(trace); len(spans) != 1 {
			t.Errorf("spans %+v", spans)
		}
	})
}

// A collector that is away is told of once, and is nothing that a caller or a job notices.
func TestCollectorIsAway(t *testing.T) {
	eachRuntime(t, func(t *testing.T, r *runtime) {
		s := r.serve(t, r.kit(t, "kit.handle"), fmt.Sprint("OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:", freePort(t)))
		said := func() int { return strings.Count(s.log(t), "spans are lost") }
		for range 20 {
			s.send(t, request{do: "state"}).wantStatus(t, 200)
		}
		eventually(t, "the log says so", func() bool { return said() == 1 })
		s.send(t, request{do: "state"}).wantStatus(t, 200)
		s.end(t) // tries once more
		if said() != 1 {
			t.Errorf("said %d times", said())
		}
	})
}

func (a answer) wantStatus(t *testing.T, status int) {
	t.Helper()
	if a.status != status {
		t.Fatalf("got %d %.200q, want %d", a.status, a.body, status)
	}
}
