package auth

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// oracle knows the tokens that begin with good, and counts how often it is asked.
type oracle struct {
	asked atomic.Int64
	away  bool
}

func (*oracle) Name() string { return "oracle" }

func (o *oracle) Authenticate(_ context.Context, token string) (Identity, time.Time, error) {
	o.asked.Add(1)
	switch {
	case o.away:
		return Identity{}, time.Time{}, errors.New("away")
	case strings.HasPrefix(token, "good"):
		return Identity{Username: token}, time.Time{}, nil
	}
	return Identity{}, time.Time{}, ErrUnknown
}

func from(t *testing.T, address string) context.Context {
	return WithAddress(t.Context(), netip.MustParseAddr(address))
}

func isLimited(err error) bool {
	_, limited := errors.AsType[*TooManyError](err)
	return limited
}

func TestGuessingIsLimitedByAddress(t *testing.T) {
	now := time.Now()
	upstream := &oracle{}
	guard := newGuard(upstream, 10, func() time.Time { return now })
	guess := func(address, token string) error {
		_, _, err := guard.Authenticate(from(t, address), token)
		return err
	}
	if err := guess("192.0.2.1", "good-old"); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := guess("192.0.2.1", fmt.Sprint("bad", i)); !errors.Is(err, ErrUnknown) {
			t.Fatalf("attempt %d: %v", i, err)
		}
	}
	asked := upstream.asked.Load()
	err := guess("192.0.2.1", "bad")
	if limited, ok := errors.AsType[*TooManyError](err); !ok || limited.Wait <= 0 || limited.Wait > 6*time.Second {
		t.Errorf("one too many: %v", err)
	}
	if err := guess("192.0.2.1", "good-new"); !isLimited(err) {
		t.Errorf("a token that nobody has seen: %v", err)
	}
	if upstream.asked.Load() != asked {
		t.Error("the provider was asked")
	}
	if err := guess("192.0.2.1", "good-old"); err != nil {
		t.Errorf("a token that was good lately: %v", err)
	}
	if err := guess("192.0.2.2", "good-new"); err != nil {
		t.Errorf("another address: %v", err)
	}
	now = now.Add(6 * time.Second)
	if err := guess("192.0.2.1", "bad"); !errors.Is(err, ErrUnknown) {
		t.Errorf("after a while: %v", err)
	}
	if err := guess("192.0.2.1", "bad"); !isLimited(err) {
		t.Errorf("after a while, twice: %v", err)
	}
	now = now.Add(time.Hour)
	for i := range 11 {
		if err := guess("192.0.2.1", "bad"); isLimited(err) != (i == 10) {
			t.Errorf("an hour later, attempt %d: %v", i, err)
		}
	}
}

func TestManyGuessesAtOnceAreNoWayAroundTheLimit(t *testing.T) {
	upstream := &oracle{away: true}
	now := time.Now()
	guard := newGuard(upstream, 5, func() time.Time { return now })
	var guesses sync.WaitGroup
	for i := range 200 {
		guesses.Go(func() {
			// One host has a whole network of addresses in IPv6.
			_, _, _ = guard.Authenticate(from(t, fmt.Sprintf("2001:db8::%x", i+1)), fmt.Sprint(i))
		})
	}
	guesses.Wait()
	if asked := upstream.asked.Load(); asked != 5 {
		t.Errorf("the provider was asked %d times", asked)
	}
}

func TestGoodTokensCostNothing(t *testing.T) {
	guard := NewGuard(&oracle{}, 2)
	for i := range 100 {
		if _, _, err := guard.Authenticate(from(t, "192.0.2.1"), fmt.Sprint("good", i)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheGuardForgets(t *testing.T) {
	guard := NewGuard(&oracle{}, 2)
	for i := range guardSize + 100 {
		_, _, _ = guard.Authenticate(from(t, fmt.Sprintf("10.%d.%d.1", i>>8, i&255)), "bad")
	}
	if known := len(guard.addresses.Keys()); known > guardSize {
		t.Errorf("it knows %d addresses", known)
	}
}
