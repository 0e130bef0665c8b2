package proxy

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/naeel/sless/gateway/internal/route"
	"github.com/naeel/sless/gateway/internal/tracing"
)

// collector takes spans by OTLP/HTTP.
type collector struct {
	*httptest.Server

	mu sync.Mutex // guards the rest
	// refuse answers instead, if it is set.
	refuse   http.HandlerFunc
	asked    int
	spans    []*tracepb.Span
	resource string
	raw      bytes.Buffer
}

func newCollector(t testing.TB) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(c)
	t.Cleanup(func() {
		c.CloseClientConnections()
		c.Close()
	})
	return c
}

// ServeHTTP takes one batch.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	refuse := c.refuse
	c.asked++
	c.mu.Unlock()
	if refuse != nil {
		refuse(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	batch := &coltracepb.ExportTraceServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(body, batch)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "no batch of spans", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(body)
	for _, resource := range batch.ResourceSpans {
		c.resource = resource.Resource.String()
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

func (c *collector) setRefuse(refuse http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = refuse
}

// taken returns the spans by name.
func (c *collector) taken() map[string][]*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	byName := map[string][]*tracepb.Span{}
	for _, span := range c.spans {
		byName[span.Name] = append(byName[span.Name], span)
	}
	return byName
}

// trace starts a gateway that exports to the collector. end exports what is left.
func (c *collector) trace(t *testing.T, logger *slog.Logger) (s *stack, end func()) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	tracer, err := tracing.FromEnvironment(logger)
	if err != nil {
		t.Fatal(err)
	}
	export := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		tracer.Shutdown(ctx)
	})
	t.Cleanup(export)
	s = newStack(t, "", func(o *Options) { o.Tracer = tracer })
	return s, func() {
		s.gateway.Wait()
		export()
	}
}

const (
	callersTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersSpan   = "00f067aa0ba902b7"
	sampledParent = "00-" + callersTrace + "-" + callersSpan + "-01"
)

func attributes(span *tracepb.Span) map[string]string {
	all := map[string]string{}
	for _, a := range span.Attributes {
		all[a.Key] = strings.Trim(a.Value.String()[strings.Index(a.Value.String(), ":")+1:], `"`)
	}
	return all
}

func TestSpansOfARequest(t *testing.T) {
	c := newCollector(t)
	s, end := c.trace(t, slog.New(slog.DiscardHandler))
	s.function("f", open(), s.pod(echoHeaders))
	request := s.request(http.MethodPost, "/fn/ns/f/secret-path?q=secret-query", strings.NewReader("secret-body"))
	request.Header.Set("Traceparent", sampledParent)
	request.Header.Set("Tracestate", "vendor=1")
	request.Header.Set("Authorization", "secret-header")
	got := s.call(request)
	end()

	spans := c.taken()
	if len(spans["POST ns/f"]) != 1 || len(spans["upstream"]) != 1 || len(spans) != 2 {
		t.Fatalf("spans %v", spans)
	}
	server, upstream := spans["POST ns/f"][0], spans["upstream"][0]
	check(t, "trace", callersTrace, hex.EncodeToString(server.TraceId))
	check(t, "parent of the request's span", callersSpan, hex.EncodeToString(server.ParentSpanId))
	check(t, "parent of the attempt", hex.EncodeToString(server.SpanId), hex.EncodeToString(upstream.ParentSpanId))
	check(t, "kinds", []tracepb.Span_SpanKind{tracepb.Span_SPAN_KIND_SERVER, tracepb.Span_SPAN_KIND_CLIENT}, []tracepb.Span_SpanKind{server.Kind, upstream.Kind})
	if server.StartTimeUnixNano > upstream.StartTimeUnixNano || server.EndTimeUnixNano < upstream.EndTimeUnixNano {
		t.Errorf("the attempt %v is not within the request %v", upstream, server)
	}
	check(t, "attributes", map[string]string{
		"http.request.method": "POST", "http.response.status_code": "200", "sless.namespace": "ns", "sless.function": "f",
		"sless.request_id": got.header.Get("X-Request-Id"),
	}, attributes(server))
	at := s.headers(got)
	check(t, "traceparent at the pod", "00-"+callersTrace+"-"+hex.EncodeToString(upstream.SpanId)+"-01", at.Get("Traceparent"))
	check(t, "tracestate at the pod", "vendor=1", at.Get("Tracestate"))
	if strings.Contains(c.raw.String(), "secret") {
		t.Error("a path, query, header or body is in a span")
	}
	if !strings.Contains(c.resource, "sless-gateway") {
		t.Errorf("resource %s", c.resource)
	}
}

