package build

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/naeel/sless/operator/internal/build/install"
	"github.com/naeel/sless/operator/internal/config"
	"github.com/naeel/sless/operator/internal/testregistry"
)

// pushingJobs are Jobs that have pushed an image of dependencies as soon as they are made.
type pushingJobs struct {
	t    *testing.T
	size int64
}

func (j pushingJobs) Ensure(_ context.Context, spec install.Spec) error {
	image, err := random.Image(j.size, 1)
	if err == nil {
		push(j.t, spec.Destination, image)
	}
	return err
}

func (pushingJobs) Observe(context.Context, string, time.Time) (install.Progress, error) {
	return install.Progress{Done: true}, nil
}

func (pushingJobs) Delete(context.Context, string) error         { return nil }
func (pushingJobs) List(context.Context) ([]install.Left, error) { return nil, nil }

// soakPatience is how long a build, and the deletion of what need not stay, may take: far longer than they do when all is well.
const soakPatience = 5 * time.Minute

// After 200 builds of one function, some of them with new dependencies, a real registry has the images that were used last and what they
// need, and its own garbage collection frees the space of all others.
func TestSoak(t *testing.T) {
	const builds, newDependenciesEvery, keep, size = 200, 20, 5, 64 << 10
	server := testregistry.Start(t, testregistry.Setup{})
	cfg := testConfig(t, server.Host, "http://"+server.Host)
	cfg.Build.KeepUnusedSeconds = 1
	b := &bench{pipeline: newPipeline(t, Append, cfg), host: server.Host, runtime: pushRuntime(t, server.Host)}
	s := newService(b.pipeline, pushingJobs{t, size}, config.Build{MaxConcurrent: 2, MaxConcurrentPerNamespace: 1, KeepUnusedSeconds: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	defer all.Wait()
	defer cancel()

	var used []string
	code := make([]byte, size*3/4)
	for n := range builds {
		rand.Read(code)
		request := b.inline("ns", "f", map[string]string{
			"handler.py": base64.StdEncoding.EncodeToString(code), "requirements.txt": fmt.Sprintf("one==%d\n", n/newDependenciesEvery),
		})
		used = slices.Insert(used, 0, finish(t, s, request).Image)
		used = used[:min(len(used), keep)]
		s.Forget(request.Owner)
		s.Retain(request.Owner, slices.Clone(used), nothingInUse)
	}
	before, blobs := server.Usage(t)
	var tags []string
	for deadline := time.Now().Add(soakPatience); ; time.Sleep(100 * time.Millisecond) {
		var err error
		if tags, err = s.steps.tags(t.Context(), "ns"); err != nil {
			t.Fatal(err)
		}
		if len(tags) == keep+1 { // and the dependencies that all of them have
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d tags are left: %q", len(tags), tags)
		}
	}
	server.CollectGarbage(t)
	after, left := server.Usage(t)
	t.Logf("%d builds: %d blobs of %d KiB; with %d tags left, and the garbage collected, %d blobs of %d KiB", builds, blobs, before>>10, len(tags), left, after>>10)
	if most := int64(keep+2) * size * 5 / 4; after > most {
		t.Errorf("%d bytes are left, want at most %d", after, most)
	}
	for _, image := range used {
		if _, err := b.registry.Resolve(t.Context(), image, "ns", "uid-of-ns"); err != nil {
			t.Errorf("an image that was kept is gone: %v", err)
		}
		if got := files(t, image); len(got) != 2 {
			t.Errorf("an image that was kept has the files %q", got)
		}
	}
}

// finish waits for an image as the controller does.
func finish(t *testing.T, s *Service, request Request) *Result {
	t.Helper()
	for timeout := time.After(soakPatience); ; {
		state := s.Ensure(t.Context(), request)
		if state.Phase == Done {
			return state.Result
		}
		select {
		case <-s.Events():
		case <-timeout:
			t.Fatalf("no image: %+v", state)
		}
	}
}
