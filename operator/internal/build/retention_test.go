package build

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/naeel/sless/operator/internal/build/registry"
)

// Tags of images of function f: the n-th one, and the n-th one upon dependencies.
func tag(n int) string                   { return fmt.Sprintf("f-%020x", n) }
func tagOn(n, dependencies int) string   { return fmt.Sprintf("f-%020x-%032x", n, dependencies) }
func shared(prefix string, n int) string { return fmt.Sprintf("%s%032x", prefix, n) }

func ref(digest string) string { return "registry.example.org/sless-ns@" + digest }

func nothingInUse(context.Context) ([]string, error) { return nil, nil }

// put puts an image into the world for each tag, whose digest is the tag's with another beginning.
func (w *world) put(tags ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tag := range tags {
		w.images[tag] = "sha256:" + tag
	}
}

func (w *world) left() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.images))
}

func pass(duration time.Duration) {
	time.Sleep(duration)
	synctest.Wait()
}

func TestOldImagesGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		others := []string{"by-hand", "g-" + strings.Repeat("0", 20), "f-g-" + strings.Repeat("0", 20)}
		w.put(append(others, tag(1), tag(2), tag(3), tagOn(4, 1), tag(5))...)
		s, end := begin(t, w, 4)
		defer end()
		used := func(context.Context) ([]string, error) { return []string{ref("sha256:" + tag(2)), "busybox"}, nil }
		images := []string{ref("sha256:" + tag(5)), ref("sha256:" + tag(3))}
		s.Retain(Owner{"ns", "f"}, images, used)
		pass(time.Minute)
		want := slices.Sorted(slices.Values(append(others, tag(2), tag(3), tag(5))))
		if got := w.left(); !slices.Equal(got, want) {
			t.Errorf("left %q, want %q", got, want)
		}
		lists := w.count("list ns")
		s.Retain(Owner{"ns", "f"}, slices.Clone(images), nothingInUse) // nothing new
		pass(time.Minute)
		if n := w.count("list ns"); n != lists {
			t.Errorf("looked %d times for nothing", n-lists)
		}
		s.Forget(Owner{"ns", "f"})
		s.Retain(Owner{"ns", "f"}, images[:1], nothingInUse)
		if pass(time.Minute); slices.Contains(w.left(), tag(2)) || slices.Contains(w.left(), tag(3)) {
			t.Errorf("left %q", w.left())
		}
	})
}

// What is in use stays, and goes some time after it is not.
func TestImagesInUseGoLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put(tag(1), tag(2))
		s, end := begin(t, w, 4)
		defer end()
		var used []string
		broken := errors.New("no answer")
		s.Retain(Owner{"ns", "f"}, []string{ref("sha256:" + tag(2))}, func(context.Context) ([]string, error) { return used, broken })
		if pass(time.Minute); len(w.left()) != 2 {
			t.Error("deleted without knowing what is in use")
		}
		used, broken = []string{ref("sha256:" + tag(1))}, nil
		if pass(10 * time.Minute); len(w.left()) != 2 {
			t.Error("deleted while in use")
		}
		used = nil
		if pass(2 * lookEvery); len(w.left()) != 1 {
			t.Error("it stays although nobody uses it")
		}
	})
}

// While anything is built for a function, and until it serves, none of its images goes: the one just pushed is in no list yet.
func TestNothingGoesDuringABuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put(tag(1), tag(2))
		s, end := begin(t, w, 4)
		defer end()
		r := request("ns", "f", "v3")
		s.Retain(r.Owner, []string{ref("sha256:" + tag(2))}, func(context.Context) ([]string, error) { return []string{ref("sha256:" + tag(1))}, nil })
		pass(time.Minute)
		w.slow = 20 * time.Second
		s.Ensure(t.Context(), r)
		s.Retain(r.Owner, []string{ref("sha256:" + tag(2))}, nothingInUse) // too late: it is of the time before
		after(s, time.Minute, r)
		w.put(tag(3))
		s.Forget(r.Owner) // status has it, and its pods do not answer yet
		if pass(2 * lookEvery); len(w.left()) != 3 {
			t.Errorf("left %q", w.left())
		}
		w.slow = time.Second
		s.Retain(r.Owner, []string{ref("sha256:" + tag(3)), ref("sha256:" + tag(2))}, nothingInUse)
		if pass(2 * time.Minute); !slices.Equal(w.left(), []string{tag(2), tag(3)}) {
			t.Errorf("left %q", w.left())
		}
	})
}

