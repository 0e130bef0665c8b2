package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/reconcile"
	"github.com/naeel/sless/operator/internal/trigger/schedule"
)

// scope is what one pass has observed and decided.
type scope struct {
	now     time.Time
	trigger *v1alpha1.Trigger
	// before is the Trigger as it was read.
	before *v1alpha1.Trigger
	// function is the Function named; nil when there is none, or it is going.
	function *v1alpha1.Function
	// winner is the http Trigger that serves the Function instead of this one; nil when none does.
	winner *v1alpha1.Trigger
	// schedule is nil when there is none, or invalid has the reason.
	schedule *schedule.Schedule
	// invalid is what the author of the Trigger must mend in it.
	invalid *invalid
	// address is where the gateway offers the Function to the outside.
	address address
	// mine are the outcomes of this process's runs by id, nil for one that goes on.
	mine map[string]*Outcome
	// decision is carried out once the status is written.
	decision decision
}

type invalid struct{ reason, message string }

func (s *scope) key() types.NamespacedName { return client.ObjectKeyFromObject(s.trigger) }

func (s *scope) running() []string {
	var ids []string
	for id, outcome := range s.mine {
		if outcome == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// refusal says why no run could start now; empty when one could.
func (s *scope) refusal() string {
	if s.function == nil {
		return fmt.Sprintf("Function %s does not exist", s.trigger.Spec.FunctionRef.Name)
	}
	return ""
}

// observe reads what the Trigger depends on.
func (r *Reconciler) observe(ctx context.Context, s *scope) (err error) {
	key := types.NamespacedName{Namespace: s.trigger.Namespace, Name: s.trigger.Spec.FunctionRef.Name}
	if s.function, err = reconcile.LiveFunction(ctx, r.Client, key); err != nil {
		return err
	}
	if s.trigger.Spec.Type == v1alpha1.TriggerCron {
		s.readCron()
		return nil
	}
	s.address = addressOf(r.Config, s.trigger)
	siblings, err := r.triggersOf(ctx, key)
	if err != nil {
		return err
	}
	s.winner = winner(s.trigger, siblings)
	return nil
}

// readCron reads the schedule and looks at the event.
func (s *scope) readCron() {
	cron := s.trigger.Spec.Cron
	parsed, err := schedule.Parse(cron.Schedule, cron.TimeZone)
	switch {
	case err != nil:
		s.invalid = &invalid{v1alpha1.ReasonInvalidSchedule, err.Error()}
	case cron.EventJSON != "" && !json.Valid([]byte(cron.EventJSON)):
		s.invalid = &invalid{v1alpha1.ReasonInvalidEvent, "spec.cron.eventJSON is not JSON; write for example {\"key\": \"value\"}"}
	default:
		s.schedule = parsed
	}
}

// triggersOf lists the Triggers that name a Function.
func (r *Reconciler) triggersOf(ctx context.Context, function types.NamespacedName) ([]v1alpha1.Trigger, error) {
	var list v1alpha1.TriggerList
	if err := r.Client.List(ctx, &list, client.InNamespace(function.Namespace), client.MatchingFields{functionIndex: function.Name}); err != nil {
		return nil, fmt.Errorf("list Triggers of Function %s: %w", function, err)
	}
	return list.Items, nil
}

// winner returns the enabled http Trigger that serves the Function before trigger does, or nil: the oldest serves, and of two made in
// the same second the one whose name comes first. A disabled Trigger rivals nobody.
func winner(trigger *v1alpha1.Trigger, siblings []v1alpha1.Trigger) *v1alpha1.Trigger {
	if !trigger.IsEnabled() {
		return nil
	}
	first := trigger
	for i := range siblings {
		other := &siblings[i]
		if other.Spec.Type == v1alpha1.TriggerHTTP && other.IsEnabled() && older(other, first) {
			first = other
		}
	}
	if first.UID == trigger.UID {
		return nil
	}
	return first
}

func older(a, b *v1alpha1.Trigger) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
