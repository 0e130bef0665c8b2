// Package admin is the listener for the platform itself: health, metrics, profiles, and what the gateway knows of a function.
package admin

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/naeel/sless/gateway/internal/route"
)

// Readiness says whether requests should come here. It is false until the table is complete, and again when the gateway is told to go.
type Readiness struct{ synced, draining atomic.Bool }

// Synced says that the table is complete.
func (r *Readiness) Synced() { r.synced.Store(true) }

// Drain says that the gateway is told to go; there is no way back.
func (r *Readiness) Drain() { r.draining.Store(true) }

// Handler returns the admin listener's handler.
func Handler(table *route.Table, ready *Readiness, metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.synced.Load() || ready.draining.Load() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /routes/{namespace}/{function}", func(w http.ResponseWriter, r *http.Request) {
		describe(w, table.Lookup(r.PathValue("namespace")+"/"+r.PathValue("function")))
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// description is what the operator asks for before it calls a Function ready.
type description struct {
	// Enabled says that an http Trigger lets requests through.
	Enabled bool `json:"enabled"`
	// Revisions counts usable pods by revision; those that have not told theirs yet are under "".
	Revisions map[string]int `json:"revisions"`
}

func describe(w http.ResponseWriter, of *route.Route) {
	answer := description{Revisions: map[string]int{}}
	if of != nil {
		answer = description{Enabled: of.Spec().Access == route.Open, Revisions: of.Pool.Revisions()}
	}
	w.Header().Set("Content-Type", "application/json")
	if !answer.Enabled {
		w.WriteHeader(http.StatusNotFound)
	}
	_ = json.NewEncoder(w).Encode(answer) // who does not wait for the answer does not need it
}
