package trigger

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/reconcile"
)

// functionIndex finds Triggers by the name of their Function.
const functionIndex = "trigger.functionRef"

// SetupWithManager registers the controller, its index and its runnable.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.setDefaults()
	r.reader = mgr.GetAPIReader()
	index := func(object client.Object) []string {
		return []string{object.(*v1alpha1.Trigger).Spec.FunctionRef.Name}
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.Trigger{}, functionIndex, index); err != nil {
		return err
	}
	if err := mgr.Add(r); err != nil {
		return err
	}
	// Of a Trigger only the spec matters, and that it is deleted, both of which change the generation: it is this controller that
	// writes the status.
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	takeQueue := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		r.queue = queue
		return nil
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("trigger").
		For(&v1alpha1.Trigger{}, changed).
		Watches(&v1alpha1.Trigger{}, handler.EnqueueRequestsFromMapFunc(r.siblings), changed).
		Watches(&v1alpha1.Function{}, handler.EnqueueRequestsFromMapFunc(r.ofFunction), builder.WithPredicates(functionChanged)).
		Watches(&networkingv1.Ingress{}, handler.EnqueueRequestsFromMapFunc(reconcile.OwnerOfKind(kind))).
		WatchesRawSource(takeQueue).
		WithOptions(controller.Options{MaxConcurrentReconciles: 32}).
		Complete(r)
}

// siblings maps a http Trigger to the others of its Function: which of them serves depends on all of them.
func (r *Reconciler) siblings(ctx context.Context, object client.Object) []ctrl.Request {
	trigger := object.(*v1alpha1.Trigger)
	if trigger.Spec.Type != v1alpha1.TriggerHTTP {
		return nil
	}
	function := types.NamespacedName{Namespace: trigger.Namespace, Name: trigger.Spec.FunctionRef.Name}
	return r.requests(ctx, function, func(other *v1alpha1.Trigger) bool {
		return other.Spec.Type == v1alpha1.TriggerHTTP && other.Name != trigger.Name
	})
}

func (r *Reconciler) ofFunction(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requests(ctx, client.ObjectKeyFromObject(object), func(*v1alpha1.Trigger) bool { return true })
}

func (r *Reconciler) requests(ctx context.Context, function types.NamespacedName, wanted func(*v1alpha1.Trigger) bool) []ctrl.Request {
	triggers, err := r.triggersOf(ctx, function)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "map to Triggers")
		return nil
	}
	var requests []ctrl.Request
	for i := range triggers {
		if wanted(&triggers[i]) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&triggers[i])})
		}
	}
	return requests
}

// functionChanged lets through what a Trigger's status or the refusal of a tick depends on.
var functionChanged = predicate.Funcs{UpdateFunc: func(change event.UpdateEvent) bool {
	before, after := change.ObjectOld.(*v1alpha1.Function), change.ObjectNew.(*v1alpha1.Function)
	return before.Generation != after.Generation || before.Status.URL != after.Status.URL ||
		!equality.Semantic.DeepEqual(before.Status.Conditions, after.Status.Conditions)
}}
