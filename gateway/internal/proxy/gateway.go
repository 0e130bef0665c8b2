// Package proxy carries requests to the pods of functions: the public listener's handler and the internal one's.
package proxy

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/naeel/sless/gateway/internal/access"
	"github.com/naeel/sless/gateway/internal/auth"
	"github.com/naeel/sless/gateway/internal/metrics"
	"github.com/naeel/sless/gateway/internal/route"
	"github.com/naeel/sless/gateway/internal/tracing"
	"github.com/naeel/sless/ledger"
)

// Options are what a Gateway is made of.
type Options struct {
	Table   *route.Table
	Metrics *metrics.Metrics
	// Transport carries requests to pods, H2C to those that ask for HTTP/2.
	Transport, H2C http.RoundTripper
	// Auth guards the internal listener.
	Auth *auth.Authenticator
	// Access gets a line for every request that LogRequests asks for.
	Access      *access.Log
	LogRequests LogRequests
	// Tracer makes spans; nil makes none.
	Tracer *tracing.Tracer
	// ServerTiming puts the header of that name, with the phases of the call, on answers.
	ServerTiming bool
	// Ledger gets a record of every request that leads to a function, with what LedgerCaller keeps of the caller's address; nil: none.
	Ledger       *ledger.Writer
	LedgerCaller ledger.CallerPolicy
	// TrustedProxies are the peers whose X-Forwarded-* and X-Request-Id are believed.
	TrustedProxies []netip.Prefix
	// MaxBodyBytes is the largest request body.
	MaxBodyBytes int64
	// BodyTimeout is how long a caller may send nothing of a body that it owes.
	BodyTimeout time.Duration
	// WaitTimeout is how long a request may wait for a free pod.
	WaitTimeout time.Duration
}

// LogRequests says which requests get a line in the access log.
type LogRequests string

// The kinds of access log.
const (
	LogAll    LogRequests = "all"
	LogErrors LogRequests = "errors"
	LogNone   LogRequests = "off"
)

// Gateway carries requests.
type Gateway struct {
	Options
	forward  httputil.ReverseProxy
	buffers  *bufferPool
	draining atomic.Bool
	active   sync.WaitGroup
	// spare is how much memory is left for bodies that are kept to be sent again.
	spare atomic.Int64
}

// New returns a Gateway.
func New(options Options) *Gateway {
	g := &Gateway{Options: options, buffers: newBufferPool()}
	g.spare.Store(spareBytes)
	g.forward = httputil.ReverseProxy{
		Rewrite:        g.rewrite,
		Transport:      g, // see RoundTrip
		ModifyResponse: cleanResponse,
		ErrorHandler:   answerError,
		BufferPool:     g.buffers,
		// What goes wrong is in the access log, by code.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	return g
}

// Public returns the handler of the public listener: it finds the function by host or path, asks its Trigger, and forwards.
func (g *Gateway) Public() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := g.begin(w, r)
		c.run(c.admit())
	})
}

// Internal returns the handler of the internal listener: POST /invoke/{namespace}/{function} with the token of an account that may.
func (g *Gateway) Internal() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := g.begin(w, r)
		c.run(c.admitInvoke())
	})
}

// Drain makes every answer from now on the last of its connection, so that callers come back to another gateway.
func (g *Gateway) Drain() { g.draining.Store(true) }

// Wait returns when no request is left, those on connections that changed protocol included, which http.Server.Shutdown does not
// wait for.
func (g *Gateway) Wait() { g.active.Wait() }

// bufferPool lends the buffers that bodies are copied with.
type bufferPool struct{ pool sync.Pool }

const bufferBytes = 32 << 10

func newBufferPool() *bufferPool {
	return &bufferPool{pool: sync.Pool{New: func() any { return new([bufferBytes]byte) }}}
}

// Get lends a buffer.
func (b *bufferPool) Get() []byte { return b.pool.Get().(*[bufferBytes]byte)[:] }

// Put takes one back.
func (b *bufferPool) Put(buffer []byte) { b.pool.Put((*[bufferBytes]byte)(buffer)) }
