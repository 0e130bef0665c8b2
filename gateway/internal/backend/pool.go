// Package backend holds the pods of one function: which may be used, which is chosen, and who waits for one.
package backend

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Pool is the endpoints of one function, and the queue in front of them.
type Pool struct {
	asker      Asker
	maxWaiting int
	room       *Room
	askers     sync.WaitGroup

	// mu guards everything below, and the fields of the endpoints. Nothing blocks while it is held.
	mu        sync.Mutex
	closed    bool
	limit     int // calls in flight an endpoint may have; 0: no limit
	endpoints map[string]*Endpoint
	// revision is the one that is wanted, as the operator says; empty when it does not.
	revision string
	// revisions are those of the endpoints, in the order in which they appeared. While there is nothing of the one that is wanted, the last
	// is taken for the newest.
	revisions []string
	// ranks are the endpoints to choose from. Within a rank the load decides; a later rank is used when the one before has nothing free,
	// the last (stopping pods) only when the others are empty.
	ranks   [3][]*Endpoint
	waiters queue
}

// The ranks.
const (
	newest = iota
	older
	stopping
)

// NewPool returns an empty pool in front of which at most maxWaiting requests wait, and no more than room has places for.
func NewPool(asker Asker, maxWaiting int, room *Room) *Pool {
	return &Pool{asker: asker, maxWaiting: maxWaiting, room: room, endpoints: map[string]*Endpoint{}}
}

// SetLimit sets how many calls an endpoint may have in flight; 0 is no limit.
func (p *Pool) SetLimit(limit int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit != limit {
		p.limit = limit
		p.dispatch()
	}
}

// SetTargets replaces the endpoints, and says which revision is wanted, if that is known. Those that stay keep their state, and requests in
// flight are not disturbed.
func (p *Pool) SetTargets(targets []Target, revision string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.revision = revision
	old := p.endpoints
	p.endpoints = make(map[string]*Endpoint, len(targets))
	for _, target := range targets {
		key := target.UID + "/" + target.Address
		e := old[key]
		if e == nil {
			e = &Endpoint{Address: target.Address, Pod: target.Pod}
			e.ctx, e.stop = context.WithCancel(context.Background())
			e.update(target)
		} else if e.target != target {
			e.update(target)
		}
		delete(old, key)
		p.endpoints[key] = e
	}
	for _, gone := range old {
		gone.stop()
	}
	p.forgetRevisions()
	p.changed()
	for _, e := range p.endpoints {
		p.startAsking(e)
	}
}

// update takes in a change of what the slice says. An endpoint that was ready and is not any more has to answer again.
func (e *Endpoint) update(target Target) {
	if e.target.Ready && !target.Ready {
		e.answered = false
	}
	e.target = target
	e.since = time.Now()
	if target.Terminating {
		e.ejected = false // a stopping pod is no longer asked, so nothing could bring it back; the last resort may try it
	}
}

// maxTimeouts is how many connections in a row may not come about in time before an endpoint is ejected. A refusal is an answer, and one is enough;
// silence may be a lost packet.
const maxTimeouts = 2

// Eject takes an endpoint to which no connection could be made out of the choice until it answers again, and says whether it did: when it was time
// that ran out, only after that has happened before.
func (p *Pool) Eject(e *Endpoint, timedOut bool) bool {
	if timedOut && e.timeouts.Add(1) < maxTimeouts {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.ctx.Err() != nil || e.ejected {
		return false
	}
	e.ejected, e.answered = true, false
	e.since = time.Now()
	p.changed()
	p.startAsking(e)
	return true
}

// Revisions returns how many usable endpoints there are of each revision; of those that have not told theirs, under "".
func (p *Pool) Revisions() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := map[string]int{}
	for _, e := range p.endpoints {
		if e.usable() {
			count[e.revision]++
		}
	}
	return count
}

// Settled says whether something has been heard from every endpoint that may be used. Until then it may be this gateway that
// can't reach them, when it is new.
func (p *Pool) Settled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.endpoints {
		if e.asking && !e.heard && e.usable() {
			return false
		}
	}
	return true
}

