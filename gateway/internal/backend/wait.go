package backend

import (
	"container/list"
	"context"
	"errors"
	"time"
)

// Why a request got no endpoint.
var (
	// ErrNone says that no endpoint was usable.
	ErrNone = errors.New("no usable endpoint")
	// ErrBusy says that every usable endpoint had as many calls as it may have.
	ErrBusy = errors.New("all endpoints busy")
	// ErrCrowded says that too many requests, of all functions together, wait already.
	ErrCrowded = errors.New("too many requests wait")
)

// queue is the requests that wait, first come first served. The pool's mutex guards it.
type queue struct{ waiting list.List }

// waiter is one request. given gets its endpoint, or is closed when there will be none.
type waiter struct{ given chan *Endpoint }

// Try returns a free endpoint that is not among except, without waiting and without overtaking those who wait. Whoever gets one
// releases it.
func (p *Pool) Try(except []*Endpoint) (*Endpoint, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.try(except)
}

func (p *Pool) try(except []*Endpoint) (*Endpoint, error) {
	if p.waiters.waiting.Len() == 0 {
		if e := p.choose(except); e != nil {
			return e, nil
		}
	}
	return nil, p.why()
}

func (p *Pool) why() error {
	if p.empty() {
		return ErrNone
	}
	return ErrBusy
}

// Wait returns a free endpoint, waiting for one until the deadline or until ctx ends. Whoever gets one releases it.
//
// No endpoint is lost when the wait ends at the moment in which one is given: both happen under the pool's mutex, so that after leaving the
// queue a waiter either has its endpoint in the channel's buffer or will never get one.
func (p *Pool) Wait(ctx context.Context, deadline time.Time) (*Endpoint, error) {
	p.mu.Lock()
	e, err := p.try(nil)
	if err == nil || p.closed || p.waiters.waiting.Len() >= p.maxWaiting {
		p.mu.Unlock()
		return e, err
	}
	if !p.room.enter() {
		p.mu.Unlock()
		return nil, ErrCrowded
	}
	defer p.room.leave()
	w := waiter{given: make(chan *Endpoint, 1)}
	place := p.waiters.waiting.PushBack(w)
	p.mu.Unlock()

	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case e, ok := <-w.given:
		if !ok {
			return nil, ErrNone
		}
		return e, nil
	case <-timer.C:
		err = nil
	case <-ctx.Done():
		err = ctx.Err()
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters.waiting.Remove(place)
	select {
	case e, ok := <-w.given:
		if ok && err == nil {
			return e, nil
		}
		if ok {
			p.release(e)
		}
	default:
	}
	if err != nil {
		return nil, err
	}
	return nil, p.why()
}

// Release gives an endpoint back.
func (p *Pool) Release(e *Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release(e)
}

func (p *Pool) release(e *Endpoint) {
	e.inFlight--
	p.dispatch()
}

// dispatch gives free endpoints to those who wait. It runs after every change that may free one, which is why nobody waits while an
// endpoint is free. The pool is locked.
func (p *Pool) dispatch() {
	for p.waiters.waiting.Len() > 0 {
		e := p.choose(nil)
		if e == nil {
			return
		}
		first := p.waiters.waiting.Front()
		p.waiters.waiting.Remove(first).(waiter).given <- e
	}
}

// refuseAll sends everybody away. The pool is locked.
func (q *queue) refuseAll() {
	for q.waiting.Len() > 0 {
		close(q.waiting.Remove(q.waiting.Front()).(waiter).given)
	}
}

// Load returns how many requests are in flight and how many wait.
func (p *Pool) Load() (inFlight, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.endpoints {
		inFlight += e.inFlight
	}
	return inFlight, p.waiters.waiting.Len()
}
