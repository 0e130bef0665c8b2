package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/naeel/sless/api/rest"
)

const (
	firstPause = 200 * time.Millisecond
	// quickPause is the longest while an end is near.
	quickPause = 500 * time.Millisecond
	maxPause   = 5 * time.Second
	// absentFor is how long an object that was just made may be not found, because a cache has not seen it.
	absentFor = 15 * time.Second
)

// errDeleted says that somebody deleted the object while it was waited for.
var errDeleted = errors.New("it was deleted by somebody else meanwhile")

// stillWaiting is the error of a wait that took too long, with what was seen last.
type stillWaiting struct{ after time.Duration }

// Error implements error.
func (e stillWaiting) Error() string {
	return fmt.Sprintf("no end after %s", e.after.Round(time.Second))
}

// progress is what one look at an object tells.
type progress int

const (
	done progress = iota
	// near says that the end is a matter of seconds.
	near
	far
)

// poll looks again and again until the end, an error, or the deadline of atMost. Pauses grow with the time passed.
func poll(ctx context.Context, atMost time.Duration, look func(context.Context) (progress, error)) error {
	bounded, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	started := time.Now()
	for {
		state, err := look(bounded)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case bounded.Err() != nil && (err != nil || state != done):
			return stillWaiting{time.Since(started)}
		case err != nil:
			return err
		case state == done:
			return nil
		}
		longest := maxPause
		if state == near {
			longest = quickPause
		}
		pause := min(max(time.Since(started)/8, firstPause), longest)
		select {
		case <-time.After(pause):
		case <-bounded.Done():
		}
	}
}

// uncut is a context for a write: an interruption does not cut it off, so that it is known what was written.
func uncut(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
}

// createOnce makes an object. When it can't be told whether an attempt has made it, because the answer was lost, it looks, and takes an
// object that is as asked for as its own.
func createOnce[T any](ctx context.Context, resource rest.Resource[T], name string, object T, same func(asked, present *T) bool) (rest.Stored[T], error) {
	interrupted := ctx
	ctx, cancel := uncut(ctx)
	defer cancel()
	until := time.Now().Add(30 * time.Second)
	unsure := false
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		stored, err := resource.Create(ctx, object)
		if err == nil {
			return stored, nil
		}
		if rest.IsAlreadyExists(err) && unsure {
			present, getErr := resource.Get(ctx, name, rest.Fresh())
			if getErr == nil && same(&object, &present.Object) {
				return present, nil
			}
			return stored, err
		}
		problem, answered := errors.AsType[*rest.Problem](err)
		if answered && problem.Status < 500 || interrupted.Err() != nil && !unsure || time.Now().Add(pause).After(until) {
			return stored, err
		}
		unsure = true
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return stored, err
		}
	}
}
