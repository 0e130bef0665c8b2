package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A gateway whose environment names a collector exports spans.
func TestEnvironmentSwitchesTracingOn(t *testing.T) {
	var spans atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // no goroutine stays behind
		batch := &coltracepb.ExportTraceServiceRequest{}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, batch)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, resource := range batch.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				spans.Add(int64(len(scope.Spans)))
			}
		}
	}))
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	p := start(t)
	if status, body := p.get("public", "/fn/ns/none"); status != http.StatusNotFound {
		t.Fatalf("got %d %s", status, body)
	}
	for end := time.Now().Add(soon); spans.Load() != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d spans", spans.Load())
		}
	}
}
