package build

import (
	"context"
	"slices"
	"sync"
)

// queue hands out a bounded number of places, to the waiting namespaces in turn, so that one with many builds holds up nobody else's
// first.
type queue struct {
	mu      sync.Mutex // guards all below
	free    int
	ring    []string // the namespaces that wait, next first
	waiting map[string][]*ticket
}

// ticket is a wish for a place; ready is closed when it is granted.
type ticket struct {
	namespace string
	ready     chan struct{}
}

func newQueue(places int) *queue {
	return &queue{free: places, waiting: map[string][]*ticket{}}
}

// join queues up. Every ticket must leave in the end.
func (q *queue) join(namespace string) *ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &ticket{namespace: namespace, ready: make(chan struct{})}
	if len(q.waiting[namespace]) == 0 {
		q.ring = append(q.ring, namespace)
	}
	q.waiting[namespace] = append(q.waiting[namespace], t)
	q.grant()
	return t
}

// leave gives the place back, or the wish for one.
func (q *queue) leave(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.waiting[t.namespace]
	at := slices.Index(line, t)
	if at < 0 {
		q.free++
		q.grant()
		return
	}
	q.setLine(t.namespace, slices.Delete(line, at, at+1))
}

func (q *queue) grant() {
	for q.free > 0 && len(q.ring) > 0 {
		namespace := q.ring[0]
		line := q.waiting[namespace]
		q.free--
		close(line[0].ready)
		if q.setLine(namespace, line[1:]) {
			q.ring = append(q.ring[1:], namespace)
		}
	}
}

// setLine replaces a namespace's line, and says whether anybody is left in it.
func (q *queue) setLine(namespace string, line []*ticket) bool {
	if len(line) > 0 {
		q.waiting[namespace] = line
		return true
	}
	delete(q.waiting, namespace)
	q.ring = slices.DeleteFunc(q.ring, func(n string) bool { return n == namespace })
	return false
}

// wait waits for the ticket's turn, and leaves when ctx ends first.
func (q *queue) wait(ctx context.Context, t *ticket) error {
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
		q.leave(t)
		return ctx.Err()
	}
}

// position says how many come before the ticket, itself counted; 0 when it has its place.
func (q *queue) position(t *ticket) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := slices.Index(q.waiting[t.namespace], t)
	if own < 0 {
		return 0
	}
	position, earlier := 1, 1
	for _, namespace := range q.ring {
		if namespace == t.namespace {
			position += own
			earlier = 0
			continue
		}
		position += min(len(q.waiting[namespace]), own+earlier)
	}
	return position
}