// A build that begins while images are deleted waits: what it finds then is what stays.
func TestABuildWaitsForDeletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put(tag(1), tag(2), tag(3))
		s, end := begin(t, w, 4)
		defer end()
		w.slow = 10 * time.Second
		s.Retain(Owner{"ns", "f"}, []string{ref("sha256:" + tag(3))}, nothingInUse)
		pass(pruneEvery + time.Second)
		s.Ensure(t.Context(), request("ns", "f", "v1"))
		pass(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if want := []string{"list ns", "remove " + tag(1), "remove " + tag(2), "attempt f v1"}; !slices.Equal(w.log, want) {
			t.Errorf("got %q, want %q", w.log, want)
		}
	})
}

func TestUnusedDependenciesGoLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		needed, unused, installer := shared(dependencyPrefix, 1), shared(dependencyPrefix, 2), shared(installerPrefix, 3)
		w.put(tagOn(1, 1), needed, unused, installer)
		w.jobTime = 100 * time.Hour
		s, end := begin(t, w, 4)
		defer end()
		wanted := "deps:" + strings.Repeat("0", 31) + "4" // what is being installed is needed
		w.put(dependencyPrefix+wanted, installerPrefix+wanted)
		s.Ensure(t.Context(), request("ns", "g", wanted))
		s.Retain(Owner{"ns", "f"}, []string{ref("sha256:" + tagOn(1, 1))}, nothingInUse)
		if pass(s.keepUnused - time.Hour); len(w.left()) != 6 {
			t.Errorf("gone before its time: left %q", w.left())
		}
		pass(3 * time.Hour)
		if want := slices.Sorted(slices.Values([]string{tagOn(1, 1), needed, dependencyPrefix + wanted, installerPrefix + wanted})); !slices.Equal(w.left(), want) {
			t.Errorf("left %q, want %q", w.left(), want)
		}
		s.Ensure(t.Context(), request("ns", "f", "v2"))
		w.mu.Lock()
		delete(w.images, tagOn(1, 1)) // its last user
		w.mu.Unlock()
		pass(time.Minute)
		s.Retain(Owner{"ns", "f"}, nil, nothingInUse)
		if pass(s.keepUnused + 2*lookEvery); slices.Contains(w.left(), needed) {
			t.Error("it stays although nobody needs it any more")
		}
	})
}

func TestARegistryThatKeepsAllIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put(tag(1), tag(2))
		w.removeErr = fmt.Errorf("delete: %w", registry.ErrNoDelete)
		s, end := begin(t, w, 4)
		defer end()
		s.Retain(Owner{"ns", "f"}, []string{ref("sha256:" + tag(2))}, nothingInUse)
		pass(48 * time.Hour)
		if n := w.count("remove " + tag(1)); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestARegistryThatIsAwayIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put(tag(1), tag(2))
		w.removeErr = errors.New("away")
		s, end := begin(t, w, 4)
		defer end()
		s.Retain(Owner{"ns", "f"}, []string{ref("sha256:" + tag(2))}, nothingInUse)
		pass(10 * time.Minute)
		if n := w.count("remove " + tag(1)); n < 5 || n > 12 {
			t.Errorf("asked %d times in ten minutes", n)
		}
		w.mu.Lock()
		w.removeErr = nil
		w.mu.Unlock()
		if pass(2 * pruneAgain); len(w.left()) != 1 {
			t.Errorf("left %q", w.left())
		}
	})
}
