package build

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/build/install"
)

// observeEvery is how often a Job is looked at.
const observeEvery = time.Second

// installation is a Job and those who need its result.
type installation struct {
	spec   install.Spec
	ticket *ticket // its wish for a place, and then its place
	ctx    context.Context
	cancel context.CancelFunc

	waiters map[*work]bool // guarded by Service.mu

	done chan struct{} // closed when it has ended; what follows may be read then
	err  *fault.Error
	// abandoned says that it was cancelled for want of waiters; somebody who came to wait meanwhile needs another.
	abandoned bool
}

// await has a Job run: one that others wait for already, or a new one.
func (s *Service) await(w *work, spec install.Spec) *fault.Error {
	var shared *installation
	defer func() {
		if shared.spec.Parcel != spec.Parcel {
			s.release(spec) // that Job got the files of another
		}
	}()
	for {
		shared = s.share(w, spec)
		select {
		case <-shared.done:
		case <-w.ctx.Done():
		}
		s.leave(w, shared)
		switch {
		case w.ctx.Err() != nil:
			return fault.As(w.ctx.Err(), v1alpha1.ReasonBuilding)
		case !shared.abandoned:
			return shared.err
		}
	}
}

func (s *Service) share(w *work, spec install.Spec) *installation {
	s.mu.Lock()
	shared := s.installs[spec.Key]
	if shared == nil {
		shared = &installation{spec: spec, ticket: s.jobPlaces.join(spec.Namespace), waiters: map[*work]bool{}, done: make(chan struct{})}
		shared.ctx, shared.cancel = context.WithCancel(s.ctx)
		s.installs[spec.Key] = shared
		s.all.Go(func() { s.install(shared) })
	}
	shared.waiters[w] = true
	w.shared = shared
	s.mu.Unlock()
	s.tellPlace(w)
	if isClosed(shared.ticket.ready) {
		s.stepJob(w, spec)
	}
	return shared
}

func (s *Service) stepJob(w *work, spec install.Spec) {
	step := Pushing
	if spec.Installer != "" {
		step = Installing
	}
	s.step(w, step, install.JobName(spec.Key))
}

// unshare forgets which installation the work waited for: until its try has ended, the result is needed.
func (s *Service) unshare(w *work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.shared = nil
}

// leave ends an installation with its last waiter.
func (s *Service) leave(w *work, shared *installation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(shared.waiters, w)
	if len(shared.waiters) == 0 {
		shared.cancel()
	}
}

// install runs a Job and takes it away. When the process ends before the Job, the Job is left for the next process to adopt.
func (s *Service) install(shared *installation) {
	shared.err, shared.abandoned = s.runJob(shared)
	if s.ctx.Err() == nil {
		s.discard(shared.spec)
	}
	s.mu.Lock()
	delete(s.installs, shared.spec.Key) // only now: a new Job of this key must not meet the old one's remains
	s.mu.Unlock()
	shared.cancel()
	close(shared.done)
}

func (s *Service) runJob(shared *installation) (failure *fault.Error, abandoned bool) {
	if err := shared.ticket.wait(shared.ctx); err != nil {
		return nil, true
	}
	defer shared.ticket.leave()
	for _, w := range s.waiters(shared) {
		s.stepJob(w, shared.spec)
	}
	if err := s.jobs.Ensure(shared.ctx, shared.spec); err != nil {
		return fault.As(err, v1alpha1.ReasonBuildFailed), shared.ctx.Err() != nil
	}
	for sleep(shared.ctx, observeEvery) {
		progress, err := s.jobs.Observe(shared.ctx, shared.spec.Key, time.Now())
		switch {
		case err != nil:
			logger().V(1).Info("The build Job can't be looked at", "key", shared.spec.Key, "cause", err.Error())
		case progress.Done:
			return progress.Err, false
		default:
			s.trouble(shared, progress.Err)
		}
	}
	return nil, true
}

// trouble shows what keeps a Job from going on to all who wait for it; nil when nothing does.
func (s *Service) trouble(shared *installation, trouble *fault.Error) {
	for _, w := range s.waiters(shared) {
		s.change(w, func(state *State) {
			if state.Phase == Building {
				state.Error = trouble
			}
		})
	}
}

func (s *Service) waiters(shared *installation) []*work {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(shared.waiters))
}
