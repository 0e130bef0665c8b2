package backend

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func full(t *testing.T, maxWaiting int) (*Pool, *Endpoint) {
	t.Helper()
	pods := newPods()
	pods.set("a", Answer{Healthy: true, Revision: "r1"})
	p := NewPool(pods, maxWaiting, NewRoom(1000))
	p.SetLimit(1)
	p.SetTargets([]Target{ready("a")}, "")
	e, err := p.Try(nil)
	if err != nil {
		t.Fatal(err)
	}
	return p, e
}

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, held := full(t, 10)
		defer p.Close()
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				e, err := p.Wait(t.Context(), time.Now().Add(time.Hour))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Second)
				p.Release(e)
			})
			synctest.Wait()
		}
		p.Release(held)
		if _, err := p.Try(nil); !errors.Is(err, ErrBusy) {
			t.Errorf("somebody overtakes: %v", err)
		}
		all.Wait()
		check(t, "order", []int{0, 1, 2, 3, 4}, order)
	})
}

func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, held := full(t, 2)
		defer p.Close()
		began := time.Now()
		_, err := p.Wait(t.Context(), began.Add(3*time.Second))
		check(t, "at the deadline", []any{ErrBusy.Error(), 3 * time.Second}, []any{err.Error(), time.Since(began)})

		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		for range 2 {
			go func() {
				_, err := p.Wait(ctx, time.Now().Add(time.Hour))
				left <- err
			}()
		}
		synctest.Wait()
		_, err = p.Wait(t.Context(), time.Now().Add(time.Hour))
		check(t, "with a full queue", ErrBusy.Error(), err.Error())
		cancel()
		for range 2 {
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Errorf("caller gone: %v", err)
			}
		}
		_, waiting := p.Load()
		check(t, "left waiting", 0, waiting)

		p.SetTargets(nil, "")
		_, err = p.Wait(t.Context(), time.Now().Add(time.Second))
		check(t, "with no endpoint", ErrNone.Error(), err.Error())
		p.Release(held)
	})
}

// One room bounds the queues of all pools together.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := NewRoom(2)
		waits := make(chan error)
		wait := func(p *Pool, ctx context.Context) {
			_, err := p.Wait(ctx, time.Now().Add(time.Hour))
			waits <- err
		}
		a, b := NewPool(newPods(), 10, room), NewPool(newPods(), 10, room)
		defer a.Close()
		defer b.Close()
		ctx, cancel := context.WithCancel(t.Context())
		go wait(a, ctx)
		go wait(b, ctx)
		synctest.Wait()
		check(t, "waiting", 2, room.Waiting())
		for _, p := range []*Pool{a, b} {
			go wait(p, ctx)
			check(t, "when the room is full", ErrCrowded.Error(), (<-waits).Error())
		}
		cancel()
		<-waits
		<-waits
		check(t, "in the end", 0, room.Waiting())
		go wait(a, t.Context())
		synctest.Wait()
		check(t, "waiting again", 1, room.Waiting())
		a.Close()
		check(t, "of a function that goes", ErrNone.Error(), (<-waits).Error())
	})
}

func TestCloseSendsWaitersAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, held := full(t, 2)
		left := make(chan error)
		go func() {
			_, err := p.Wait(t.Context(), time.Now().Add(time.Hour))
			left <- err
		}()
		synctest.Wait()
		p.Close()
		check(t, "error", ErrNone.Error(), (<-left).Error())
		p.Release(held)
		if _, err := p.Wait(t.Context(), time.Now().Add(time.Hour)); !errors.Is(err, ErrNone) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestMoreReplicasServeThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, held := full(t, 10)
		defer p.Close()
		got := make(chan string)
		for range 3 {
			go func() {
				e, err := p.Wait(t.Context(), time.Now().Add(time.Hour))
				if err != nil {
					t.Error(err)
					got <- ""
					return
				}
				got <- e.Address
			}()
		}
		synctest.Wait()
		p.SetTargets([]Target{ready("a"), ready("b")}, "")
		check(t, "first", "b", <-got)
		p.SetLimit(2)
		second, third := <-got, <-got
		if second == third {
			t.Errorf("both at %s, which may have two", second)
		}
		p.Release(held)
	})
}

// TestNothingIsLost lets many requests wait, give up, leave and release at once, and counts that no endpoint is lost or given twice.
func TestNothingIsLost(t *testing.T) {
	const limit = 3
	p := NewPool(newPods(), 20, NewRoom(1000))
	defer p.Close()
	p.SetLimit(limit)
	p.SetTargets([]Target{ready("a"), ready("b")}, "")
	var inUse [2]atomic.Int32
	var served atomic.Int32
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(300))*time.Microsecond)
				e, err := p.Wait(ctx, time.Now().Add(time.Duration(rand.IntN(300))*time.Microsecond))
				cancel()
				if err != nil {
					continue
				}
				served.Add(1)
				now := inUse[e.Address[0]-'a'].Add(1)
				if now > limit {
					t.Errorf("%d calls at %s", now, e.Address)
				}
				time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
				inUse[e.Address[0]-'a'].Add(-1)
				p.Release(e)
			}
		})
	}
	all.Wait()
	if inFlight, waiting := p.Load(); inFlight != 0 || waiting != 0 || served.Load() == 0 {
		t.Errorf("%d in flight, %d waiting, %d served", inFlight, waiting, served.Load())
	}
	check(t, "free in the end", map[string]int{"a": limit, "b": limit, ErrBusy.Error(): 1}, chosen(t, p, 2*limit+1))
}
