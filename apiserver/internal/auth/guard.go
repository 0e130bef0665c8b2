package auth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// guardSize bounds the memory that callers with many addresses can take.
	guardSize = 8192
	// trustedFor is how long a token that was good is asked about whatever its address has done.
	trustedFor = time.Hour
)

// TooManyError is the answer to an address from which too many tokens came that were not good. Wait is when the next may be tried.
type TooManyError struct{ Wait time.Duration }

// Error implements error.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("too many bad tokens from this address, wait %v", e.Wait)
}

type addressKey struct{}

// WithAddress returns ctx with the address that a token comes from.
func WithAddress(ctx context.Context, address netip.Addr) context.Context {
	return context.WithValue(ctx, addressKey{}, address)
}

// Guard bounds how many bad tokens one address can have looked up, so that guessing takes its time and floods no identity provider. A
// token costs nothing once it has turned out good, and one that was good lately is always asked about: whoever shares an address with
// somebody who guesses goes on working.
type Guard struct {
	next      Authenticator
	perMinute float64
	now       func() time.Time
	mu        sync.Mutex            // makes finding and adding an address one step
	addresses *cache.LRUExpireCache // a *bucket by prefix
	good      *cache.LRUExpireCache // by hash, so that no token stays in memory
}

// NewGuard wraps next. An address may have so many bad tokens looked up at once, and as many a minute.
func NewGuard(next Authenticator, perMinute float64) *Guard {
	return newGuard(next, perMinute, time.Now)
}

func newGuard(next Authenticator, perMinute float64, now func() time.Time) *Guard {
	return &Guard{
		next: next, perMinute: perMinute, now: now,
		addresses: cache.NewLRUExpireCacheWithClock(guardSize, clock(now)), good: cache.NewLRUExpireCacheWithClock(guardSize, clock(now)),
	}
}

// Name is that of the wrapped authenticator.
func (g *Guard) Name() string { return g.next.Name() }

// Authenticate asks the wrapped authenticator, unless the address of ctx has no attempt left. An attempt is taken before the answer is
// known, so that many at once are no way around it.
func (g *Guard) Authenticate(ctx context.Context, token string) (Identity, time.Time, error) {
	sum := sha256.Sum256([]byte(token))
	key := string(sum[:])
	from := g.bucket(ctx)
	if _, known := g.good.Get(key); known {
		from = nil
	}
	if wait := from.take(g.now(), g.perMinute); wait > 0 {
		return Identity{}, time.Time{}, &TooManyError{wait}
	}
	identity, until, err := g.next.Authenticate(ctx, token)
	if err == nil {
		from.giveBack()
		g.good.Add(key, struct{}{}, trustedFor)
	}
	return identity, until, err
}

// bucket is that of the caller's address, and nil when there is none. Of IPv6 a whole network of one host's counts as one.
func (g *Guard) bucket(ctx context.Context) *bucket {
	address, ok := ctx.Value(addressKey{}).(netip.Addr)
	if !ok || !address.IsValid() {
		return nil
	}
	bits := 32
	if address.Is6() {
		bits = 64
	}
	prefix, err := address.WithZone("").Prefix(bits)
	if err != nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	found := &bucket{left: g.perMinute, at: g.now()}
	if known, ok := g.addresses.Get(prefix); ok {
		found = known.(*bucket)
	}
	// Unused for so long it is full again, and forgetting it changes nothing.
	g.addresses.Add(prefix, found, 2*time.Minute)
	return found
}

// bucket is the attempts that an address has left.
type bucket struct {
	mu   sync.Mutex // guards what follows
	left float64
	at   time.Time
}

// take takes one attempt. When there is none it says when there will be.
func (b *bucket) take(now time.Time, perMinute float64) time.Duration {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(perMinute, b.left+now.Sub(b.at).Minutes()*perMinute)
	b.at = now
	if b.left < 1 {
		return time.Duration((1 - b.left) / perMinute * float64(time.Minute))
	}
	b.left--
	return 0
}

func (b *bucket) giveBack() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left++
}
