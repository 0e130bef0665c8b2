package backend

import "sync/atomic"

// Room is where the requests of all functions wait together: however many functions are slow at a time, no more than so many requests take memory
// and connections of the gateway.
type Room struct {
	places int64
	taken  atomic.Int64
}

// NewRoom returns a Room for so many requests.
func NewRoom(places int) *Room { return &Room{places: int64(places)} }

// Waiting returns how many requests wait.
func (r *Room) Waiting() int { return int(r.taken.Load()) }

// enter takes a place, if one is left. Whoever gets one leaves.
func (r *Room) enter() bool {
	if r.taken.Add(1) <= r.places {
		return true
	}
	r.leave()
	return false
}

func (r *Room) leave() { r.taken.Add(-1) }
