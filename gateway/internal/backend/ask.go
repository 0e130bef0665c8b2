package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/naeel/sless/api/names"
)

const (
	// askQuickly is how long a new endpoint is asked every askInterval; then, up to askFor, every askSlowInterval.
	askQuickly      = 15 * time.Second
	askInterval     = 25 * time.Millisecond
	askFor          = 2 * time.Minute
	askSlowInterval = 500 * time.Millisecond
	// shortestAsk and longestAsk bound one asking. The first ones are short, because the first packets to a new pod may be lost, and are sent again
	// only after a second; each that is not answered in time makes the next longer, because a busy node is not a dead one.
	shortestAsk = 300 * time.Millisecond
	longestAsk  = 4800 * time.Millisecond
	// maxRevision is the longest revision that is believed.
	maxRevision = 64
)

// Answer is what a pod says of itself.
type Answer struct {
	// Healthy says that its handler is loaded and a call would reach it.
	Healthy bool
	// Revision is what it runs.
	Revision string
	// H2C says that it wants HTTP/2.
	H2C bool
}

// Asker asks a pod about itself.
type Asker interface {
	Ask(ctx context.Context, address string) (Answer, error)
}

// HTTPAsker asks with GET /_sless/health.
type HTTPAsker struct {
	transport http.RoundTripper
	// slots bounds how many pods are asked at the same time, over all functions.
	slots chan struct{}
}

// NewHTTPAsker returns an Asker that asks at most limit pods at a time. With the transport that also carries the traffic, the
// connection of the asking is there for the first request.
func NewHTTPAsker(transport http.RoundTripper, limit int) *HTTPAsker {
	return &HTTPAsker{transport: transport, slots: make(chan struct{}, limit)}
}

// Ask asks once.
func (a *HTTPAsker) Ask(ctx context.Context, address string) (Answer, error) {
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+names.HealthPath, nil)
	if err != nil {
		return Answer{}, fmt.Errorf("ask %s: %w", address, err)
	}
	request.Header.Set("User-Agent", "sless-gateway")
	response, err := a.transport.RoundTrip(request)
	if err != nil {
		return Answer{}, fmt.Errorf("ask %s: %w", address, err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 4096) // read to the end, the connection can be used again
	return Answer{
		Healthy:  response.StatusCode == http.StatusOK,
		Revision: believable(response.Header.Get(names.RevisionHeader)),
		H2C:      response.Header.Get(names.ProtocolHeader) == names.H2C,
	}, nil
}

// believable returns the revision if it looks like one. It is a tenant's process that said it, and it goes into JSON for the operator.
func believable(revision string) string {
	if len(revision) > maxRevision {
		return ""
	}
	for _, c := range []byte(revision) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_') {
			return ""
		}
	}
	return revision
}

// startAsking starts asking an endpoint if there is something to ask. The pool is locked.
func (p *Pool) startAsking(e *Endpoint) {
	if e.asking || !e.needsAsking() || p.closed {
		return
	}
	e.asking = true
	p.askers.Go(func() { p.askUntilKnown(e) })
}

// askUntilKnown asks until everything is known, the endpoint is gone, or it has taken too long. After that the kubelet's word decides, and a
// change of it starts the asking again. An endpoint that the kubelet calls ready and that can't be reached is asked for good: nothing else would
// bring it back.
func (p *Pool) askUntilKnown(e *Endpoint) {
	limit := shortestAsk
	for {
		ctx, cancel := context.WithTimeout(e.ctx, limit)
		answer, err := p.asker.Ask(ctx, e.Address)
		if ctx.Err() != nil {
			limit = min(2*limit, longestAsk)
		}
		cancel()
		pause, goOn := p.learn(e, answer, err)
		if !goOn {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-e.ctx.Done():
			timer.Stop()
			p.learn(e, Answer{}, e.ctx.Err())
			return
		}
	}
}

// learn takes in what a pod answered and says whether, and after which pause, to ask again.
func (p *Pool) learn(e *Endpoint, answer Answer, err error) (pause time.Duration, goOn bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.ctx.Err() != nil {
		e.asking = false
		return 0, false
	}
	e.heard = e.heard || !errors.Is(err, context.DeadlineExceeded)
	if err == nil {
		e.Reached()
		e.h2c.Store(answer.H2C)
		if answer.Revision != "" && answer.Revision != e.revision {
			e.revision = answer.Revision
			p.noteRevision(answer.Revision)
		}
		if answer.Healthy {
			e.answered, e.ejected = true, false
		}
		p.changed()
	}
	asked := time.Since(e.since)
	pause = askInterval
	if asked > askQuickly {
		pause = askSlowInterval
	}
	e.asking = e.needsAsking() && (asked < askFor || e.ejected && e.target.Ready)
	if err == nil && answer.Healthy && answer.Revision == "" {
		e.asking = false // an image that does not tell its revision will not tell it later
	}
	if !e.asking {
		e.stop()
		e.ctx, e.stop = context.WithCancel(context.Background()) // the old one keeps the memory of all that was made from it
	}
	return pause, e.asking
}
