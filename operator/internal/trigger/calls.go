package trigger

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
)

// Outcome is how a call ended.
type Outcome struct {
	Result  v1alpha1.RunResult
	Message string
	// Started is when the call was made; zero when it was not.
	Started  time.Time
	Duration time.Duration
}

// calls are the runs that this process has fired and whose outcome is in no status yet. A run in a status that is not here is one of
// another process.
type calls struct {
	mu sync.Mutex
	// byTrigger is guarded by mu. A Trigger without calls has no entry.
	byTrigger map[types.NamespacedName]map[string]*call
	// slots bounds how many calls are made at a time.
	slots chan struct{}
}

// call is one run. Its fields are guarded by calls.mu, but for cancel.
type call struct {
	// owner is the UID of the Trigger, which tells it from an earlier one of the same name.
	owner   types.UID
	tick    time.Time
	cancel  context.CancelFunc
	outcome *Outcome // nil while it goes on
}

func newCalls(limit int) *calls {
	return &calls{byTrigger: map[types.NamespacedName]map[string]*call{}, slots: make(chan struct{}, limit)}
}

// of returns the outcomes of a Trigger's calls by id, nil for one that goes on.
func (c *calls) of(key types.NamespacedName, owner types.UID) map[string]*Outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	outcomes := map[string]*Outcome{}
	for id, call := range c.byTrigger[key] {
		if call.owner == owner {
			outcomes[id] = call.outcome
		}
	}
	return outcomes
}

// newest returns the latest tick of a Trigger's calls. A Trigger whose status does not have it is older than this process's own write.
func (c *calls) newest(key types.NamespacedName, owner types.UID) (tick time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.byTrigger[key] {
		if call.owner == owner && call.tick.After(tick) {
			tick = call.tick
		}
	}
	return tick
}

// start makes the call of a run and wakes the Trigger's next pass when it has ended. A call waits for a free slot as long as startWithin.
func (c *calls) start(ctx context.Context, trigger *v1alpha1.Trigger, run *v1alpha1.TriggerRun, startWithin time.Duration, do func(context.Context) Outcome, ended func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	key := client.ObjectKeyFromObject(trigger)
	started := &call{owner: trigger.UID, tick: run.ScheduledAt.Time, cancel: cancel}
	c.mu.Lock()
	if c.byTrigger[key] == nil {
		c.byTrigger[key] = map[string]*call{}
	}
	c.byTrigger[key][run.ID] = started
	c.mu.Unlock()
	go func() {
		defer cancel()
		outcome := c.inSlot(ctx, startWithin, do)
		c.mu.Lock()
		started.outcome = &outcome
		c.mu.Unlock()
		ended()
	}()
}

// inSlot runs do when a slot is free.
func (c *calls) inSlot(ctx context.Context, wait time.Duration, do func(context.Context) Outcome) Outcome {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
		return do(ctx)
	case <-timer.C:
		return Outcome{Result: v1alpha1.RunRefused, Message: "the platform makes as many calls as it can already"}
	case <-ctx.Done():
		return Outcome{Result: v1alpha1.RunReplaced, Message: "ended before it was called"}
	}
}

// stop ends calls; their outcome comes as that of any other.
func (c *calls) stop(key types.NamespacedName, ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if call := c.byTrigger[key][id]; call != nil {
			call.cancel()
		}
	}
}

// forget drops the calls of these outcomes, once a status has them.
func (c *calls) forget(key types.NamespacedName, recorded map[string]*Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, outcome := range recorded {
		if outcome != nil {
			delete(c.byTrigger[key], id)
		}
	}
	c.tidy(key)
}

// forgetEnded drops all ended calls of a Trigger that is no more.
func (c *calls) forgetEnded(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, call := range c.byTrigger[key] {
		if call.outcome != nil {
			delete(c.byTrigger[key], id)
		}
	}
	c.tidy(key)
}

// tidy needs mu.
func (c *calls) tidy(key types.NamespacedName) {
	if len(c.byTrigger[key]) == 0 {
		delete(c.byTrigger, key)
	}
}

// open lists the Triggers with a call whose outcome is in no status yet, and says how many calls go on.
func (c *calls) open() (keys []types.NamespacedName, going int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, calls := range c.byTrigger {
		keys = append(keys, key)
		for _, call := range calls {
			if call.outcome == nil {
				going++
			}
		}
	}
	return keys, going
}

// stopAll ends every call.
func (c *calls) stopAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, calls := range c.byTrigger {
		for _, call := range calls {
			call.cancel()
		}
	}
}
