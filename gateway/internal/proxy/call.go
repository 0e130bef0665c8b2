package proxy

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/naeel/sless/gateway/internal/access"
	"github.com/naeel/sless/gateway/internal/backend"
	"github.com/naeel/sless/gateway/internal/metrics"
	"github.com/naeel/sless/gateway/internal/problem"
	"github.com/naeel/sless/gateway/internal/route"
	"github.com/naeel/sless/gateway/internal/tracing"
)

// call is one request on its way. It is also the request's context, by which the steps of ReverseProxy find it.
type call struct {
	context.Context
	cancel context.CancelCauseFunc

	gateway  *Gateway
	inbound  *http.Request // as it came
	request  *http.Request // the same with this context
	recorder recorder
	began    time.Time
	meter    *metrics.Meter
	peer     peer
	id       string

	route *route.Route
	spec  *route.Spec
	// prefix is the public part of the path, empty when the host names the function; target is the raw path for the pod.
	prefix, target string
	invoke         bool

	phases phases
	spans  *tracing.Spans

	body     *upload
	watchdog watchdog
	held     *backend.Endpoint
	// refusal is the code of an answer that the gateway made itself, or broke off; said is the code of one that the runtime made.
	refusal, said string
	// pod is where the call was sent last, the attempts-th time.
	pod      string
	attempts int
	// whole says that the handler came to its end, so that no answer was broken off.
	whole bool
}

type callKey struct{}

// Value makes the call findable in contexts made from it.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// begin starts a call. Whoever calls it calls end.
func (g *Gateway) begin(w http.ResponseWriter, r *http.Request) *call {
	g.active.Add(1)
	c := &call{gateway: g, inbound: r, began: time.Now(), meter: g.Metrics.Unknown()}
	c.Context, c.cancel = context.WithCancelCause(r.Context())
	c.recorder = recorder{ResponseWriter: w, call: c}
	c.watchdog.fire = c.expire
	c.request = r.WithContext(c)
	c.peer = g.identify(r)
	c.id = requestID(r, c.peer.trusted)
	c.spans = g.Tracer.Begin(r, c.began)
	return c
}

// lead notes where the call goes.
func (c *call) lead(to *route.Route, prefix, target string) {
	c.route, c.spec, c.prefix, c.target = to, to.Spec(), prefix, target
	c.meter = to.Meter
	c.meter.Begin()
	c.spans.Lead(to.Namespace, to.Name)
}

// run answers the call: with the refusal, or with what a pod says.
func (c *call) run(refusal *problem.Problem) {
	defer c.end()
	if refusal != nil {
		c.refuse(refusal)
	} else {
		if c.body != nil {
			c.fullDuplex()
		}
		c.gateway.forward.ServeHTTP(&c.recorder, c.request)
	}
	c.whole = true
}

// end lets go of everything, however the call ended: ReverseProxy panics to break off an answer.
func (c *call) end() {
	c.watchdog.end()
	c.conclude()
	c.cancel(nil)
	c.body.abandon()
	c.release()
	if c.route == nil {
		c.meter.Begin()
	}
	took := time.Since(c.began)
	c.meter.End(c.recorder.status, c.body.bytes(), c.recorder.bytes, took, c.refusal)
	c.record(took)
	c.log(took)
	c.spans.End(c.recorder.status, c.id, c.code())
	c.gateway.active.Done()
}

// Codes for the log and the metrics of calls that ended before their answer did.
const (
	codeClientGone = "client_gone"
	codeIdle       = "idle_timeout"
	codeBrokenOff  = "broken_off"
	// statusClientGone is logged when the caller went away before an answer; nobody gets it.
	statusClientGone = 499
)

// conclude finds the code of a call that nobody has refused, and the status of one that nobody has answered.
func (c *call) conclude() {
	gone := c.inbound.Context().Err() != nil
	if c.recorder.status == 0 {
		c.recorder.status = http.StatusOK
		if gone {
			c.recorder.status = statusClientGone
		}
	}
	tunnel := c.recorder.status == http.StatusSwitchingProtocols
	switch {
	case c.refusal != "":
	case errors.Is(context.Cause(c), errIdle):
		c.refusal = codeIdle
	case gone && !tunnel && (!c.whole || c.recorder.status == statusClientGone):
		c.refusal = codeClientGone
	case !c.whole:
		c.refusal = codeBrokenOff
	}
}

func (c *call) release() {
	if c.held != nil {
		c.route.Pool.Release(c.held)
		c.held = nil
	}
}

// refuse answers with a problem.
func (c *call) refuse(p *problem.Problem) {
	c.refusal = string(p.Code)
	lingers := p.Code != problem.BodyTimeout && p.Code != problem.BadRequest && c.owesMuch()
	if lingers {
		c.fullDuplex()
		c.recorder.last = true
	}
	problem.Write(&c.recorder, p, c.id)
	if lingers {
		c.linger()
	}
}

const (
	// serverReads is how much of an unread body net/http reads by itself to keep the connection.
	serverReads = 256 << 10
	lingerBytes = 64 << 20
	lingerFor   = 30 * time.Second
)

// owesMuch says whether the caller may still be sending more of a body than the server would read.
func (c *call) owesMuch() bool {
	r := c.inbound
	return r.ProtoMajor == 1 && r.Body != nil && r.Body != http.NoBody && (r.ContentLength < 0 || r.ContentLength > serverReads)
}

// linger reads on for a while after a refusal. Many callers look for an answer only when they have sent everything, and a connection closed
// in their face would cost them the answer.
func (c *call) linger() {
	c.body.abandon()
	controller := http.NewResponseController(c.recorder.ResponseWriter)
	_ = controller.Flush()
	_ = controller.SetReadDeadline(time.Now().Add(lingerFor))
	_, _ = io.CopyN(io.Discard, c.inbound.Body, lingerBytes)
}

// fullDuplex lets the rest of the body be read after the answer has begun; else the server throws a part of it away.
func (c *call) fullDuplex() {
	_ = http.NewResponseController(c.recorder.ResponseWriter).EnableFullDuplex()
}

// log writes the call's line.
func (c *call) log(took time.Duration) {
	g := c.gateway
	if g.LogRequests == LogNone || g.LogRequests == LogErrors && c.recorder.status < 500 && c.refusal == "" {
		return
	}
	g.Access.Write(&access.Line{
		Time: c.began.Add(took), ID: c.id, Method: shorten(c.inbound.Method, 32), Path: shorten(route.RawPath(c.inbound.RequestURI), 1024),
		Status: c.recorder.status, Bytes: c.recorder.bytes, Took: took, Client: c.peer.client, Code: c.code(),
	})
}

// code is that of an answer which the gateway or the runtime made, or of what broke it off; empty for one of the handler.
func (c *call) code() string {
	if c.refusal != "" {
		return c.refusal
	}
	return c.said
}

func shorten(text string, max int) string {
	if len(text) > max {
		return text[:max]
	}
	return text
}

// requestID returns the id that a trusted peer gave the request, or a new one.
func requestID(r *http.Request, trusted bool) string {
	if id := r.Header.Get("X-Request-Id"); trusted && isID(id) {
		return id
	}
	var id [16]byte
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	return hex.EncodeToString(id[:])
}

// isID says whether a text may go on as a request id: into headers, logs and JSON.
func isID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for _, b := range []byte(id) {
		if b <= ' ' || b >= 0x7f || b == '"' || b == '\\' {
			return false
		}
	}
	return true
}