// Who sends no valid context gets a new trace; who asks for no spans gets none, and the context all the same.
func TestContextOfCallers(t *testing.T) {
	c := newCollector(t)
	s, end := c.trace(t, slog.New(slog.DiscardHandler))
	s.function("f", open(), s.pod(echoHeaders))
	for _, invalid := range []string{"", "junk", "00-" + strings.Repeat("0", 32) + "-" + callersSpan + "-01"} {
		request := s.request(http.MethodGet, "/fn/ns/f", nil)
		request.Header.Set("Traceparent", invalid)
		request.Header.Set("Tracestate", "stray=1")
		at := s.headers(s.call(request))
		if parts := strings.Split(at.Get("Traceparent"), "-"); len(parts) != 4 || len(parts[1]) != 32 || parts[3] != "01" {
			t.Errorf("%q became %q", invalid, at.Get("Traceparent"))
		}
		if at["Tracestate"] != nil {
			t.Errorf("tracestate %q without its traceparent", at["Tracestate"])
		}
	}
	request := s.request(http.MethodGet, "/fn/ns/f", nil)
	request.Header.Set("Traceparent", strings.TrimSuffix(sampledParent, "1")+"0")
	parent := s.headers(s.call(request)).Get("Traceparent")
	if !strings.HasPrefix(parent, "00-"+callersTrace) || !strings.HasSuffix(parent, "-00") {
		t.Errorf("not sampled became %q", parent)
	}
	end()
	check(t, "spans of requests", 3, len(c.taken()["GET ns/f"]))
}

func TestSpansOfWaits(t *testing.T) {
	c := newCollector(t)
	s, end := c.trace(t, slog.New(slog.DiscardHandler))
	began, release := make(chan struct{}, 2), make(chan struct{})
	p := s.pod(func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-release
	})
	r := s.function("f", &route.Spec{Access: route.Open, Timeout: soon, Concurrency: 1})
	r.Pool.SetLimit(1)
	answers := make(chan answer, 2)
	waits := func(n int) func() bool {
		return func() bool { _, waiting := r.Pool.Load(); return waiting == n }
	}
	first, second := s.request(http.MethodGet, "/fn/ns/f", nil), s.request(http.MethodGet, "/fn/ns/f", nil)
	go func() { answers <- s.call(first) }()
	eventually(t, "the first waits for a pod", waits(1))
	r.Pool.SetTargets(targetsOf(p), "")
	receive(t, "the first is there", began)
	go func() { answers <- s.call(second) }()
	eventually(t, "the second waits in the queue", waits(1))
	close(release)
	for range 2 {
		check(t, "status", 200, receive(t, "an answer", answers).status)
	}
	end()
	spans := c.taken()
	if len(spans["starting"]) != 1 || len(spans["queue"]) != 1 || len(spans["GET ns/f"]) != 2 {
		t.Fatalf("spans %v", spans)
	}
	for _, wait := range []string{"starting", "queue"} {
		span := spans[wait][0]
		i := 0
		if !bytes.Equal(span.ParentSpanId, spans["GET ns/f"][0].SpanId) {
			i = 1
		}
		parent := spans["GET ns/f"][i]
		if !bytes.Equal(span.ParentSpanId, parent.SpanId) || span.StartTimeUnixNano >= span.EndTimeUnixNano ||
			span.StartTimeUnixNano < parent.StartTimeUnixNano || span.EndTimeUnixNano > parent.EndTimeUnixNano {
			t.Errorf("%s is %v in %v", wait, span, parent)
		}
	}
}

// A pod that can't be reached is an attempt that failed, and what the gateway answers itself is in the request's span.
func TestSpansOfFailures(t *testing.T) {
	c := newCollector(t)
	s, end := c.trace(t, slog.New(slog.DiscardHandler))
	r := s.function("f", open(), closed)
	good := s.pod(echoBody)
	request := s.request(http.MethodGet, "/fn/ns/f", nil)
	answered := make(chan answer, 1)
	go func() { answered <- s.call(request) }()
	eventually(t, "it waits", func() bool { _, waiting := r.Pool.Load(); return waiting == 1 })
	r.Pool.SetTargets(targetsOf(good), "")
	check(t, "status", 200, receive(t, "an answer", answered).status)
	s.call(s.request("MADEUP", "/fn/ns/none", nil))
	end()
	spans := c.taken()
	if len(spans["upstream"]) != 2 || len(spans["_OTHER"]) != 1 {
		t.Fatalf("spans %v", spans)
	}
	failed, answering := spans["upstream"][0], spans["upstream"][1]
	check(t, "status of the attempts", []tracepb.Status_StatusCode{tracepb.Status_STATUS_CODE_ERROR, tracepb.Status_STATUS_CODE_UNSET},
		[]tracepb.Status_StatusCode{failed.Status.GetCode(), answering.Status.GetCode()})
	check(t, "resend count", "1", attributes(answering)["http.request.resend_count"])
	refused := attributes(spans["_OTHER"][0])
	check(t, "refusal", []string{"404", "no_route"}, []string{refused["http.response.status_code"], refused["error.type"]})
}

