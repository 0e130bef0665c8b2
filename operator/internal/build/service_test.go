package build

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/build/install"
	"github.com/naeel/sless/operator/internal/build/registry"
)

func TestEnsureBuildsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, end := begin(t, w, 4)
		defer end()
		r := request("ns", "hello", "v1")
		if state := s.Ensure(t.Context(), r); state.Phase != Building || state.Started.IsZero() {
			t.Errorf("at first %+v", state)
		}
		if state := after(s, w.slow/2, r); state.Phase != Building || state.Step != Fetching {
			t.Errorf("under way %+v", state)
		}
		if state := after(s, w.slow, r); state.Phase != Done || state.Result.Image != "image of v1" {
			t.Errorf("at last %+v", state)
		}
		after(s, time.Hour, r)
		if n := w.count("attempt hello v1"); n != 1 {
			t.Errorf("%d attempts", n)
		}
	})
}

func TestNewRequestReplacesTheOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, end := begin(t, w, 4)
		defer end()
		s.Ensure(t.Context(), request("ns", "hello", "v1"))
		if state := after(s, w.slow/2, request("ns", "hello", "v2")); state.Phase != Building || state.Result != nil {
			t.Errorf("got %+v", state)
		}
		if state := after(s, 2*w.slow, request("ns", "hello", "v2")); state.Phase != Done || state.Result.Image != "image of v2" {
			t.Errorf("got %+v", state)
		}
		if w.count("cut short hello v1") != 1 {
			t.Errorf("the first went on: %q", w.log)
		}
	})
}

func TestTransientTroubleIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var away atomic.Bool
		away.Store(true)
		w.fails = func(Request) error {
			if away.Load() {
				return fault.Transient(v1alpha1.ReasonRegistryUnavailable, "away")
			}
			return nil
		}
		s, end := begin(t, w, 4)
		defer end()
		r := request("ns", "hello", "v1")
		s.Ensure(t.Context(), r)
		state := after(s, time.Minute, r)
		if state.Phase != Building || state.Error == nil || state.Error.Reason != v1alpha1.ReasonRegistryUnavailable || state.RetryAt.IsZero() {
			t.Errorf("while it is away %+v", state)
		}
		if n := w.count("attempt hello v1"); n < 3 || n > 10 {
			t.Errorf("%d attempts in a minute", n)
		}
		away.Store(false)
		if state := after(s, time.Minute, r); state.Phase != Done || state.Error != nil {
			t.Errorf("when it is back %+v", state)
		}
	})
}

func TestTerminalErrorHealsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var missing atomic.Bool
		missing.Store(true)
		w.fails = func(Request) error {
			if missing.Load() {
				return fault.Terminal(v1alpha1.ReasonSourceNotFound, "no such object")
			}
			return nil
		}
		s, end := begin(t, w, 4)
		defer end()
		r := request("ns", "hello", "v1")
		s.Ensure(t.Context(), r)
		for range 100 { // also while it is tried again
			if state := after(s, 2*w.slow+time.Millisecond, r); state.Phase != Failed || state.Error.Reason != v1alpha1.ReasonSourceNotFound {
				t.Fatalf("got %+v", state)
			}
		}
		missing.Store(false)
		if state := after(s, 2*time.Minute, r); state.Phase != Done {
			t.Errorf("after it was mended %+v", state)
		}
	})
}

func TestTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.slow = time.Hour
		s, end := begin(t, w, 4)
		defer end()
		r := request("ns", "hello", "v1")
		r.TimeoutSeconds = 10
		s.Ensure(t.Context(), r)
		if state := after(s, 11*time.Second, r); state.Phase != Failed || state.Error.Reason != v1alpha1.ReasonBuildTimeout {
			t.Errorf("got %+v", state)
		}
	})
}

func TestInstallIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, end := begin(t, w, 4)
		defer end()
		a, b := request("ns", "a", "deps:x"), request("ns", "b", "deps:x")
		s.Ensure(t.Context(), a)
		s.Ensure(t.Context(), b)
		if state := after(s, 3*time.Second, a); state.Step != Installing || state.JobName != install.JobName("deps:x") {
			t.Errorf("got %+v", state)
		}
		for _, r := range []Request{a, b} {
			if state := after(s, 20*time.Second, r); state.Phase != Done {
				t.Errorf("%s: %+v", r.Owner.Name, state)
			}
		}
		for line, want := range map[string]int{"job deps:x": 1, "delete deps:x": 1, "release deps:x": 1} {
			if n := w.count(line); n != want {
				t.Errorf("%q %d times, want %d", line, n, want)
			}
		}
	})
}

