package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/auth"
	"github.com/naeel/sless/apiserver/internal/config"
	"github.com/naeel/sless/apiserver/internal/problem"
	"github.com/naeel/sless/apiserver/internal/request"
)

// Server answers requests. Fill Mux with the operations of [NewAPI] before it runs.
type Server struct {
	Mux *http.ServeMux
	// Auth says whose a token is.
	Auth auth.Authenticator
	// Ready says whether requests can be served.
	Ready  func(context.Context) bool
	Limits config.Limits
	TLS    config.TLS
	// TrustedProxies say by X-Forwarded-For who calls.
	TrustedProxies []netip.Prefix
	Log            *slog.Logger

	metrics  *metrics
	limiter  *limiter
	draining chan struct{}
	drain    sync.Once
}

// New returns a Server.
func New(settings config.APIServer, authenticator auth.Authenticator, ready func(context.Context) bool, log *slog.Logger) *Server {
	return &Server{
		Mux: http.NewServeMux(), Auth: authenticator, Ready: ready, Limits: settings.Limits, TLS: settings.TLS, TrustedProxies: settings.TrustedProxies, Log: log,
		metrics: newMetrics(), limiter: newLimiter(settings.Limits.RequestsPerSecond, settings.Limits.Burst), draining: make(chan struct{}),
	}
}

// Drain makes the server not ready and lets long answers end. It may be called more than once.
func (s *Server) Drain() { s.drain.Do(func() { close(s.draining) }) }

// Public returns the handler of the public listener.
func (s *Server) Public() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		info := &request.Info{ID: request.ID(r.Header.Get(request.Header)), Draining: s.draining}
		info.Log = s.Log.With("request_id", info.ID)
		answer := &recorder{ResponseWriter: w}
		body := newPacedBody(w, r, time.Duration(s.Limits.BodyIdleSeconds)*time.Second)
		r = r.WithContext(request.With(r.Context(), info))
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = body
			defer body.finish()
		}
		info.Request, info.Writer = r, answer
		answer.Header().Set(request.Header, info.ID)
		s.metrics.inFlight.Inc()
		defer func() {
			s.metrics.inFlight.Dec()
			failure := recover()
			if failure != nil && failure != http.ErrAbortHandler {
				info.Log.Error("panic", "error", fmt.Sprint(failure), "stack", string(debug.Stack()))
				if answer.status == 0 {
					WriteProblem(answer, info, problem.New(http.StatusInternalServerError, rest.CodeInternal, "an error on the server's side; its log has the request id"))
				}
			}
			s.metrics.observe(r, answer.status, time.Since(started))
			s.audit(info, answer.status)
			if failure != nil {
				panic(http.ErrAbortHandler) // the connection can't be trusted any more
			}
		}()
		s.serve(answer, r, info)
	})
}

// serve lets a request through to its operation, if it may.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, info *request.Info) {
	if clean := path.Clean(r.URL.Path); clean != r.URL.Path || !strings.HasPrefix(r.URL.Path, "/v1/") {
		WriteProblem(w, info, notFound()) // ServeMux would redirect
		return
	}
	if r.URL.Path != openAPIPath && r.URL.Path != docsPath {
		if err := s.authenticate(r, info); err != nil {
			if p, ok := problem.From(err); ok && p.Status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="sless"`)
			}
			WriteProblem(w, info, err)
			return
		}
		if wait := s.limiter.wait(info.Identity.Username); wait > 0 {
			WriteProblem(w, info, problem.New(http.StatusTooManyRequests, rest.CodeRateLimited, "too many requests").RetryAfter(wait))
			return
		}
	}
	if _, pattern := s.Mux.Handler(r); pattern == "" {
		s.noRoute(w, r, info)
		return
	}
	s.Mux.ServeHTTP(w, r)
}

func notFound() error {
	return problem.New(http.StatusNotFound, rest.CodeNotFound, "there is nothing at this path; see /v1/docs")
}

// noRoute answers 405 when the path has other methods, else 404.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request, info *request.Info) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		trial := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := s.Mux.Handler(trial); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		WriteProblem(w, info, notFound())
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	WriteProblem(w, info, problem.New(http.StatusMethodNotAllowed, rest.CodeMethodNotAllowed, "the path has %s", strings.Join(allowed, ", ")))
}

func (s *Server) authenticate(r *http.Request, info *request.Info) error {
	token, ok := auth.Bearer(r.Header.Get("Authorization"))
	if !ok {
		s.metrics.auth.WithLabelValues("absent").Inc()
		return problem.New(http.StatusUnauthorized, rest.CodeUnauthenticated, "the request needs a header Authorization: Bearer with a token")
	}
	address := peer(r, s.TrustedProxies)
	identity, _, err := s.Auth.Authenticate(auth.WithAddress(r.Context(), address), token)
	tooMany, limited := errors.AsType[*auth.TooManyError](err)
	switch {
	case err == nil:
		s.metrics.auth.WithLabelValues("good").Inc()
		info.Identity = identity
		return nil
	case errors.Is(err, auth.ErrUnknown), errors.Is(err, auth.ErrRefused):
		s.metrics.auth.WithLabelValues("refused").Inc()
		info.Log.Info("token refused", "reason", err, "address", address.String())
		return problem.New(http.StatusUnauthorized, rest.CodeUnauthenticated, "the token is not good here, or not any more")
	case limited:
		s.metrics.auth.WithLabelValues("limited").Inc()
		return problem.New(http.StatusTooManyRequests, rest.CodeRateLimited, "too many tokens that are not good came from your address; this one is not looked at").RetryAfter(tooMany.Wait)
	}
	s.metrics.auth.WithLabelValues("unavailable").Inc()
	info.Log.Error("authentication failed", "error", err)
	return problem.New(http.StatusServiceUnavailable, rest.CodeAuthUnavailable, "the token can't be checked now; try again").RetryAfter(2 * time.Second)
}

// audit writes one line for each write: who did what, and how it ended. Bodies are never in it.
func (s *Server) audit(info *request.Info, status int) {
	if !info.IsWrite() {
		return
	}
	s.Log.Info("audit", "request_id", info.ID, "user", info.Identity.Username, "action", info.Action, "resource", info.Resource,
		"namespace", info.Namespace, "name", info.Name, "status", status)
}

// Admin returns the handler of the admin listener: metrics and health.
func (s *Server) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-s.draining:
			http.Error(w, "draining", http.StatusServiceUnavailable)
			return
		default:
		}
		if !s.Ready(r.Context()) {
			http.Error(w, "the cache is not filled yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
