package proxy

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/gateway/internal/backend"
	"github.com/naeel/sless/gateway/internal/problem"
)

const (
	// maxAttempts bounds how often a request is tried at pods that can't be reached or are full.
	maxAttempts = 16
	// fullPause is the first pause after every pod has said that it is full (another gateway's calls fill it); it doubles up to fullPauseMax.
	fullPause    = 20 * time.Millisecond
	fullPauseMax = 500 * time.Millisecond
)

// RoundTrip carries one request of ReverseProxy to a pod and returns its answer. It tries another pod only when the one before can't have
// begun: no connection could be made, or the runtime refused the call before the handler saw it, and the body is still whole.
func (g *Gateway) RoundTrip(out *http.Request) (*http.Response, error) {
	c := callOf(out.Context())
	tour := tour{call: c, deadline: c.began.Add(min(g.WaitTimeout, c.spec.Timeout)), pause: fullPause}
	most := int64(smallBytes)
	if c.spec.Concurrency > 0 { // only then can a pod be full, and the body be needed again
		most = keepBytes
	}
	if err := c.body.keep(most); err != nil {
		return nil, err
	}
	for range maxAttempts {
		e, err := tour.next()
		if err != nil {
			return nil, err
		}
		response, err := c.send(out, e)
		switch {
		case err == nil && !isOverload(response):
			c.phases.upstream = time.Since(c.phases.sent)
			c.watchdog.set(streaming, c.spec.Timeout+grace)
			response.Body = c.live(response)
			return response, nil
		case err == nil:
			discard(response)
			tour.full = true
			err = problem.ErrOverLimit
		case isDial(err) && c.Err() == nil:
			if c.route.Pool.Eject(e, isTimeout(err)) {
				c.meter.Ejected()
			}
			tour.full = false
			err = problem.ErrNoEndpoint
		default:
			return nil, err
		}
		if !c.body.takeBack() {
			return nil, err
		}
		c.release()
		tour.tried = append(tour.tried, e)
	}
	return nil, tour.why()
}

// send does one round trip.
func (c *call) send(out *http.Request, e *backend.Endpoint) (*http.Response, error) {
	c.held = e
	c.pod = e.Pod
	c.attempts++
	out.URL.Host = e.Address
	out.Body, out.GetBody = c.body.next(), c.body.again()
	c.watchdog.set(answering, c.spec.Timeout+grace)
	c.phases.sent = time.Now()
	c.spans.Attempt(out.Header, e.Address)
	transport := c.gateway.Transport
	if e.H2C() && out.Header["Upgrade"] == nil { // HTTP/2 has no such thing
		transport = c.gateway.H2C
	}
	response, err := transport.RoundTrip(out)
	if err == nil {
		e.Reached()
	}
	return response, err
}

// tour is a request's way from pod to pod.
type tour struct {
	call     *call
	deadline time.Time
	tried    []*backend.Endpoint
	// full says that the last pod refused the call because it was full.
	full  bool
	pause time.Duration
}

// next returns a pod for the call, counted in. It waits for one until the deadline.
func (t *tour) next() (*backend.Endpoint, error) {
	c := t.call
	pool := c.route.Pool
	e, err := pool.Try(t.tried)
	if err == nil {
		return e, nil
	}
	if c.spec.Hopeless && errors.Is(err, backend.ErrNone) {
		return nil, problem.ErrNoEndpoint
	}
	if err := c.body.keep(keepBytes); err != nil {
		return nil, err
	}
	began, starting := time.Now(), errors.Is(err, backend.ErrNone)
	defer func() { c.waited(began, starting) }()
	if t.full {
		if err := t.rest(); err != nil {
			return nil, err
		}
	}
	t.tried = t.tried[:0]
	e, err = pool.Wait(c, t.deadline)
	switch {
	case err == nil:
		return e, nil
	case errors.Is(err, backend.ErrNone):
		return nil, problem.ErrNoEndpoint
	case errors.Is(err, backend.ErrBusy):
		return nil, problem.ErrOverLimit
	case errors.Is(err, backend.ErrCrowded):
		return nil, problem.ErrGatewayBusy
	}
	return nil, err
}

// rest pauses before the pods that were full are tried again.
func (t *tour) rest() error {
	pause := t.pause/2 + rand.N(t.pause)
	t.pause = min(2*t.pause, fullPauseMax)
	if time.Until(t.deadline) < pause {
		return problem.ErrOverLimit
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.call.Done():
		return t.call.Err()
	}
}

func (t *tour) why() error {
	if t.full {
		return problem.ErrOverLimit
	}
	return problem.ErrNoEndpoint
}

// isOverload says whether the runtime refused the call before the handler saw it.
func isOverload(response *http.Response) bool {
	return response.StatusCode == http.StatusServiceUnavailable && response.Header.Get(names.OverloadHeader) != ""
}

// isDial says whether an error is one of making the connection, so that nothing can have been sent.
func isDial(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial"
}

func isTimeout(err error) bool {
	failed, ok := errors.AsType[net.Error](err)
	return ok && failed.Timeout()
}

// discard reads a short answer to its end, so that its connection can be used again.
func discard(response *http.Response) {
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
	_ = response.Body.Close()
}

// answerError answers for a request that got no answer from a pod.
func answerError(_ http.ResponseWriter, out *http.Request, err error) {
	c := callOf(out.Context())
	if p := c.explain(err); p != nil {
		c.refuse(p)
	}
}

// explain says what to answer; nil when nobody is there to be answered.
func (c *call) explain(err error) *problem.Problem {
	if p, ok := errors.AsType[*problem.Problem](err); ok {
		return p
	}
	if c.body != nil && c.body.tooLarge.Load() {
		return problem.ErrBodyTooLarge
	}
	if p, ok := errors.AsType[*problem.Problem](context.Cause(c)); ok {
		return p
	}
	switch {
	case c.inbound.Context().Err() != nil:
		c.recorder.status = statusClientGone
		return nil
	case c.body != nil && c.body.broken.Load():
		return problem.ErrBodyBroken
	case c.held == nil:
		return problem.ErrBadUpgrade // the only fault that ReverseProxy finds before it sends anything
	}
	return problem.ErrFunctionFailed
}
