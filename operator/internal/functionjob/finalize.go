package functionjob

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/naeel/sless/api/names"
)

// finalize removes the children of a FunctionJob that is being deleted, and then its finalizer. A run that goes on is stopped.
func (r *Reconciler) finalize(ctx context.Context, s *scope) error {
	if !controllerutil.ContainsFinalizer(s.job, names.Finalizer) {
		return nil
	}
	there, err := r.tenantIsThere(ctx, s)
	if err != nil {
		return err
	}
	if there {
		if err := r.deleteChildren(ctx, s); err != nil {
			return err
		}
	}
	return r.patchFinalizers(ctx, s, controllerutil.RemoveFinalizer)
}

// tenantIsThere says whether the namespace of the children exists and will go on to. In one that goes, everything goes, and the
// operator's rights may have gone first. It looks past the cache, which may not know one that was just made.
func (r *Reconciler) tenantIsThere(ctx context.Context, s *scope) (bool, error) {
	namespace := &corev1.Namespace{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: s.tenant()}, namespace); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("get Namespace %s: %w", s.tenant(), err)
	}
	return namespace.DeletionTimestamp.IsZero(), nil
}

func (r *Reconciler) deleteChildren(ctx context.Context, s *scope) error {
	jobs, err := r.listJobs(ctx, s, s.tenant())
	if err != nil {
		return err
	}
	for i := range jobs {
		if err := r.delete(ctx, &jobs[i]); err != nil {
			return err
		}
	}
	var secrets corev1.SecretList
	if err := r.Reader.List(ctx, &secrets, client.InNamespace(s.tenant()), client.MatchingLabels{names.UIDLabel: string(s.job.UID)}); err != nil {
		return fmt.Errorf("list Secrets of FunctionJob %s: %w", s.key(), err)
	}
	for i := range secrets.Items {
		if err := r.Client.Delete(ctx, &secrets.Items[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Secret %s/%s: %w", s.tenant(), secrets.Items[i].Name, err)
		}
	}
	return nil
}
