package build

import (
	"context"
	"time"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// work is what is done for one owner: an image for a request, or the removal of its images.
type work struct {
	owner  Owner
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended

	// Guarded by Service.mu.
	key     string
	request Request
	state   State
	ticket  *ticket // while in the queue or at work
}

// errNotMade says that an image which was just made is not there.
var errNotMade = fault.Transient(v1alpha1.ReasonRegistryUnavailable, "the registry does not have the image that was just pushed; it is made again")

// run makes attempts until there is an image.
func (s *Service) run(w *work) {
	for failures := 0; w.ctx.Err() == nil; failures++ {
		result, costly, err := s.try(w)
		switch {
		case w.ctx.Err() != nil:
			return
		case err == nil:
			s.finish(w, result)
			return
		}
		pause := pauseAfter(err, costly, failures)
		s.fail(w, err, time.Now().Add(pause))
		sleep(w.ctx, pause)
	}
}

// try makes one attempt, and after a Job that it asked for another. costly says that a Job was run for the error.
func (s *Service) try(w *work) (result *Result, costly bool, err *fault.Error) {
	ran := map[string]bool{}
	for {
		out, err := s.attempt(w)
		switch {
		case err != nil || out.job == nil:
			return out.result, costly, err
		case ran[out.job.Key]:
			s.release(*out.job)
			return nil, true, errNotMade
		}
		ran[out.job.Key], costly = true, true
		if err := s.await(w, *out.job); err != nil {
			return nil, true, err
		}
	}
}

// attempt waits for a place and does what can be done in this process.
func (s *Service) attempt(w *work) (outcome, *fault.Error) {
	s.mu.Lock()
	w.ticket = s.fetches.join(w.owner.Namespace)
	ticket := w.ticket
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		w.ticket = nil
		s.mu.Unlock()
	}()
	if err := s.fetches.wait(w.ctx, ticket); err != nil {
		return outcome{}, fault.As(err, v1alpha1.ReasonBuilding)
	}
	defer s.fetches.leave(ticket)
	s.mu.Lock()
	request := w.request
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.ctx, time.Duration(request.TimeoutSeconds)*time.Second)
	defer cancel()
	out, err := s.steps.attempt(ctx, request, func(step Step) { s.step(w, step, "") })
	if err != nil {
		return outcome{}, asFault(ctx, err, request.TimeoutSeconds)
	}
	return out, nil
}

// pauseAfter is how long the next attempt waits. What only a change can mend is tried slowly, and slower still what costs a Job.
func pauseAfter(err *fault.Error, costly bool, failures int) time.Duration {
	switch {
	case costly && err.Terminal:
		return backoff(failures, time.Minute, 30*time.Minute)
	case costly:
		return backoff(failures, 5*time.Second, 10*time.Minute)
	case err.Terminal:
		return backoff(failures, 5*time.Second, time.Minute)
	}
	return backoff(failures, time.Second, 30*time.Second)
}

// step notes what the work does. An error stays in sight until an attempt has come further, so that trouble which lasts is told of
// once and not with every attempt.
func (s *Service) step(w *work, step Step, job string) {
	s.change(w, func(state *State) {
		further := job != ""
		if state.Phase == Building && (state.Error == nil || further) {
			state.Step, state.JobName, state.Error, state.RetryAt = step, job, nil, time.Time{}
		}
	})
}

func (s *Service) finish(w *work, result *Result) {
	s.change(w, func(state *State) {
		*state = State{Phase: Done, Started: state.Started, Result: result}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	w.request = Request{} // the code need not stay in memory
}

func (s *Service) fail(w *work, err *fault.Error, retryAt time.Time) {
	s.change(w, func(state *State) {
		phase := Building
		if err.Terminal {
			phase = Failed
		}
		*state = State{Phase: phase, Step: Queued, Started: state.Started, Error: err, RetryAt: retryAt}
	})
}

// change changes a work's state and says so to whoever listens, when what can be seen is another.
func (s *Service) change(w *work, change func(*State)) {
	s.mu.Lock()
	before := w.state
	change(&w.state)
	moved := visible(before) != visible(w.state)
	s.mu.Unlock()
	if moved {
		s.events.notify(w.owner)
	}
}

// visible is what of a state is worth an event.
func visible(state State) [5]string {
	seen := [5]string{string(state.Phase), string(state.Step), state.JobName}
	if state.Error != nil {
		seen[3], seen[4] = state.Error.Reason, state.Error.Message
	}
	return seen
}
