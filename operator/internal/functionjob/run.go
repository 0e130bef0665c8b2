package functionjob

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/reconcile"
)

// observe reads the Function, and the Kubernetes Job of the last run.
func (r *Reconciler) observe(ctx context.Context, s *scope) (err error) {
	key := client.ObjectKey{Namespace: s.job.Namespace, Name: s.job.Spec.FunctionRef.Name}
	if s.function, err = reconcile.LiveFunction(ctx, r.Client, key); err != nil {
		return err
	}
	if s.job.Status.JobName == "" {
		return nil
	}
	reader := client.Reader(r.Client)
	if s.runs() {
		reader = r.Reader // the cache may not have it yet, and may have lost its watch
	}
	run := &batchv1.Job{}
	key = client.ObjectKey{Namespace: s.tenant(), Name: s.job.Status.JobName}
	err = reader.Get(ctx, key, run)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get Job %s: %w", key, err)
	}
	if err == nil && run.Labels[names.UIDLabel] == string(s.job.UID) {
		s.run = run
	}
	return nil
}

// followRun looks how far the run is that goes on. When it has ended, that is written before anything else is done.
func (r *Reconciler) followRun(ctx context.Context, s *scope) error {
	if !s.runs() {
		return nil
	}
	if err := r.lookAtRun(ctx, s); err != nil {
		return err
	}
	if s.runs() {
		s.come(pollEvery)
		return nil
	}
	s.come(time.Nanosecond)
	return errRecord
}

func (r *Reconciler) lookAtRun(ctx context.Context, s *scope) error {
	if s.run == nil {
		s.end(ending{reason: v1alpha1.ReasonFailed, message: "somebody deleted the run's Kubernetes Job"})
		return nil
	}
	if err := r.listPods(ctx, s); err != nil {
		return err
	}
	if ended, ok := endOf(s.run, s.pods, s.job.Status.Message); ok {
		s.end(ended)
		return nil
	}
	if !s.run.DeletionTimestamp.IsZero() {
		s.end(ending{reason: v1alpha1.ReasonFailed, message: "somebody deleted the run's Kubernetes Job"})
		return nil
	}
	gone, err := r.functionOfRunIsGone(ctx, s)
	if err != nil {
		return err
	}
	if gone {
		if err := r.delete(ctx, s.run); err != nil {
			return err
		}
		s.end(ending{reason: v1alpha1.ReasonFunctionDeleted, message: "the Function was deleted while the run went on"})
		return nil
	}
	if jobCondition(s.run, batchv1.JobFailureTarget) != nil {
		return nil // it is about to end; what it waited for last may be why
	}
	s.job.Status.Message = cut(obstacle(s.run, s.pods, s.now.Time), maxMessage)
	return nil
}

// functionOfRunIsGone looks for the Function that the run runs, which need not be the one that spec names now. An edit of functionRef
// while a run goes on takes effect with the next.
func (r *Reconciler) functionOfRunIsGone(ctx context.Context, s *scope) (bool, error) {
	if s.function != nil && string(s.function.UID) == s.job.Status.FunctionUID {
		return false, nil
	}
	name := s.run.Annotations[functionAnnotation]
	function := &v1alpha1.Function{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.job.Namespace, Name: name}, function)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get Function %s/%s: %w", s.job.Namespace, name, err)
	}
	return err != nil || !function.DeletionTimestamp.IsZero() || string(function.UID) != s.job.Status.FunctionUID, nil
}

// listPods reads the pods of the run past the cache: they hold what the handler has answered.
func (r *Reconciler) listPods(ctx context.Context, s *scope) error {
	var pods corev1.PodList
	selector := client.MatchingLabels{names.UIDLabel: string(s.job.UID), batchv1.JobNameLabel: s.run.Name}
	if err := r.Reader.List(ctx, &pods, client.InNamespace(s.run.Namespace), selector); err != nil {
		return fmt.Errorf("list Pods of Job %s/%s: %w", s.run.Namespace, s.run.Name, err)
	}
	s.pods = pods.Items
	return nil
}

// expireRun gives the Kubernetes Job of a run whose end is recorded its time to live.
func (r *Reconciler) expireRun(ctx context.Context, s *scope) error {
	if s.runs() || s.run == nil || s.run.Spec.TTLSecondsAfterFinished != nil || !s.run.DeletionTimestamp.IsZero() || !finished(s.run) {
		return nil
	}
	expiring := s.run.DeepCopy()
	expiring.Spec.TTLSecondsAfterFinished = new(timeToLive(s.run))
	patch := client.MergeFrom(s.run)
	if err := r.Client.Patch(ctx, expiring, patch, client.FieldOwner(names.ManagedBy)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("set the time to live of Job %s/%s: %w", s.run.Namespace, s.run.Name, err)
	}
	return nil
}

// delete removes a Kubernetes Job and with it its pod.
func (r *Reconciler) delete(ctx context.Context, run *batchv1.Job) error {
	if run == nil {
		return nil
	}
	options := []client.DeleteOption{client.PropagationPolicy("Background"), client.Preconditions{UID: &run.UID}}
	if err := r.Client.Delete(ctx, run, options...); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Job %s/%s: %w", run.Namespace, run.Name, err)
	}
	return nil
}
