// Package trigger brings Triggers about: it gives http Triggers their URL and Ingress, and fires cron Triggers.
//
// A tick is fired at most once, whatever happens to the operator: it is written into the Trigger's status, by a write that fails when
// anybody has written since, and only then is the function called. Whoever reads the status later and has not made that call itself
// knows that it may have been made, and lets it be.
package trigger

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
	"github.com/naeel/sless/operator/internal/reconcile"
)

const (
	// retryConflict is after how long a pass comes again whose Trigger was older than the API server's.
	retryConflict = 50 * time.Millisecond
	// recordAfter is after how long an outcome is recorded: many ticks come at the same moment, and their records go first.
	recordAfter = time.Second
	// tickPriority puts ticks before the first look at thousands of Triggers after a start.
	tickPriority = 1
	// defaultMaxCalls is how many calls go on at a time.
	defaultMaxCalls = 2000
	// defaultDrain is how long a leader that ends waits for its calls, so that their outcomes are recorded; there is no leader meanwhile.
	defaultDrain = 5 * time.Second
)

// Caller calls functions.
type Caller interface {
	// Call returns when the call has ended, or ctx.
	Call(ctx context.Context, call Call) Outcome
}

// Reconciler reconciles Triggers.
type Reconciler struct {
	// Client reads from a cache and writes. Required.
	Client client.Client
	// Config has the platform's addresses. Required.
	Config *config.Config
	// Gateway calls functions. Default: the gateway that Config names.
	Gateway Caller
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// MaxCalls is how many calls go on at a time. Default 2000.
	MaxCalls int
	// Drain is how long calls may go on when the manager ends. Default 5 s.
	Drain time.Duration

	// reader reads past the cache.
	reader   client.Reader
	calls    *calls
	stopping atomic.Bool
	// queue is set when the controller starts, which is before its first pass.
	queue workqueue.TypedRateLimitingInterface[ctrl.Request]
	// wait turns the time until a tick into a time to wait; tests whose clock is faster shorten it.
	wait func(time.Duration) time.Duration
}

// Rights outside of sless-system, and in it.
//
// +kubebuilder:rbac:groups=sless.io,resources=triggers,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=sless.io,resources=triggers/status,verbs=patch
// +kubebuilder:rbac:groups=sless.io,resources=functions,verbs=list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,namespace=sless-system,resources=ingresses,verbs=list;watch;create;patch;delete

// setDefaults makes a Reconciler of its fields ready for its first pass.
func (r *Reconciler) setDefaults() {
	if r.Gateway == nil {
		r.Gateway = NewGateway(r.Config.Gateway.InternalURL, r.Config.Gateway.TokenFile)
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	if r.MaxCalls == 0 {
		r.MaxCalls = defaultMaxCalls
	}
	if r.Drain == 0 {
		r.Drain = defaultDrain
	}
	if r.wait == nil {
		r.wait = func(d time.Duration) time.Duration { return d }
	}
	r.calls = newCalls(r.MaxCalls)
}

// Reconcile brings one Trigger up to date and deals with its ticks that are due.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	trigger, err := r.get(ctx, request.NamespacedName)
	if err != nil {
		if apierrors.IsNotFound(err) {
			r.calls.forgetEnded(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("get Trigger %s: %w", request, err)
	}
	s := &scope{now: r.Now(), trigger: trigger, before: trigger.DeepCopy(), mine: r.calls.of(request.NamespacedName, trigger.UID)}
	if !trigger.DeletionTimestamp.IsZero() {
		r.calls.forgetEnded(request.NamespacedName)
		return r.result(s, r.removeIngress(ctx, s))
	}
	return r.result(s, r.pass(ctx, s))
}

// get reads a Trigger: from the cache, unless that has not seen yet what this process has written last.
func (r *Reconciler) get(ctx context.Context, key types.NamespacedName) (*v1alpha1.Trigger, error) {
	trigger := &v1alpha1.Trigger{}
	if err := r.Client.Get(ctx, key, trigger); err != nil {
		return nil, err
	}
	last := trigger.Status.LastScheduleTime
	if written := r.calls.newest(key, trigger.UID); written.IsZero() || last != nil && !last.Time.Before(written) {
		return trigger, nil
	}
	trigger = &v1alpha1.Trigger{}
	return trigger, r.reader.Get(ctx, key, trigger)
}

// pass runs the phases, writes the status once, and then does what was decided. When the status could not be written nothing is done,
// and all is decided anew.
func (r *Reconciler) pass(ctx context.Context, s *scope) error {
	phaseOfType := r.reconcileHTTP
	if s.trigger.Spec.Type == v1alpha1.TriggerCron {
		phaseOfType = r.reconcileCron
	}
	if err := reconcile.Run(ctx, s, r.observe, phaseOfType); err != nil {
		return err
	}
	setStatus(s)
	if err := reconcile.PatchStatus(ctx, r.Client, s.trigger, s.before); err != nil {
		return fmt.Errorf("patch status of Trigger %s: %w", s.key(), err)
	}
	r.carryOut(ctx, s)
	return nil
}

// result says when to come again.
func (r *Reconciler) result(s *scope, err error) (ctrl.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: retryConflict, Priority: new(tickPriority)}, nil
	case err != nil:
		return ctrl.Result{}, client.IgnoreNotFound(err) // deleted under the pass
	}
	result := reconcile.After(r.wait(s.next(r.Now())))
	if result.RequeueAfter > 0 {
		result.Priority = new(tickPriority)
	}
	return result, nil
}

// wake asks for a pass that records an outcome.
func (r *Reconciler) wake(key types.NamespacedName) {
	if r.queue != nil {
		r.queue.AddAfter(ctrl.Request{NamespacedName: key}, recordAfter)
	}
}

// Start waits for the manager's end, and then a while for calls that go on, so that their outcomes are recorded. The manager runs it on
// the leader, and gives the leadership back after it.
func (r *Reconciler) Start(ctx context.Context) error {
	<-ctx.Done()
	r.stopping.Store(true)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Drain)
	defer cancel()
	defer r.calls.stopAll()
	for {
		keys, going := r.calls.open()
		for _, key := range keys {
			if _, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: key}); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "record the outcome of a run", "trigger", key)
			}
		}
		if len(keys) == 0 && going == 0 {
			return nil
		}
		select {
		case <-time.After(retryConflict):
		case <-ctx.Done():
			return nil
		}
	}
}
