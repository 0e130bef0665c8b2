package build

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/build/install"
	"github.com/naeel/sless/operator/internal/config"
)

// world is a registry, a cluster and what goes on in them, in which every image needs the dependencies of its request's CodeHash, if
// that has any: "deps:<key>".
type world struct {
	mu        sync.Mutex
	log       []string
	installed map[string]bool
	jobs      map[string]bool
	outcome   map[string]*fault.Error // of a Job, by key
	slow      time.Duration           // of an attempt
	jobTime   time.Duration
	started   map[string]time.Time
	fails     func(Request) error
	forgetErr error
	unfit     error
	parcels   bool // every image is made by a Job, and files go to it in parcels

	revisions map[string]string // of polled sources, by the function's name; one without can't be looked at
	images    map[string]string // of the namespace ns: digest by tag
	removeErr error
}

func newWorld() *world {
	return &world{installed: map[string]bool{}, jobs: map[string]bool{}, outcome: map[string]*fault.Error{}, revisions: map[string]string{}, started: map[string]time.Time{}, images: map[string]string{}, slow: time.Second, jobTime: 10 * time.Second}
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *world) count(line string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, l := range w.log {
		if l == line {
			n++
		}
	}
	return n
}

func (w *world) revision(_ context.Context, request Request) (string, error) {
	w.note("look %s", request.Owner.Name)
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := w.revisions[request.Owner.Name]; at != "" {
		return at, nil
	}
	return "", fault.Transient(v1alpha1.ReasonObjectStoreUnavailable, "away")
}

// upload changes what a polled source is at.
func (w *world) upload(name, revision string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revisions[name] = revision
}

func (w *world) checkRegistry(context.Context) error { return w.unfit }

func (w *world) attempt(ctx context.Context, request Request, report func(Step)) (outcome, error) {
	report(Fetching)
	w.note("attempt %s %s", request.Owner.Name, request.CodeHash)
	if !sleep(ctx, w.slow) {
		w.note("cut short %s %s", request.Owner.Name, request.CodeHash)
		return outcome{}, ctx.Err()
	}
	if w.fails != nil {
		if err := w.fails(request); err != nil {
			return outcome{}, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if key := request.CodeHash; strings.HasPrefix(key, "deps:") && !w.installed[key] {
		return outcome{job: w.job(request, key, "runtime")}, nil
	}
	if key := "image:" + request.Owner.Name; w.parcels && !w.installed[key] {
		return outcome{job: w.job(request, key, "")}, nil
	}
	return outcome{result: &Result{Image: "image of " + request.CodeHash, Revision: w.revisions[request.Owner.Name]}}, nil
}

func (w *world) job(request Request, key, installer string) *install.Spec {
	job := &install.Spec{Key: key, Namespace: request.Owner.Namespace, Installer: installer}
	if w.parcels {
		job.Parcel = &install.Parcel{Object: "of " + request.Owner.Name}
	}
	return job
}

func (w *world) forget(ctx context.Context, owner Owner, last bool) error {
	w.note("forget %s %v", owner.Name, last)
	if !sleep(ctx, w.slow) {
		w.note("cut short forget %s", owner.Name)
		return ctx.Err()
	}
	return w.forgetErr
}

func (w *world) release(_ context.Context, spec install.Spec) error {
	if spec.Parcel != nil {
		w.note("release %s %s", spec.Key, spec.Parcel.Object)
		return nil
	}
	w.note("release %s", spec.Key)
	return nil
}

func (w *world) tidy(context.Context) error { return nil }

func (w *world) tags(_ context.Context, namespace string) ([]string, error) {
	w.note("list %s", namespace)
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.images)), nil
}

func (w *world) digest(_ context.Context, _, tag string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.images[tag], nil
}

func (w *world) remove(ctx context.Context, _, tag string) error {
	w.note("remove %s", tag)
	if !sleep(ctx, w.slow) {
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.removeErr == nil {
		delete(w.images, tag)
	}
	return w.removeErr
}

func (w *world) Ensure(_ context.Context, spec install.Spec) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.jobs[spec.Key] {
		w.log = append(w.log, "job "+spec.Key)
		w.jobs[spec.Key] = true
		w.started[spec.Key] = time.Now()
	}
	return nil
}

func (w *world) Observe(_ context.Context, key string, now time.Time) (install.Progress, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.jobs[key] {
		return install.Progress{Done: true, Err: fault.Transient(v1alpha1.ReasonBuildFailed, "gone")}, nil
	}
	if now.Sub(w.started[key]) < w.jobTime {
		return install.Progress{}, nil
	}
	err := w.outcome[key]
	w.installed[key] = err == nil
	return install.Progress{Done: true, Err: err}, nil
}

func (w *world) Delete(_ context.Context, key string) error {
	w.note("delete %s", key)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.jobs, key)
	return nil
}

func (w *world) List(context.Context) ([]install.Left, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []install.Left
	for key := range w.jobs {
		left = append(left, install.Left{Key: key})
	}
	return left, nil
}

// testBuild has that many places, half of them for one namespace.
func testBuild(places int) config.Build {
	return config.Build{MaxConcurrent: places, MaxConcurrentPerNamespace: max(1, places/2), KeepUnusedSeconds: 86400}
}

// begin starts a Service in the world; the returned function ends it.
func begin(t *testing.T, w *world, places int) (*Service, func()) {
	t.Helper()
	s := newService(w, w, testBuild(places))
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.Start(ctx); err != nil {
			t.Errorf("Start: %v", err)
		}
	})
	all.Go(func() {
		for {
			select {
			case <-s.Events():
			case <-ctx.Done():
				return
			}
		}
	})
	return s, func() { cancel(); all.Wait() }
}

func request(namespace, name, code string) Request {
	return Request{Owner: Owner{namespace, name}, CodeHash: code, TimeoutSeconds: 300}
}

// after lets time pass and says how the request is then.
func after(s *Service, duration time.Duration, r Request) State {
	time.Sleep(duration)
	synctest.Wait()
	return s.Ensure(context.Background(), r)
}
