package tracing

import (
	"context"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Names of the spans below a request's own.
const (
	// Queue is the wait for a free place at one of the function's pods.
	Queue = "queue"
	// Starting is the wait for a pod, when there is none.
	Starting = "starting"
	// Upstream is one attempt at a pod, to the end of its answer.
	Upstream = "upstream"
)

// propagator reads and writes traceparent and tracestate.
var propagator propagation.TraceContext

// Spans are those of one request. Nil Spans do nothing. They are not for use by several goroutines at a time.
type Spans struct {
	tracer trace.Tracer
	// ctx carries the request's own span.
	ctx    context.Context
	server trace.Span
	method string
	// upstream is the attempt under way or the one that was answered, attempts how many there were.
	upstream trace.Span
	attempts int
}

// Begin starts the span of a request, below the one that the request names.
func (t *Tracer) Begin(r *http.Request, began time.Time) *Spans {
	if t == nil {
		return nil
	}
	s := &Spans{tracer: t.tracer, method: known(r.Method)}
	ctx := propagator.Extract(context.Background(), propagation.HeaderCarrier(r.Header))
	s.ctx, s.server = t.tracer.Start(ctx, s.method, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(began))
	if s.server.IsRecording() {
		s.server.SetAttributes(attribute.String("http.request.method", s.method))
	}
	return s
}

// known returns a method that a span may be named by: callers can make up others.
func known(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return method
	}
	return "_OTHER"
}

// Lead says which function the request is for. Until then, and for ever when there is none, the span is named by the method alone.
func (s *Spans) Lead(namespace, function string) {
	if s == nil || !s.server.IsRecording() {
		return
	}
	s.server.SetName(s.method + " " + namespace + "/" + function)
	s.server.SetAttributes(attribute.String("sless.namespace", namespace), attribute.String("sless.function", function))
}

// Waited records a wait that ends now: Queue or Starting.
func (s *Spans) Waited(name string, began time.Time) {
	if s == nil || !s.server.IsRecording() {
		return
	}
	_, span := s.tracer.Start(s.ctx, name, trace.WithTimestamp(began))
	span.End()
}

// Attempt starts the span of an attempt at the pod of an address, and makes it the parent of what that does. An attempt before has failed.
func (s *Spans) Attempt(h http.Header, address string) {
	if s == nil {
		return
	}
	if s.upstream != nil {
		s.upstream.SetStatus(codes.Error, "not answered")
		s.upstream.End()
	}
	ctx, span := s.tracer.Start(s.ctx, Upstream, trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		host, _, _ := net.SplitHostPort(address)
		span.SetAttributes(attribute.String("http.request.method", s.method), attribute.String("network.peer.address", host))
		if s.attempts > 0 {
			span.SetAttributes(attribute.Int("http.request.resend_count", s.attempts))
		}
	}
	s.upstream = span
	s.attempts++
	delete(h, "Tracestate") // it belongs to a traceparent that was not valid, if it is not written anew
	propagator.Inject(ctx, propagation.HeaderCarrier(h))
}

// End ends all spans. id is the request's, code the stable one of what went wrong, empty when nothing did.
func (s *Spans) End(status int, id, code string) {
	if s == nil {
		return
	}
	if s.server.IsRecording() {
		s.server.SetAttributes(attribute.String("sless.request_id", id))
	}
	for _, span := range [...]trace.Span{s.upstream, s.server} {
		if span == nil {
			continue
		}
		if span.IsRecording() {
			span.SetAttributes(attribute.Int("http.response.status_code", status))
			if code != "" {
				span.SetAttributes(attribute.String("error.type", code))
			}
			if status >= http.StatusInternalServerError {
				span.SetStatus(codes.Error, code)
			}
		}
		span.End()
	}
}