// Whatever the collector does, requests don't notice, and the log has one line about it.
func TestCollectorIsAway(t *testing.T) {
	release := make(chan struct{})
	for name, refuse := range map[string]http.HandlerFunc{
		"hangs": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the gateway gives up
			select {
			case <-release:
			case <-r.Context().Done():
			}
		},
		"refuses": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "20")
			t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
			t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "100")
			c, log := newCollector(t), &syncBuffer{}
			c.setRefuse(refuse)
			s, end := c.trace(t, slog.New(slog.NewJSONHandler(log, nil)))
			s.function("f", open(), s.pod(echoBody))
			for range 200 {
				check(t, "status", 200, s.get("/fn/ns/f").status)
			}
			eventually(t, "several exports fail", func() bool {
				s.get("/fn/ns/f")
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.asked > 3
			})
			eventually(t, "the log says so", func() bool { return strings.Contains(log.String(), "spans are lost") })
			check(t, "lines of the log", 1, strings.Count(log.String(), "\n"))
			c.setRefuse(nil)
			eventually(t, "spans come through again", func() bool {
				s.get("/fn/ns/f")
				return len(c.taken()["GET ns/f"]) > 0
			})
			eventually(t, "the log says so", func() bool { return strings.Contains(log.String(), "takes spans again") })
			end()
		})
	}
	close(release)
}

func TestSamplerOfTheEnvironment(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	c := newCollector(t)
	s, end := c.trace(t, slog.New(slog.DiscardHandler))
	s.function("f", open(), s.pod(echoHeaders))
	request := s.request(http.MethodGet, "/fn/ns/f", nil)
	request.Header.Set("Traceparent", sampledParent)
	if parent := s.headers(s.call(request)).Get("Traceparent"); !strings.HasPrefix(parent, "00-"+callersTrace) || !strings.HasSuffix(parent, "-00") {
		t.Errorf("traceparent %q", parent)
	}
	end()
	check(t, "spans", 0, len(c.taken()))
}

func TestServerTiming(t *testing.T) {
	s := newStack(t, "", func(o *Options) { o.ServerTiming = true })
	began := make(chan struct{})
	r := s.function("f", open())
	p := s.pod(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server-Timing", "db;dur=1")
		if r.URL.Path == "/stream" {
			_ = http.NewResponseController(w).Flush()
			<-began // the head is at the caller before the body ends
		}
	})
	names := func(values []string) (found []string) {
		for metric := range strings.SplitSeq(strings.Join(values, ", "), ", ") {
			name, took, _ := strings.Cut(metric, ";dur=")
			found = append(found, name)
			if d, err := time.ParseDuration(took + "ms"); err != nil || d < 0 {
				t.Errorf("%s took %q: %v", name, took, err)
			}
		}
		return found
	}
	request := s.request(http.MethodGet, "/fn/ns/f", nil)
	answered := make(chan answer, 1)
	go func() { answered <- s.call(request) }()
	eventually(t, "it waits", func() bool { _, waiting := r.Pool.Load(); return waiting == 1 })
	r.Pool.SetTargets(targetsOf(p), "")
	check(t, "first", []string{"db", "starting", "upstream", "total"}, names(receive(t, "an answer", answered).header["Server-Timing"]))
	response := s.start(s.request(http.MethodGet, "/fn/ns/f/stream", nil))
	check(t, "stream", []string{"db", "upstream", "total"}, names(response.Header["Server-Timing"]))
	close(began)
	s.read(response)
	check(t, "refusal", []string{"total"}, names(s.get("/fn/ns/none").header["Server-Timing"]))
}

func TestNoServerTimingUnlessAsked(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", open(), s.pod(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Server-Timing", "db;dur=1") }))
	check(t, "header", []string{"db;dur=1"}, s.get("/fn/ns/f").header["Server-Timing"])
}

// BenchmarkTracing is a request on a wire with tracing off, on but not sampled, and sampled with a collector that takes everything.
func BenchmarkTracing(b *testing.B) {
	for _, mode := range []string{"off", "unsampled", "sampled"} {
		b.Run(mode, func(b *testing.B) {
			gateway, _ := onWire(b, &wire{})
			if mode != "off" {
				b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", newCollector(b).URL)
				if mode == "unsampled" {
					b.Setenv("OTEL_TRACES_SAMPLER", "always_off")
				}
				tracer, err := tracing.FromEnvironment(slog.New(slog.DiscardHandler))
				if err != nil {
					b.Fatal(err)
				}
				defer tracer.Shutdown(context.Background())
				gateway.Tracer = tracer
			}
			request := httptest.NewRequest(http.MethodGet, "/fn/ns/f/some/path?q=1", nil)
			caller, handler := &nowhere{header: http.Header{}}, gateway.Public()
			b.ReportAllocs()
			for b.Loop() {
				clear(caller.header)
				handler.ServeHTTP(caller, request)
			}
		})
	}
}
