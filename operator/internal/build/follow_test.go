package build

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

func polled(name string) Request {
	r := request("ns", name, "v1")
	r.Source.S3 = &S3Source{Key: "code.zip", PollInterval: time.Minute}
	return r
}

// listen starts a Service and counts its events, by owner's name.
func listen(t *testing.T, w *world) (s *Service, events func(name string) int) {
	t.Helper()
	s, end := begin(t, w, 4)
	t.Cleanup(end)
	counts := map[string]int{}
	s.follower.notify = func(owner Owner) {
		s.follower.mu.Lock()
		defer s.follower.mu.Unlock()
		counts[owner.Name]++
	}
	return s, func(name string) int {
		synctest.Wait()
		s.follower.mu.Lock()
		defer s.follower.mu.Unlock()
		return counts[name]
	}
}

func TestAChangedSourceIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, events := listen(t, w)
		r := polled("f")
		w.upload("f", "one")
		if state := s.Ensure(t.Context(), r); state.Phase != Building {
			t.Fatalf("got %+v", state)
		}
		built := after(s, 5*time.Second, r)
		if built.Phase != Done || built.Result.Revision != "one" {
			t.Fatalf("got %+v", built)
		}
		if newer := s.Follow(r, "one"); newer != "" {
			t.Errorf("newer than what was just built: %q", newer)
		}
		time.Sleep(10 * time.Minute)
		if looks := w.count("look f"); looks < 9 || looks > 12 || events("f") != 0 {
			t.Errorf("%d looks in ten minutes, %d events", looks, events("f"))
		}

		w.upload("f", "two")
		time.Sleep(2 * time.Minute)
		newer := s.Follow(r, "one")
		if newer != "two" || events("f") != 1 {
			t.Fatalf("newer is %q, %d events", newer, events("f"))
		}
		r.Revision = newer
		for s.Ensure(t.Context(), r).Phase != Done {
			if s.Follow(r, "one") != "two" { // a pass meanwhile disturbs nothing
				t.Error("what was newer is forgotten")
			}
			time.Sleep(time.Second)
		}
		if state := s.Ensure(t.Context(), r); state.Result.Revision != "two" || w.count("attempt f v1") != 2 {
			t.Errorf("got %+v after %d attempts", state.Result, w.count("attempt f v1"))
		}
		r.Revision = ""
		if newer := s.Follow(r, "two"); newer != "" {
			t.Errorf("newer than what was just built: %q", newer)
		}
		time.Sleep(10 * time.Minute)
		if events("f") != 1 || len(s.works) != 0 {
			t.Errorf("%d events, %d works", events("f"), len(s.works))
		}

		w.upload("f", "three")
		time.Sleep(2 * time.Minute)
		w.upload("f", "two")
		time.Sleep(2 * time.Minute)
		if newer := s.Follow(r, "two"); newer != "" || events("f") != 3 {
			t.Errorf("put back, but newer is %q, %d events", newer, events("f"))
		}
	})
}

func TestWhatIsNotThereChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, events := listen(t, w)
		own := polled("own")
		own.Source.S3.Credentials = &S3Credentials{}
		s.Follow(polled("away"), "one")
		s.Follow(own, "one")
		time.Sleep(10 * time.Minute)
		if w.count("look away") == 0 || events("away") != 0 || events("own") != 0 || s.Follow(polled("away"), "one") != "" {
			t.Errorf("%d looks, %d and %d events", w.count("look away"), events("away"), events("own"))
		}
		// Credentials that are refused may be others by now.
		s.follower.look = func(context.Context, Request) (string, error) {
			return "", fault.Terminal(v1alpha1.ReasonSourceNotFound, "refused")
		}
		time.Sleep(2 * time.Minute)
		if events("away") != 0 || events("own") == 0 {
			t.Errorf("%d and %d events", events("away"), events("own"))
		}
	})
}

func TestOnlyWhatIsPolledAndBuiltIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, _ := listen(t, w)
		version, absent := polled("version"), polled("absent")
		version.Source.S3.VersionID = "v1"
		absent.Source.S3.PollInterval = 0
		gone, removed, changed := polled("gone"), polled("removed"), polled("changed")
		for _, r := range []Request{version, absent, gone, removed, changed} {
			w.upload(r.Owner.Name, "one")
			s.Follow(r, "one")
		}
		s.Forget(gone.Owner)
		s.Remove(removed.Owner, false)
		changed.CodeHash = "v2"
		s.Ensure(t.Context(), changed)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for _, name := range []string{"version", "absent", "gone", "removed", "changed"} {
			if looks := w.count("look " + name); looks != 0 {
				t.Errorf("%s: %d looks", name, looks)
			}
		}
	})
}

// A start of the process is no rush, and a slow object store holds up few at a time.
func TestLooksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := listen(t, newWorld())
		looking, most := 0, 0
		s.follower.look = func(ctx context.Context, _ Request) (string, error) {
			s.follower.mu.Lock()
			looking++
			most = max(most, looking)
			s.follower.mu.Unlock()
			sleep(ctx, time.Hour)
			s.follower.mu.Lock()
			looking--
			s.follower.mu.Unlock()
			return "", ctx.Err()
		}
		for i := range 100 {
			s.Follow(polled(fmt.Sprint(i)), "one")
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s.follower.mu.Lock()
		defer s.follower.mu.Unlock()
		if most != mostLooks {
			t.Errorf("%d looks at a time", most)
		}
	})
}
