package build

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/naeel/sless/operator/internal/build/fault"
)

// follower looks now and then whether the sources of built images have changed where they are.
type follower struct {
	look   func(ctx context.Context, request Request) (revision string, err error)
	notify func(Owner)
	places chan struct{} // bounds looks at a time

	mu       sync.Mutex // guards followed, and what is in it
	followed map[Owner]*followed
}

// followed is one source.
type followed struct {
	request Request
	built   string // the revision that the image was built from
	newer   string // another one that was seen since
	due     time.Time
	looking bool
}

const (
	// mostLooks is how many sources are looked at at a time, lookFor how long a look may take, and dueEvery how exact an interval is.
	mostLooks = 4
	lookFor   = 15 * time.Second
	dueEvery  = time.Second
)

func newFollower(look func(context.Context, Request) (string, error), notify func(Owner)) *follower {
	return &follower{look: look, notify: notify, places: make(chan struct{}, mostLooks), followed: map[Owner]*followed{}}
}

// follow looks at the request's source from now on, if it asks for that, and returns a revision other than the built one that was seen.
func (f *follower) follow(request Request, built string) (newer string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	interval := request.pollInterval()
	if interval == 0 {
		delete(f.followed, request.Owner)
		return ""
	}
	known := f.followed[request.Owner]
	if known == nil || known.built != built || known.request.Key() != request.Key() || known.request.pollInterval() != interval {
		// The first look is at any time in the interval, so that a start of this process is no rush.
		known = &followed{built: built, due: time.Now().Add(rand.N(interval))}
		f.followed[request.Owner] = known
	}
	known.request = request // credentials may be new
	return known.newer
}

func (f *follower) forget(owner Owner) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.followed, owner)
}

// run looks at what is due until ctx ends.
func (f *follower) run(ctx context.Context, all *sync.WaitGroup) {
	for sleep(ctx, dueEvery) {
		for _, next := range f.due(time.Now()) {
			select {
			case f.places <- struct{}{}:
			case <-ctx.Done():
				return
			}
			all.Go(func() {
				defer func() { <-f.places }()
				f.visit(ctx, next)
			})
		}
	}
}

func (f *follower) due(now time.Time) []*followed {
	f.mu.Lock()
	defer f.mu.Unlock()
	var due []*followed
	for _, one := range f.followed {
		if !one.looking && !now.Before(one.due) {
			one.looking = true
			due = append(due, one)
		}
	}
	return due
}

// visit looks at one source. An object store that is away, or an object that is gone, changes nothing: what was built goes on serving.
func (f *follower) visit(ctx context.Context, one *followed) {
	f.mu.Lock()
	request := one.request
	f.mu.Unlock()
	looking, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	revision, err := f.look(looking, request)
	news := false
	if err != nil {
		logger().V(1).Info("A source can't be looked at", "namespace", request.Owner.Namespace, "function", request.Owner.Name, "cause", err.Error())
		// The tenant's credentials may have changed since: whoever hears of the event brings those of today.
		news = fault.As(err, "").Terminal && request.Source.S3.Credentials != nil
	}
	f.mu.Lock()
	one.looking = false
	interval := request.pollInterval()
	one.due = time.Now().Add(interval - interval/10 + rand.N(interval/5))
	seen := revision
	if seen == one.built {
		seen = "" // nothing new, or what was new is gone again
	}
	if err == nil && revision != "" && seen != one.newer {
		one.newer, news = seen, true
	}
	news = news && f.followed[request.Owner] == one
	f.mu.Unlock()
	if news {
		f.notify(request.Owner)
	}
}
