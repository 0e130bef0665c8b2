package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/naeel/sless/gateway/internal/backend"
	"github.com/naeel/sless/gateway/internal/metrics"
	"github.com/naeel/sless/gateway/internal/route"
)

// away is a pod that does not answer.
type away struct{}

func (away) Ask(context.Context, string) (backend.Answer, error) {
	return backend.Answer{}, errors.New("away")
}

func TestAdmin(t *testing.T) {
	table := route.NewTable("")
	counters := metrics.New(table.Len, func() int { return 0 })
	ready := &Readiness{}
	handler := Handler(table, ready, counters.Gatherer())
	ask := func(method, path string) (int, string) {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(method, path, nil))
		return recorder.Code, strings.TrimSpace(recorder.Body.String())
	}
	expect := func(path string, status int, body string) {
		t.Helper()
		if got, text := ask(http.MethodGet, path); got != status || !strings.Contains(text, body) {
			t.Errorf("%s: %d %q, want %d %q", path, got, text, status, body)
		}
	}
	expect("/healthz", 200, "")
	expect("/readyz", 503, "not ready")
	ready.Synced()
	expect("/readyz", 200, "")
	ready.Drain()
	ready.Synced() // too late
	expect("/readyz", 503, "not ready")
	expect("/healthz", 200, "")

	expect("/routes/ns/f", 404, `{"enabled":false,"revisions":{}}`)
	r := &route.Route{Namespace: "ns", Name: "f", Pool: backend.NewPool(away{}, 1, backend.NewRoom(1000)), Meter: counters.Meter("ns", "f")}
	defer r.Pool.Close()
	r.SetSpec(&route.Spec{Access: route.Disabled})
	r.Pool.SetTargets([]backend.Target{{Address: "127.0.0.1:1", UID: "1", Ready: true, Serving: true}}, "")
	table.Put(r)
	expect("/routes/ns/f", 404, `{"enabled":false,"revisions":{"":1}}`)
	r.SetSpec(&route.Spec{Access: route.Open})
	expect("/routes/ns/f", 200, `{"enabled":true,"revisions":{"":1}}`)
	expect("/metrics", 200, "sless_gateway_routes 1")
	expect("/debug/pprof/cmdline", 200, "")
	expect("/fn/ns/f", 404, "")
	if status, _ := ask(http.MethodPost, "/routes/ns/f"); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}
}
