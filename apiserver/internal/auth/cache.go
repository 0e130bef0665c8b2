package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// cacheSize bounds the memory that callers with many tokens can take.
	cacheSize = 4096
	// refusedFor is how long a bad token is not asked about again: short, because it may become good.
	refusedFor = 5 * time.Second
	// askTimeout bounds one look-up whatever the caller's patience, because others may wait for it too.
	askTimeout = 10 * time.Second
)

// Cached remembers answers, and asks once for many callers with one token.
type Cached struct {
	next    Authenticator
	ttl     time.Duration
	answers *cache.LRUExpireCache // by hash, so that no token stays in memory
	flights singleflight.Group
	now     func() time.Time
}

type answer struct {
	identity Identity
	until    time.Time
	err      error
}

// NewCached wraps next. A good token is asked about again after ttl, or when it expires if that is sooner.
func NewCached(next Authenticator, ttl time.Duration) *Cached {
	return newCached(next, ttl, time.Now)
}

func newCached(next Authenticator, ttl time.Duration, now func() time.Time) *Cached {
	return &Cached{next: next, ttl: ttl, answers: cache.NewLRUExpireCacheWithClock(cacheSize, clock(now)), now: now}
}

type clock func() time.Time

func (c clock) Now() time.Time { return c() }

// Name is that of the wrapped authenticator.
func (c *Cached) Name() string { return c.next.Name() }

// Authenticate answers from memory, or asks. That an authenticator can't be asked is never remembered.
func (c *Cached) Authenticate(ctx context.Context, token string) (Identity, time.Time, error) {
	sum := sha256.Sum256([]byte(token))
	key := string(sum[:])
	if known, ok := c.answers.Get(key); ok {
		known := known.(answer)
		if known.until.IsZero() || known.until.After(c.now()) {
			return known.identity, known.until, known.err
		}
	}
	flight := c.flights.DoChan(key, func() (any, error) {
		ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		identity, until, err := c.next.Authenticate(ask, token)
		found := answer{identity, until, err}
		c.remember(key, found)
		return found, nil
	})
	select {
	case result := <-flight:
		found := result.Val.(answer)
		return found.identity, found.until, found.err
	case <-ctx.Done():
		return Identity{}, time.Time{}, ctx.Err()
	}
}

func (c *Cached) remember(key string, found answer) {
	ttl := c.ttl
	switch {
	case errors.Is(found.err, ErrUnknown), errors.Is(found.err, ErrRefused):
		ttl = refusedFor
	case found.err != nil:
		return
	case !found.until.IsZero():
		ttl = min(ttl, found.until.Sub(c.now()))
	}
	if ttl > 0 {
		c.answers.Add(key, found, ttl)
	}
}
