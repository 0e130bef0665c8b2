package build

import (
	"context"
	"maps"
	"slices"
	"strconv"
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
	ticket  *ticket       // its wish for a place in this process, until that is granted
	shared  *installation // what it waits for, or has waited for in this try
}

// place is the wish for a place by which the work waits, if it does. The caller holds Service.mu.
func (w *work) place() *ticket {
	switch {
	case w.ticket != nil:
		return w.ticket
	case w.shared != nil:
		return w.shared.ticket
	}
	return nil
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
	defer s.unshare(w)
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
	request, ticket, err := s.takePlace(w)
	if err != nil {
		return outcome{}, fault.As(err, v1alpha1.ReasonBuilding)
	}
	defer ticket.leave()
	ctx, cancel := context.WithTimeout(w.ctx, time.Duration(request.TimeoutSeconds)*time.Second)
	defer cancel()
	out, err := s.steps.attempt(ctx, request, func(step Step) { s.step(w, step, "") })
	if err != nil {
		return outcome{}, asFault(ctx, err, request.TimeoutSeconds)
	}
	return out, nil
}

// takePlace waits for a place in this process. Its ticket must leave.
func (s *Service) takePlace(w *work) (Request, *ticket, error) {
	s.mu.Lock()
	if w.ticket == nil { // the first one came with the request
		w.ticket = s.fetches.join(w.owner.Namespace)
	}
	ticket := w.ticket
	s.mu.Unlock()
	s.tellPlace(w)
	err := ticket.wait(w.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	w.ticket = nil
	return w.request, ticket, err
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
			*state = State{Phase: Building, Step: step, JobName: job, Started: state.Started}
		}
	})
}

// positionEvery is how often those who wait are told their place, if it is another.
const positionEvery = 5 * time.Second

func (s *Service) tellPlaces() {
	for sleep(s.ctx, positionEvery) {
		s.mu.Lock()
		works := slices.Collect(maps.Values(s.works))
		s.mu.Unlock()
		for _, w := range works {
			s.tellPlace(w)
		}
	}
}

// tellPlace notes that the work waits for a place, if it does, and which.
func (s *Service) tellPlace(w *work) {
	s.change(w, func(state *State) {
		place := w.place()
		if place == nil || state.Phase != Building || state.Error != nil {
			return
		}
		if position := place.position(); position > 0 && worthTelling(state.Position, position) {
			*state = State{Phase: Building, Step: Queued, Position: position, Started: state.Started}
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
func visible(state State) [6]string {
	seen := [6]string{string(state.Phase), string(state.Step), strconv.Itoa(state.Position), state.JobName}
	if state.Error != nil {
		seen[4], seen[5] = state.Error.Reason, state.Error.Message
	}
	return seen
}
