// Package tracing makes OpenTelemetry spans of requests and exports them.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync/atomic"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Tracer makes spans. A nil Tracer makes none and costs nothing.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// Endpoint variables of OpenTelemetry's specification: the first that is set counts.
var endpoints = [...]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}

// FromEnvironment returns the Tracer that OpenTelemetry's variables describe, or nil when they name no endpoint or switch tracing off. What the
// exporter can't deliver is dropped: a request never waits for it.
func FromEnvironment(logger *slog.Logger) (*Tracer, error) {
	asked, err := enabled()
	if !asked || err != nil {
		return nil, err
	}
	otel.SetLogger(logr.FromSlogHandler(logger.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("tracing", "error", err) }))
	exporter, err := otlptracehttp.New(context.Background())
	if err != nil {
		return nil, fmt.Errorf("make the exporter of spans: %w", err)
	}
	hostname, _ := os.Hostname() // without one spans don't say which replica made them
	self := resource.NewSchemaless(attribute.String("service.name", "sless-gateway"), attribute.String("service.instance.id", hostname))
	fromEnv, err := resource.New(context.Background(), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	if self, err = resource.Merge(self, fromEnv); err != nil { // the second wins
		return nil, fmt.Errorf("describe this gateway to tracing: %w", err)
	}
	provider := sdktrace.NewTracerProvider( // reads OTEL_TRACES_SAMPLER
		sdktrace.WithResource(self),
		sdktrace.WithBatcher(&watched{SpanExporter: exporter, logger: logger}), // reads OTEL_BSP_…; drops when its queue is full
	)
	return &Tracer{provider: provider, tracer: provider.Tracer("github.com/naeel/sless/gateway")}, nil
}

// enabled says whether the environment asks for spans, and names what it asks for that is not to be had.
func enabled() (bool, error) {
	var name, endpoint string
	for _, name = range endpoints {
		if endpoint = os.Getenv(name); endpoint != "" {
			break
		}
	}
	if endpoint == "" || os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false, nil
	}
	if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false, fmt.Errorf("%s must be an address such as http://collector:4318", name)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := os.Getenv(name); protocol != "" && protocol != "http/protobuf" {
			return false, fmt.Errorf("%s is %q: the gateway exports by http/protobuf only; leave it out and name the collector's HTTP port", name, protocol)
		}
	}
	return true, nil
}

// Shutdown exports what is left, until ctx ends.
func (t *Tracer) Shutdown(ctx context.Context) {
	if t != nil {
		_ = t.provider.Shutdown(ctx) // the exporter has logged why
	}
}

// watched is an exporter that logs when it begins to fail and when it works again, not each time.
type watched struct {
	sdktrace.SpanExporter
	logger  *slog.Logger
	failing atomic.Bool
}

// ExportSpans exports a batch.
func (w *watched) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := w.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !w.failing.Swap(true):
		w.logger.Warn("spans are lost until the collector takes them; requests are not affected", "error", err)
	case err == nil && w.failing.Swap(false):
		w.logger.Info("the collector takes spans again")
	}
	return nil
}
