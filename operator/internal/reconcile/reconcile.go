// Package reconcile is what the three controllers share: run a pass's phases in order, sum up its conditions, and write the status
// once, when it changed; find the Function that an object names, and the owner of a child.
package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// Recheck is how often a state that only somebody's change can mend is looked at again.
const Recheck = 60 * time.Second

// Phase is one named step of a pass, in whose scope it leaves what it has seen. It stops the pass by an error; Stop does so without one.
type Phase[Scope any] func(context.Context, Scope) error

// Stop ends a pass early with nothing wrong: what is to be said is already in the scope.
var Stop = errors.New("stop")

// Run runs the phases in order until one returns an error. Stop counts as nil.
func Run[Scope any](ctx context.Context, scope Scope, phases ...Phase[Scope]) error {
	for _, phase := range phases {
		if err := phase(ctx, scope); err != nil {
			if errors.Is(err, Stop) {
				return nil
			}
			return err
		}
	}
	return nil
}

// After asks for another pass after the shortest of the delays that are greater than zero.
func After(delays ...time.Duration) ctrl.Result {
	result := ctrl.Result{}
	for _, delay := range delays {
		if delay > 0 && (result.RequeueAfter == 0 || delay < result.RequeueAfter) {
			result.RequeueAfter = delay
		}
	}
	return result
}

// Condition makes a condition for a generation; SetConditions gives it its transition time.
func Condition(kind string, status metav1.ConditionStatus, reason, message string, generation int64) metav1.Condition {
	const longest = 32768 // the API server's limit on a condition's message
	if len(message) > longest {
		message = message[:longest-3] + "..."
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation}
}

// SetConditions replaces current by wanted and, when one of these is Ready and False, Stalled. It keeps the transition time of those
// whose status is unchanged.
func SetConditions(current *[]metav1.Condition, wanted ...metav1.Condition) {
	if ready := meta.FindStatusCondition(wanted, v1alpha1.Ready); ready != nil && ready.Status == metav1.ConditionFalse {
		stalled := *ready
		stalled.Type, stalled.Status = v1alpha1.Stalled, metav1.ConditionTrue
		wanted = append(slices.Clip(wanted), stalled)
	}
	for _, condition := range wanted {
		meta.SetStatusCondition(current, condition)
	}
	kept := (*current)[:0]
	for _, condition := range *current {
		for _, want := range wanted {
			if want.Type == condition.Type {
				kept = append(kept, condition)
			}
		}
	}
	*current = kept
}

// PatchStatus writes the status of obj when it differs from that of before, which is the object as it was read. It fails with a
// conflict when somebody else has written the object since, so that a fact of a newer pass is never overwritten.
func PatchStatus(ctx context.Context, c client.Client, obj, before client.Object) error {
	if equality.Semantic.DeepEqual(obj, before) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return c.Status().Patch(ctx, obj, patch, client.FieldOwner(names.ManagedBy))
}
