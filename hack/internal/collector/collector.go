// Package collector is an OTLP receiver for tests.
package collector

import (
	"fmt"
	"io"
	"net/http"
	"sync"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// Span is one span, with the resource that it is of.
type Span struct {
	Name, Trace, ID, Parent, State string
	Failed                         bool
	Attributes, Resource           map[string]any
}

// Collector takes spans by OTLP over HTTP, in either encoding.
type Collector struct {
	mu    sync.Mutex // guards what follows
	spans []Span
}

// ServeHTTP takes one batch.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil && r.URL.Path != "/v1/traces" {
		err = fmt.Errorf("path %s", r.URL.Path)
	}
	if err == nil {
		err = c.Take(body, r.Header.Get("Content-Type"))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// Take takes a batch of a content type.
func (c *Collector) Take(body []byte, contentType string) error {
	batch, err := ptraceotlp.NewExportRequest(), error(nil)
	switch contentType {
	case "application/json":
		err = batch.UnmarshalJSON(body)
	case "application/x-protobuf":
		err = batch.UnmarshalProto(body)
	default:
		err = fmt.Errorf("content type %q", contentType)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range batch.Traces().ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, span := range scope.Spans().All() {
				c.spans = append(c.spans, Span{
					Name: span.Name(), Trace: span.TraceID().String(), ID: span.SpanID().String(), Parent: span.ParentSpanID().String(), State: span.TraceState().AsRaw(),
					Failed:     span.Status().Code() == ptrace.StatusCodeError,
					Attributes: span.Attributes().AsRaw(), Resource: resource.Resource().Attributes().AsRaw(),
				})
				if span.StartTimestamp() == 0 || span.StartTimestamp() > span.EndTimestamp() {
					return fmt.Errorf("span %s is from %v to %v", span.Name(), span.StartTimestamp(), span.EndTimestamp())
				}
			}
		}
	}
	return nil
}

// Of returns the spans of a trace.
func (c *Collector) Of(trace string) (found []Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, span := range c.spans {
		if span.Trace == trace {
			found = append(found, span)
		}
	}
	return found
}