// Dependencies and code by Jobs, one after the other; every attempt's parcel goes, whoever's the shared Job got.
func TestImagesByJobsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.parcels = true
		s, end := begin(t, w, 4)
		defer end()
		a, b := request("ns", "a", "deps:x"), request("ns", "b", "deps:x")
		s.Ensure(t.Context(), a)
		s.Ensure(t.Context(), b)
		if state := after(s, 3*time.Second, a); state.Step != Installing || state.JobName != install.JobName("deps:x") {
			t.Errorf("at first %+v", state)
		}
		if state := after(s, 12*time.Second, a); state.Step != Pushing || state.JobName != install.JobName("image:a") {
			t.Errorf("then %+v", state)
		}
		for _, r := range []Request{a, b} {
			if state := after(s, 30*time.Second, r); state.Phase != Done {
				t.Errorf("%s: %+v", r.Owner.Name, state)
			}
		}
		for _, line := range []string{
			"job deps:x", "job image:a", "job image:b", "delete deps:x", "delete image:a", "delete image:b",
			"release deps:x of a", "release deps:x of b", "release image:a of a", "release image:b of b",
		} {
			if n := w.count(line); n != 1 {
				t.Errorf("%q %d times: %q", line, n, w.log)
			}
		}
	})
}

func TestFailedInstallIsTriedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.outcome["deps:x"] = &fault.Error{Reason: v1alpha1.ReasonDependenciesFailed, Message: "no", Terminal: true, LogTail: "pip says no"}
		s, end := begin(t, w, 4)
		defer end()
		r := request("ns", "a", "deps:x")
		s.Ensure(t.Context(), r)
		if state := after(s, 30*time.Second, r); state.Phase != Failed || state.Error.LogTail != "pip says no" {
			t.Errorf("got %+v", state)
		}
		after(s, time.Hour, r)
		if n := w.count("job deps:x"); n < 2 || n > 8 {
			t.Errorf("%d Jobs in an hour", n)
		}
		w.mu.Lock()
		w.outcome["deps:x"] = nil
		w.mu.Unlock()
		if state := after(s, time.Hour, r); state.Phase != Done {
			t.Errorf("after it was mended %+v", state)
		}
	})
}

// New credentials, or more time, are tried at once: they may be what it failed for.
func TestFailureIsTriedAgainWithWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.outcome["deps:x"] = fault.Terminal(v1alpha1.ReasonDependenciesFailed, "401")
		s, end := begin(t, w, 4)
		defer end()
		r := request("ns", "a", "deps:x")
		s.Ensure(t.Context(), r)
		after(s, time.Hour, r)
		w.mu.Lock()
		w.outcome["deps:x"] = nil
		w.mu.Unlock()
		jobs := w.count("job deps:x")
		r.Index = &Index{SecretName: "index", Files: install.Index{"netrc": []byte("machine x password y")}}
		if state := s.Ensure(t.Context(), r); state.Phase != Building {
			t.Errorf("at once %+v", state)
		}
		if state := after(s, w.jobTime+5*w.slow, r); state.Phase != Done || w.count("job deps:x") != jobs+1 {
			t.Errorf("then %+v, and %d Jobs more", state, w.count("job deps:x")-jobs)
		}
	})
}

func TestUnneededInstallIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.jobTime = time.Hour
		s, end := begin(t, w, 4)
		defer end()
		a, b := request("ns", "a", "deps:x"), request("ns", "b", "deps:x")
		s.Ensure(t.Context(), a)
		s.Ensure(t.Context(), b)
		after(s, 5*time.Second, a)
		s.Forget(a.Owner)
		if after(s, 5*time.Second, b); w.count("delete deps:x") != 0 {
			t.Error("cancelled while it was needed")
		}
		s.Remove(b.Owner, true)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if w.count("delete deps:x") != 1 || w.count("forget b true") != 1 {
			t.Errorf("left behind: %q", w.log)
		}
		if len(s.works) != 0 || len(s.installs) != 0 {
			t.Errorf("kept %d works, %d installs", len(s.works), len(s.installs))
		}
	})
}

func TestInterruptedInstallIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, end := begin(t, w, 4)
		r := request("ns", "a", "deps:x")
		s.Ensure(t.Context(), r)
		time.Sleep(5 * time.Second)
		end()
		if w.count("delete deps:x") != 0 {
			t.Error("the Job went with the process")
		}
		s, end = begin(t, w, 4)
		defer end()
		s.Ensure(t.Context(), r)
		if state := after(s, 20*time.Second, r); state.Phase != Done {
			t.Errorf("got %+v", state)
		}
		if w.count("job deps:x") != 1 || w.count("delete deps:x") != 1 {
			t.Errorf("got %q", w.log)
		}
	})
}

func TestStrayJobsAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.jobTime = time.Hour
		w.jobs["stray"] = true
		s, end := begin(t, w, 4)
		defer end()
		r := request("ns", "a", "deps:x")
		s.Ensure(t.Context(), r)
		after(s, sweepEvery+time.Second, r)
		if w.count("delete stray") != 0 {
			t.Error("swept before its functions could ask for it")
		}
		after(s, sweepEvery, r)
		if w.count("delete stray") != 1 || w.count("release stray") != 1 || w.count("delete deps:x") != 0 {
			t.Errorf("got %q", w.log)
		}
	})
}

func TestRemoveWaitsAndIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, end := begin(t, w, 4)
		defer end()
		r := request("ns", "hello", "v1")
		s.Ensure(t.Context(), r)
		time.Sleep(w.slow / 2)
		s.Remove(r.Owner, false)
		synctest.Wait()
		s.Ensure(t.Context(), r) // the function is made again at once
		if state := after(s, 5*w.slow, r); state.Phase != Done {
			t.Errorf("got %+v", state)
		}
		want := []string{"attempt hello v1", "cut short hello v1", "forget hello false", "cut short forget hello", "attempt hello v1"}
		if !slices.Equal(w.log, want) {
			t.Errorf("got %q, want %q", w.log, want)
		}
	})
}

func TestRemoveIsTriedForAWhile(t *testing.T) {
	for name, test := range map[string]struct {
		err      error
		at, most int
	}{
		"away":          {errors.New("away"), 3, 10},
		"never deletes": {fmt.Errorf("x: %w", registry.ErrNoDelete), 1, 1},
		"well":          {nil, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.forgetErr = test.err
				s, end := begin(t, w, 4)
				defer end()
				s.Remove(Owner{"ns", "hello"}, false)
				time.Sleep(time.Hour)
				if n := w.count("forget hello false"); n < test.at || n > test.most {
					t.Errorf("%d attempts", n)
				}
			})
		})
	}
}

// The process is told to go a moment after the Function is gone.
func TestRemoveComesToItsEndBeforeTheProcessDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			slow, lasts time.Duration
			want        []string
		}{
			{time.Second, time.Second, []string{"forget hello false"}},
			{time.Minute, farewell, []string{"forget hello false", "cut short forget hello"}},
		} {
			w := newWorld()
			w.slow = test.slow
			s, end := begin(t, w, 4)
			s.Remove(Owner{"ns", "hello"}, false)
			synctest.Wait()
			told := time.Now()
			end()
			if lasted := time.Since(told); lasted != test.lasts || !slices.Equal(w.log, test.want) {
				t.Errorf("after %s: %q, want %q after %s", lasted, w.log, test.want, test.lasts)
			}
		}
	})
}

func TestRemoveOfTheLastKeepsWhatAnotherNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, end := begin(t, w, 4)
		defer end()
		s.Ensure(t.Context(), request("ns", "new", "v1"))
		s.Remove(Owner{"ns", "old"}, true)
		time.Sleep(time.Minute)
		if w.count("forget old false") != 1 {
			t.Errorf("got %q", w.log)
		}
	})
}

func TestUnfitRegistryEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.unfit = registry.ErrAnonymousPush
		if err := newService(w, w, testBuild(1)).Start(t.Context()); !errors.Is(err, registry.ErrAnonymousPush) {
			t.Errorf("got %v", err)
		}
	})
}

func TestRegistryAwayAtStartIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.unfit = errors.New("away")
		s, end := begin(t, w, 1)
		defer end()
		r := request("ns", "hello", "v1")
		s.Ensure(t.Context(), r)
		if state := after(s, time.Minute, r); state.Phase != Done {
			t.Errorf("got %+v", state)
		}
	})
}

func TestLastingTroubleIsToldOnce(t *testing.T) {
	for name, trouble := range map[string]*fault.Error{
		"transient": fault.Transient(v1alpha1.ReasonRegistryUnavailable, "away"), "terminal": fault.Terminal(v1alpha1.ReasonSourceNotFound, "absent"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.fails = func(Request) error { return trouble }
				s := newService(w, w, testBuild(1))
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				all.Go(func() {
					if err := s.Start(ctx); err != nil {
						t.Error(err)
					}
				})
				s.Ensure(ctx, request("ns", "hello", "v1"))
				events := 0
				for timeout := time.After(time.Hour); ; events++ {
					select {
					case <-s.Events():
						continue
					case <-timeout:
					}
					break
				}
				if n := w.count("attempt hello v1"); events > 2 || n < 10 {
					t.Errorf("%d events of %d attempts", events, n)
				}
				cancel()
				all.Wait()
			})
		})
	}
}

func TestEventsTellOfEveryMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newService(w, w, testBuild(1))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if err := s.Start(ctx); err != nil {
				t.Error(err)
			}
		})
		r := request("ns", "hello", "v1")
		s.Ensure(ctx, r)
		var phases []Phase
		for range 2 { // fetching, done
			if owner := <-s.Events(); owner != r.Owner {
				t.Errorf("event of %v", owner)
			}
			phases = append(phases, s.Ensure(ctx, r).Phase)
		}
		if !slices.Equal(phases, []Phase{Building, Done}) {
			t.Errorf("got %v", phases)
		}
		time.Sleep(time.Hour)
		select {
		case owner := <-s.Events():
			t.Errorf("another event of %v", owner)
		default:
		}
		cancel()
		all.Wait()
	})
}
