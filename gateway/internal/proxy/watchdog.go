package proxy

import (
	"sync"
	"time"

	"github.com/naeel/sless/gateway/internal/problem"
)

// phase is what a call waits for.
type phase int

const (
	// uploading: for more of the caller's body.
	uploading phase = iota
	// answering: for the head of the function's answer.
	answering
	// streaming: for more of the answer, or for the caller to take it.
	streaming
)

// grace is how much longer than the function's time-out the gateway waits. The runtime's own clock knows when the call really began and ends
// the worker, so its answer is the better one; this is for a pod that does not give it.
const grace = time.Second

// watchdog is the one timer of a call. Every sign of life moves its deadline; the timer itself is moved only when it goes off too early, because
// that is rare and signs of life are not.
type watchdog struct {
	// fire is called, once at most, when time is up.
	fire func(phase)

	// mu guards the rest, and makes sure that nothing fires after end: the connection may be serving another request by then.
	mu              sync.Mutex
	timer           *time.Timer
	armed, deadline time.Time
	phase           phase
	ended           bool
}

// set says what the call waits for now and how long it may take. Once the answer has begun there is no way back to another phase.
func (w *watchdog) set(next phase, limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	if w.phase != streaming {
		w.phase = next
	}
	w.deadline = time.Now().Add(limit)
	switch {
	case w.timer == nil:
		w.timer = time.AfterFunc(limit, w.bark)
	case w.deadline.Before(w.armed):
		w.timer.Reset(limit)
	default:
		return
	}
	w.armed = w.deadline
}

func (w *watchdog) bark() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	if left := time.Until(w.deadline); left > 0 {
		w.armed = w.deadline
		w.timer.Reset(left)
		return
	}
	w.ended = true
	w.fire(w.phase)
}

// end stops the watchdog for good.
func (w *watchdog) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// expire ends a call whose time is up.
func (c *call) expire(in phase) {
	switch in {
	case uploading:
		c.cancel(problem.ErrBodyTimeout)
		c.recorder.interruptRead()
	case answering:
		c.cancel(problem.ErrFunctionTimeout)
	case streaming:
		c.cancel(errIdle)
		c.recorder.interrupt()
	}
}
