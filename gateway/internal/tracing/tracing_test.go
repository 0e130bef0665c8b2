package tracing

import (
	"context"
	"log/slog"
	"strings"
	"testing"
)

func TestFromEnvironment(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, c := range map[string]struct {
		env   map[string]string
		on    bool
		fault string
	}{
		"nothing set":      {},
		"on":               {env: map[string]string{endpoint: "http://127.0.0.1:1"}, on: true},
		"for traces alone": {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://127.0.0.1:1/v1/traces"}, on: true},
		"disabled":         {env: map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}},
		"no exporter":      {env: map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}},
		"no address":       {env: map[string]string{endpoint: "collector:4318"}, fault: "OTEL_EXPORTER_OTLP_ENDPOINT must be"},
		"gRPC":             {env: map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, fault: "http/protobuf only"},
		"bad attributes":   {env: map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_RESOURCE_ATTRIBUTES": "x"}, fault: "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range c.env {
				t.Setenv(key, value)
			}
			tracer, err := FromEnvironment(slog.New(slog.DiscardHandler))
			tracer.Shutdown(context.Background())
			if (tracer != nil) != c.on || (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("tracer %v, error %v", tracer, err)
			}
		})
	}
}
