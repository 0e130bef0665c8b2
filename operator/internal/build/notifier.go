package build

import "sync"

// notifier passes owners on to a channel that its reader may be slow to read: an owner that is waiting to be read is not queued twice,
// and nobody who notifies ever waits.
type notifier struct {
	out     chan Owner
	mu      sync.Mutex // guards pending and queued
	pending []Owner
	queued  map[Owner]bool
	wake    chan struct{}
}

func newNotifier() *notifier {
	return &notifier{out: make(chan Owner), queued: map[Owner]bool{}, wake: make(chan struct{}, 1)}
}

func (n *notifier) notify(owner Owner) {
	n.mu.Lock()
	if !n.queued[owner] {
		n.queued[owner] = true
		n.pending = append(n.pending, owner)
	}
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *notifier) next() (Owner, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.pending) == 0 {
		return Owner{}, false
	}
	owner := n.pending[0]
	n.pending = n.pending[1:]
	delete(n.queued, owner) // a move from here on is a new event
	return owner, true
}

// run passes owners on until done is closed.
func (n *notifier) run(done <-chan struct{}) {
	for {
		owner, ok := n.next()
		if !ok {
			select {
			case <-n.wake:
				continue
			case <-done:
				return
			}
		}
		select {
		case n.out <- owner:
		case <-done:
			return
		}
	}
}
