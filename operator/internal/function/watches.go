package function

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/reconcile"
)

const (
	// triggersByFunction is the index of Triggers by the Function they name.
	triggersByFunction = "function.spec.functionRef.name"
	// workers is how many Functions are reconciled at a time.
	workers = 8
)

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.Trigger{}, triggersByFunction, func(object client.Object) []string {
		return []string{object.(*v1alpha1.Trigger).Spec.FunctionRef.Name}
	})
	if err != nil {
		return err
	}
	informer, err := mgr.GetCache().GetInformer(context.Background(), &v1alpha1.Function{})
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { r.news.came() },
		UpdateFunc: func(any, any) { r.news.came() },
		DeleteFunc: func(any) { r.news.came() },
	}); err != nil {
		return err
	}
	// Status is written by this controller alone; it need not hear of that.
	changed := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("function").
		For(&v1alpha1.Function{}, builder.WithPredicates(changed)).
		Watches(&v1alpha1.Trigger{}, handler.EnqueueRequestsFromMapFunc(byTrigger), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(reconcile.OwnerOfKind(Kind))).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(reconcile.OwnerOfKind(Kind))).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.byTenant), builder.WithPredicates(onlyDeletes)).
		WatchesRawSource(source.Func(r.builds)).
		WatchesRawSource(source.Func(r.giveTurns)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// onlyDeletes lets the end of an object through.
var onlyDeletes = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

func byTrigger(_ context.Context, object client.Object) []ctrl.Request {
	name := object.(*v1alpha1.Trigger).Spec.FunctionRef.Name
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}}}
}

// byTenant maps the namespace of children to the Functions of the user's namespace, which need it again.
func (r *Reconciler) byTenant(ctx context.Context, object client.Object) []ctrl.Request {
	user := object.GetLabels()[names.NamespaceLabel]
	if user == "" || object.GetName() != names.FunctionNamespace(user) {
		return nil
	}
	var list v1alpha1.FunctionList
	if err := r.Client.List(ctx, &list, client.InNamespace(user)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list the Functions of a namespace that is gone", "namespace", user)
		return nil
	}
	requests := make([]ctrl.Request, len(list.Items))
	for i := range list.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
	}
	return requests
}

// builds puts the Function whose build has moved into the queue.
func (r *Reconciler) builds(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	go func() {
		for {
			select {
			case owner, open := <-r.Builder.Events():
				if !open {
					return
				}
				queue.Add(ctrl.Request{NamespacedName: types.NamespacedName(owner)})
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}
