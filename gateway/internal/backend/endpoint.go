package backend

import (
	"context"
	"time"
)

// Target is one address of an EndpointSlice.
type Target struct {
	// Address is host:port.
	Address string
	// UID is the pod's: a new pod with an old address is another endpoint.
	UID string
	// Ready is what the kubelet says.
	Ready bool
	// Serving is Ready without regard to Terminating.
	Serving bool
	// Terminating says that the pod is on its way out.
	Terminating bool
}

// Endpoint is one pod of a function as the gateway knows it. All fields but Address are guarded by the pool's mutex.
type Endpoint struct {
	// Address is host:port.
	Address string

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
