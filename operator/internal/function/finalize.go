package function

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build"
)

// deleteGraceSeconds is how long a call in flight may go on when its Function is deleted. A pod's own grace may be an hour, for which
// its namespace could not be made again.
const deleteGraceSeconds = 10

// children are the kinds of a Function's children, in the order in which they are deleted: none is left that would make another again.
var children = []schema.GroupVersionKind{
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
	corev1.SchemeGroupVersion.WithKind("Pod"),
	corev1.SchemeGroupVersion.WithKind("Service"),
	corev1.SchemeGroupVersion.WithKind("Secret"),
}

// finalize removes what owner references can't reach, and lets the Function go. It waits for neither registry nor object store; the
// namespace of the children goes when the last of its Functions and FunctionJobs is gone.
func (r *Reconciler) finalize(ctx context.Context, function *v1alpha1.Function) error {
	if !controllerutil.ContainsFinalizer(function, names.Finalizer) {
		return nil
	}
	last, err := r.isLast(ctx, function)
	if err != nil {
		return err
	}
	r.Builder.Remove(build.Owner{Namespace: function.Namespace, Name: function.Name}, last)
	if err := r.removeChildren(ctx, function); err != nil {
		return err
	}
	before := function.DeepCopy()
	controllerutil.RemoveFinalizer(function, names.Finalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, function, patch, client.FieldOwner(names.ManagedBy)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer from Function %s: %w", client.ObjectKeyFromObject(function), err)
	}
	return nil
}

// forgotten comes after a Function is gone. Children are left only when somebody took the finalizer away by hand.
func (r *Reconciler) forgotten(ctx context.Context, key client.ObjectKey) error {
	r.pace.leave(key)
	r.doubts.Delete(key)
	r.Env.Forget(key)
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: names.FunctionNamespace(key.Namespace), Name: key.Name}, &appsv1.Deployment{})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get Deployment of Function %s: %w", key, err)
	}
	if err == nil {
		gone := &v1alpha1.Function{}
		gone.Namespace, gone.Name = key.Namespace, key.Name
		if err := r.removeChildren(ctx, gone); err != nil {
			return err
		}
	}
	return r.Tenants.Release(ctx, key.Namespace)
}

// isLast says that the namespace has no other Function that stays.
func (r *Reconciler) isLast(ctx context.Context, function *v1alpha1.Function) (bool, error) {
	var list v1alpha1.FunctionList
	if err := r.Client.List(ctx, &list, client.InNamespace(function.Namespace), client.UnsafeDisableDeepCopy); err != nil { // only looked at
		return false, fmt.Errorf("list Functions of %s: %w", function.Namespace, err)
	}
	for i := range list.Items {
		if list.Items[i].Name != function.Name && list.Items[i].DeletionTimestamp.IsZero() {
			return false, nil
		}
	}
	return true, nil
}

func (r *Reconciler) removeChildren(ctx context.Context, function *v1alpha1.Function) error {
	var namespace corev1.Namespace
	err := r.Client.Get(ctx, client.ObjectKey{Name: names.FunctionNamespace(function.Namespace)}, &namespace)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get Namespace of the children of Function %s: %w", client.ObjectKeyFromObject(function), err)
	}
	if !namespace.DeletionTimestamp.IsZero() || namespace.Labels[names.ManagedByLabel] != names.ManagedBy {
		return nil // all that is in it goes, or it was never sless's
	}
	for _, kind := range children {
		if err := r.removeKind(ctx, function, namespace.Name, kind); err != nil {
			return r.unlessDoomed(ctx, function, err)
		}
	}
	return nil
}

// unlessDoomed handles that sless's rights in a tenant's namespace are gone, because somebody deleted the RoleBinding. They are made
// again; or, when the user's namespace goes, they are not needed: the tenant's goes as a whole.
func (r *Reconciler) unlessDoomed(ctx context.Context, function *v1alpha1.Function, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	var user corev1.Namespace
	if getErr := r.Client.Get(ctx, client.ObjectKey{Name: function.Namespace}, &user); getErr != nil {
		return client.IgnoreNotFound(getErr)
	}
	if !user.DeletionTimestamp.IsZero() {
		return nil
	}
	if _, ensureErr := r.Tenants.Ensure(ctx, function.Namespace); ensureErr != nil {
		return ensureErr
	}
	return err
}

func (r *Reconciler) removeKind(ctx context.Context, function *v1alpha1.Function, namespace string, kind schema.GroupVersionKind) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	own := client.MatchingLabels(names.Selector(Kind, function.Namespace, function.Name))
	if err := r.Reader.List(ctx, list, client.InNamespace(namespace), own); err != nil {
		return fmt.Errorf("list %ss of %s: %w", kind.Kind, namespace, err)
	}
	options := []client.DeleteOption{client.PropagationPolicy(metav1.DeletePropagationBackground)}
	if kind.Kind == "Pod" {
		options = append(options, client.GracePeriodSeconds(deleteGraceSeconds))
	}
	for i := range list.Items {
		child := &list.Items[i]
		child.SetGroupVersionKind(kind) // a list's items need not say it
		if err := r.Client.Delete(ctx, child, options...); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s %s/%s: %w", kind.Kind, namespace, child.Name, err)
		}
	}
	return nil
}
