package build

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/naeel/sless/operator/internal/build/install"
)

func granted(t *ticket) bool { return isClosed(t.ready) }

func TestNoNamespaceHoldsMoreThanItsShare(t *testing.T) {
	q := newQueue(4, 2)
	var busy []*ticket
	for range 100 {
		busy = append(busy, q.join("busy"))
	}
	if !granted(busy[0]) || !granted(busy[1]) || granted(busy[2]) {
		t.Error("the busy namespace does not hold its share")
	}
	quiet := q.join("quiet")
	if !granted(quiet) {
		t.Errorf("the other's first waits at place %d", quiet.position())
	}
	quiet.leave()
	if granted(busy[2]) {
		t.Error("the busy namespace holds more than its share")
	}
	if busy[0].leave(); !granted(busy[2]) || granted(busy[3]) {
		t.Error("a place was not passed on")
	}
}

func TestWhoHoldsFewerComesFirst(t *testing.T) {
	q := newQueue(4, 4)
	leaver := q.join("c")
	for _, namespace := range []string{"a", "a", "b"} {
		q.join(namespace)
	}
	a, b := q.join("a"), q.join("b")
	if a.position() != 2 || b.position() != 1 {
		t.Errorf("positions %d and %d", a.position(), b.position())
	}
	if leaver.leave(); granted(a) || !granted(b) {
		t.Error("the place went to who holds more")
	}
}

// As long as nobody joins, everybody's turn comes when the position said.
func TestPositionsComeTrue(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		q := newQueue(1, 1)
		holder := q.join(fmt.Sprint("ns", random.IntN(4)))
		var waiting []*ticket
		for range random.IntN(12) {
			waiting = append(waiting, q.join(fmt.Sprint("ns", random.IntN(4))))
		}
		if len(waiting) > 0 && random.IntN(2) == 0 { // one that gives up
			waiting[0].leave()
			waiting = waiting[1:]
		}
		slices.SortFunc(waiting, func(a, b *ticket) int { return a.position() - b.position() })
		for i, next := range waiting {
			if next.position() != 1 {
				t.Fatalf("seed %d: ticket %d has position %d", seed, i, next.position())
			}
			if holder.leave(); !granted(next) || next.position() != 0 {
				t.Fatalf("seed %d: ticket %d has no place in its turn", seed, i)
			}
			holder = next
		}
	}
}

// Namespaces that come again and again with one build each do not keep a long line from moving.
func TestNobodyStarves(t *testing.T) {
	q := newQueue(1, 1)
	holder := q.join("a")
	var line []*ticket
	for range 10 {
		line = append(line, q.join("patient"))
	}
	next := q.join("b")
	for turn := range 30 {
		again := q.join(holder.namespace)
		holder.leave()
		switch {
		case granted(line[0]):
			holder = line[0]
			line = line[1:]
			if len(line) == 0 {
				return
			}
			again.leave()
		case granted(next):
			holder, next = next, again
		case granted(again):
			holder = again
		default:
			t.Fatalf("turn %d: nobody has the place", turn)
		}
	}
	t.Errorf("%d of the patient are left", len(line))
}

// A namespace with many builds does not hold up the first of another, and those who wait know their place.
func TestWorkIsBoundedAndFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.slow = 10 * time.Second
		s, end := begin(t, w, 1)
		defer end()
		var all []Request
		for i := range 100 {
			all = append(all, request("busy", fmt.Sprint("f", i), "v1"))
			if state := s.Ensure(t.Context(), all[i]); state.Step != Queued || state.Position != i {
				t.Fatalf("build %d: %+v", i, state)
			}
		}
		other := request("quiet", "g", "v1")
		if state := s.Ensure(t.Context(), other); state.Step != Queued || state.Position != 1 {
			t.Errorf("the other namespace: %+v", state)
		}
		if state := after(s, positionEvery+time.Second, all[4]); state.Position != 5 {
			t.Errorf("the fifth, behind the other namespace: %+v", state)
		}
		if state := after(s, 2*w.slow, other); state.Phase != Done {
			t.Errorf("the other namespace was not served in turn: %q", w.log)
		}
		if after(s, 100*w.slow, other); w.count("attempt f99 v1") != 1 {
			t.Error("the last was not served")
		}
	})
}

// Places in a queue cost few events, however long it is.
func TestPlacesAreToldSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.slow = time.Minute
		s := newService(w, w, testBuild(1))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if err := s.Start(ctx); err != nil {
				t.Error(err)
			}
		})
		const builds = 500
		for i := range builds {
			s.Ensure(ctx, request("ns", fmt.Sprint("f", i), "v1"))
		}
		last := Owner{"ns", fmt.Sprint("f", builds-1)}
		var told []int
		for {
			if owner := <-s.Events(); owner == last {
				state := s.Ensure(ctx, request("ns", last.Name, "v1"))
				if state.Phase == Done {
					break
				}
				told = append(told, state.Position)
			}
		}
		if want := []int{249, 124, 62, 31, 15, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}; !slices.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
		cancel()
		all.Wait()
	})
}

// An installation that has no place for its Job yet is in a queue too, and says so to all who wait for it.
func TestJobsWaitInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.jobTime = time.Minute
		s, end := begin(t, w, 2) // one of them for a namespace
		defer end()
		first, second, same := request("ns", "a", "deps:x"), request("ns", "b", "deps:y"), request("ns", "c", "deps:y")
		s.Ensure(t.Context(), first)
		after(s, 3*time.Second, first)
		s.Ensure(t.Context(), second)
		s.Ensure(t.Context(), same)
		other := request("other", "d", "deps:z")
		s.Ensure(t.Context(), other)
		for name, test := range map[string]struct {
			request  Request
			step     Step
			position int
			job      string
		}{
			"first": {first, Installing, 0, install.JobName("deps:x")}, "second": {second, Queued, 1, ""}, "with the second": {same, Queued, 1, ""},
			"of another namespace": {other, Installing, 0, install.JobName("deps:z")},
		} {
			if state := after(s, 3*time.Second, test.request); state.Step != test.step || state.Position != test.position || state.JobName != test.job {
				t.Errorf("%s: %+v", name, state)
			}
		}
		for _, r := range []Request{second, same} {
			if state := after(s, 50*time.Second, r); state.Step != Installing || state.JobName != install.JobName("deps:y") || state.Position != 0 {
				t.Errorf("in their turn: %+v", state)
			}
		}
		if state := after(s, 2*time.Minute, same); state.Phase != Done {
			t.Errorf("at last: %+v", state)
		}
	})
}
