package build

import (
	"context"
	"slices"
	"sync"
)

// queue hands out a bounded number of places. The next one goes to the namespace that holds the fewest, and among those to the one that
// has waited longest, so that nobody's first build waits for another's second; a namespace never holds more than its own share.
type queue struct {
	share int // the most places of one namespace

	mu      sync.Mutex // guards all below
	free    int
	held    map[string]int // places by namespace
	ring    []string       // the namespaces that wait; one that gets a place or gives one back goes to the end
	waiting map[string][]*ticket
}

// ticket is a wish for a place; ready is closed when it is granted.
type ticket struct {
	queue     *queue
	namespace string
	ready     chan struct{}
}

func newQueue(places, share int) *queue {
	return &queue{share: share, free: places, held: map[string]int{}, waiting: map[string][]*ticket{}}
}

// join queues up. Every ticket must leave in the end.
func (q *queue) join(namespace string) *ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &ticket{queue: q, namespace: namespace, ready: make(chan struct{})}
	if len(q.waiting[namespace]) == 0 {
		q.ring = append(q.ring, namespace)
	}
	q.waiting[namespace] = append(q.waiting[namespace], t)
	q.grant()
	return t
}

// leave gives the place back, or the wish for one.
func (t *ticket) leave() {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.waiting[t.namespace]
	if at := slices.Index(line, t); at >= 0 {
		q.setLine(t.namespace, slices.Delete(line, at, at+1))
		return
	}
	q.toTheEnd(t.namespace)
	q.free++
	if q.held[t.namespace]--; q.held[t.namespace] == 0 {
		delete(q.held, t.namespace)
	}
	q.grant()
}

func (q *queue) grant() {
	for q.free > 0 {
		next := -1
		for at, namespace := range q.ring {
			if held := q.held[namespace]; held < q.share && (next < 0 || held < q.held[q.ring[next]]) {
				next = at
			}
		}
		if next < 0 {
			return
		}
		namespace := q.ring[next]
		line := q.waiting[namespace]
		q.free--
		q.held[namespace]++
		close(line[0].ready)
		q.setLine(namespace, line[1:])
		q.toTheEnd(namespace)
	}
}

// setLine replaces a namespace's line.
func (q *queue) setLine(namespace string, line []*ticket) {
	if len(line) > 0 {
		q.waiting[namespace] = line
		return
	}
	delete(q.waiting, namespace)
	q.ring = slices.DeleteFunc(q.ring, func(n string) bool { return n == namespace })
}

// toTheEnd lets all others that wait now come before a namespace that holds as many places.
func (q *queue) toTheEnd(namespace string) {
	if at := slices.Index(q.ring, namespace); at >= 0 {
		q.ring = append(slices.Delete(q.ring, at, at+1), namespace)
	}
}

// wait waits for the ticket's turn, and leaves when ctx ends first.
func (t *ticket) wait(ctx context.Context) error {
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
		t.leave()
		return ctx.Err()
	}
}

// holds says whether a namespace has a place.
func (q *queue) holds(namespace string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held[namespace] > 0
}

// position says how many will have had their turn with the ticket's, itself counted, as far as can be told now; 0 when it has its place.
func (t *ticket) position() int {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	own := slices.Index(q.waiting[t.namespace], t)
	if own < 0 {
		return 0
	}
	// A namespace's n-th ticket comes when all others have as many places as it has with that one; with as many, who got them earlier
	// comes first, and that is who holds them now.
	held, before := q.held[t.namespace], true
	round, position := held+own, own+1
	for _, namespace := range q.ring {
		if namespace == t.namespace {
			before = false
			continue
		}
		ahead := round - q.held[namespace]
		if q.held[namespace] > held || (q.held[namespace] == held && before) {
			ahead++
		}
		position += min(max(ahead, 0), len(q.waiting[namespace]))
	}
	return position
}

// worthTelling says whether a new place in the queue is told to those who watch a build: every one near the front, and one further back
// when it has halved, so that a long queue costs few writes.
func worthTelling(told, position int) bool {
	const near = 10
	return position != told && (position <= near || told == 0 || 2*position <= told)
}
