package backend

import (
	"context"
	"sync/atomic"
	"time"
)

// Target is one address of an EndpointSlice.
type Target struct {
	// Address is host:port.
	Address string
	// UID is the pod's: a new pod with an old address is another endpoint.
	UID string
	// Pod is its name.
	Pod string
	// Ready is what the kubelet says.
	Ready bool
	// Serving is Ready without regard to Terminating.
	Serving bool
	// Terminating says that the pod is on its way out.
	Terminating bool
}

// Endpoint is one pod of a function as the gateway knows it. The pool's mutex guards what is not atomic, but for Address and Pod.
type Endpoint struct {
	// Address is host:port.
	Address string
	// Pod is the pod's name.
	Pod string

	// h2c says that the pod asked for HTTP/2.
	h2c atomic.Bool
	// timeouts counts connections that did not come about in time since the last that did.
	timeouts atomic.Int32

	target   Target
	inFlight int
	// revision is what the pod said it runs; empty until it has said so.
	revision string
	// answered says that the pod answered 200 when it was asked, since the kubelet last called it not ready.
	answered bool
	// heard says that an asking has come to an end of whatever kind but silence.
	heard bool
	// ejected says that a connection could not be made; it lasts until the pod answers 200 again.
	ejected bool
	// since is when the endpoint last changed, from which the time for asking counts.
	since time.Time
	// asking says that a goroutine asks the pod; stop ends it.
	asking bool
	ctx    context.Context
	stop   context.CancelFunc
}

// H2C says that the pod wants to be spoken to in HTTP/2 without TLS.
func (e *Endpoint) H2C() bool { return e.h2c.Load() }

// Reached notes that a connection came about.
func (e *Endpoint) Reached() {
	if e.timeouts.Load() != 0 {
		e.timeouts.Store(0)
	}
}

// usable says whether new requests may go there.
func (e *Endpoint) usable() bool {
	return !e.ejected && !e.target.Terminating && (e.target.Ready || e.answered)
}

// lastResort says whether a request may go there when no other endpoint is usable: a pod that is stopping goes on serving for a while.
func (e *Endpoint) lastResort() bool {
	return !e.ejected && e.target.Terminating && e.target.Serving
}

// needsAsking says whether there is something that only the pod itself can say.
func (e *Endpoint) needsAsking() bool {
	return !e.target.Terminating && (e.ejected || !(e.target.Ready || e.answered) || e.revision == "")
}
