package functionjob

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/reconcile"
)

// functionIndex finds FunctionJobs by the name of their Function.
const functionIndex = "functionjob.functionRef"

// SetupWithManager registers the controller and its index.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	index := func(object client.Object) []string {
		return []string{object.(*v1alpha1.FunctionJob).Spec.FunctionRef.Name}
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.FunctionJob{}, functionIndex, index); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("functionjob").
		// The status is this controller's own; spec and deletion change the generation.
		For(&v1alpha1.FunctionJob{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Function{}, handler.EnqueueRequestsFromMapFunc(r.ofFunction), builder.WithPredicates(functionChanged)).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(reconcile.OwnerOfKind(kind))).
		WithOptions(controller.Options{MaxConcurrentReconciles: 16}).
		Complete(r)
}

func (r *Reconciler) ofFunction(ctx context.Context, object client.Object) []ctrl.Request {
	var jobs v1alpha1.FunctionJobList
	if err := r.Client.List(ctx, &jobs, client.InNamespace(object.GetNamespace()), client.MatchingFields{functionIndex: object.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "map to FunctionJobs")
		return nil
	}
	requests := make([]ctrl.Request, len(jobs.Items))
	for i := range jobs.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&jobs.Items[i])
	}
	return requests
}

// functionChanged lets through what a run waits for: that the Function is built, or goes.
var functionChanged = predicate.Funcs{UpdateFunc: func(change event.UpdateEvent) bool {
	before, after := change.ObjectOld.(*v1alpha1.Function), change.ObjectNew.(*v1alpha1.Function)
	return before.Generation != after.Generation || before.Status.Image != after.Status.Image ||
		!equality.Semantic.DeepEqual(meta.FindStatusCondition(before.Status.Conditions, v1alpha1.Built), meta.FindStatusCondition(after.Status.Conditions, v1alpha1.Built))
}}
