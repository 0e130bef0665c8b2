package store

import "sync"

// watchers wakes those who wait for a change of an object.
type watchers struct {
	mu  sync.Mutex // guards all
	all map[string]map[chan struct{}]struct{}
}

// watch returns a channel that has a value after each change of the object, and what ends it. Several changes may give one value;
// a change after the call is never lost.
func (w *watchers) watch(key string) (<-chan struct{}, func()) {
	changed := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[string]map[chan struct{}]struct{}{}
	}
	if w.all[key] == nil {
		w.all[key] = map[chan struct{}]struct{}{}
	}
	w.all[key][changed] = struct{}{}
	return changed, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all[key], changed)
		if len(w.all[key]) == 0 {
			delete(w.all, key)
		}
	}
}

func (w *watchers) notify(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for changed := range w.all[key] {
		select {
		case changed <- struct{}{}:
		default: // it has one that it has not seen yet
		}
	}
}
