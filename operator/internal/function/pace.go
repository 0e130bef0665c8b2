package function

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// mostRollouts is how many Functions at a time are rolled out because sless itself has changed.
	mostRollouts = 5
	// paceEvery is how often one that waits for its turn asks again.
	paceEvery = 10 * time.Second
)

// pace keeps a new version of sless, of a runtime or of the configuration from replacing the pods of all Functions at once. What a
// tenant changes is never held up.
type pace struct {
	mu    sync.Mutex
	going map[client.ObjectKey]bool // guarded by mu
}

// enter says whether a Function may be rolled out now. One that may stays counted until it leaves.
func (p *pace) enter(key client.ObjectKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.going[key] {
		return true
	}
	if len(p.going) >= mostRollouts {
		return false
	}
	if p.going == nil {
		p.going = map[client.ObjectKey]bool{}
	}
	p.going[key] = true
	return true
}

// leave says that a Function's roll-out has ended, one way or the other.
func (p *pace) leave(key client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.going, key)
}