// Close ends all asking and sends everybody who waits away. It returns when no goroutine of the pool is left.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	for _, e := range p.endpoints {
		e.stop()
	}
	clear(p.endpoints)
	p.changed()
	p.waiters.refuseAll()
	p.mu.Unlock()
	p.askers.Wait()
}

// noteRevision makes a revision that no endpoint had the newest. The pool is locked.
func (p *Pool) noteRevision(revision string) {
	p.forgetRevisions()
	for _, known := range p.revisions {
		if known == revision {
			return
		}
	}
	p.revisions = append(p.revisions, revision)
}

// forgetRevisions drops revisions that no endpoint has, so that one that comes back after a roll-back is the newest again.
func (p *Pool) forgetRevisions() {
	kept := p.revisions[:0]
	for _, revision := range p.revisions {
		for _, e := range p.endpoints {
			if e.revision == revision {
				kept = append(kept, revision)
				break
			}
		}
	}
	p.revisions = kept
}

// changed ranks the endpoints anew and gives what has become free to those who wait. The pool is locked.
func (p *Pool) changed() {
	var ranks [3][]*Endpoint
	latest := p.newestUsable()
	for _, e := range p.endpoints {
		switch {
		case e.usable() && e.revision == latest:
			ranks[newest] = append(ranks[newest], e)
		case e.usable():
			ranks[older] = append(ranks[older], e)
		case e.lastResort():
			ranks[stopping] = append(ranks[stopping], e)
		}
	}
	if len(ranks[newest])+len(ranks[older]) > 0 {
		ranks[stopping] = nil
	}
	p.ranks = ranks
	p.dispatch()
}

// newestUsable returns the wanted revision if an endpoint of it is usable, else the newest of which one is; "" when none has told its
// revision.
func (p *Pool) newestUsable() string {
	if p.revision != "" && p.serves(p.revision) {
		return p.revision
	}
	for _, revision := range slices.Backward(p.revisions) {
		if p.serves(revision) {
			return revision
		}
	}
	return ""
}

// serves says whether an endpoint of a revision is usable.
func (p *Pool) serves(revision string) bool {
	for _, e := range p.endpoints {
		if e.revision == revision && e.usable() {
			return true
		}
	}
	return false
}

// choose returns the endpoint for the next request and counts it in, or nil when none is free. The pool is locked.
func (p *Pool) choose(except []*Endpoint) *Endpoint {
	for _, rank := range p.ranks {
		if e := p.least(rank, except); e != nil {
			e.inFlight++
			return e
		}
	}
	return nil
}

// least returns the less loaded of two random free endpoints of a rank, which spreads load almost as well as looking at all of them. When
// neither is free it does look at all.
func (p *Pool) least(rank, except []*Endpoint) *Endpoint {
	n := len(rank)
	if n == 0 {
		return nil
	}
	first := rank[rand.IntN(n)]
	second := rank[rand.IntN(n)]
	if best := p.better(first, second, except); best != nil {
		return best
	}
	var best *Endpoint
	for _, e := range rank {
		best = p.better(best, e, except)
	}
	return best
}

// better returns the less loaded of those of the two that are free, or nil.
func (p *Pool) better(a, b *Endpoint, except []*Endpoint) *Endpoint {
	switch aFree, bFree := p.free(a, except), p.free(b, except); {
	case aFree && (!bFree || a.inFlight <= b.inFlight):
		return a
	case bFree:
		return b
	}
	return nil
}

func (p *Pool) free(e *Endpoint, except []*Endpoint) bool {
	if e == nil || p.limit > 0 && e.inFlight >= p.limit {
		return false
	}
	for _, other := range except {
		if other == e {
			return false
		}
	}
	return true
}

// empty says that there is no endpoint to choose from, free or not. The pool is locked.
func (p *Pool) empty() bool {
	return len(p.ranks[newest])+len(p.ranks[older])+len(p.ranks[stopping]) == 0
}
