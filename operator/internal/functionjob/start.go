package functionjob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/reconcile"
	"github.com/naeel/sless/operator/internal/tenant"
)

// errRecord ends a pass so that its status is written before anything else is done.
var errRecord = reconcile.Stop

// awaitFunction looks whether the run that is wanted could start, and says what is missing.
func (r *Reconciler) awaitFunction(_ context.Context, s *scope) error {
	if s.runs() || !s.wants() {
		s.job.Status.WaitsFor = nil
		return nil
	}
	if s.hasWaitedForAnother() {
		s.begin(s.job.Spec.RunID, "")
		s.end(ending{reason: v1alpha1.ReasonFunctionDeleted, message: fmt.Sprintf("Function %s was deleted before the run could start", s.job.Spec.FunctionRef.Name)})
		return errRecord
	}
	s.waiting = s.obstacle()
	s.job.Status.WaitsFor = nil
	if s.waiting == nil {
		return nil
	}
	if s.function != nil {
		s.job.Status.WaitsFor = &v1alpha1.WaitingRun{RunID: s.job.Spec.RunID, FunctionUID: string(s.function.UID)}
	}
	return errRecord
}

// obstacle says why the run that is wanted can't start; nil when it can, as far as the pass has seen. For a run the image is enough:
// whether the Function has replicas or Triggers does not matter.
func (s *scope) obstacle() *waiting {
	name := s.job.Spec.FunctionRef.Name
	if err := tenant.Check(s.job.Namespace); err != nil {
		return &waiting{metav1.ConditionFalse, v1alpha1.ReasonNotAllowed, err.Error(), true}
	}
	if event := s.job.Spec.EventJSON; event != "" && !json.Valid([]byte(event)) {
		return &waiting{metav1.ConditionFalse, v1alpha1.ReasonInvalidEvent, "spec.eventJSON is not JSON; write for example {\"key\": \"value\"}", true}
	}
	if s.function == nil {
		return &waiting{metav1.ConditionFalse, v1alpha1.ReasonFunctionNotFound,
			fmt.Sprintf("Function %s does not exist in namespace %s; make it, or mend spec.functionRef.name", name, s.job.Namespace), false}
	}
	built := meta.FindStatusCondition(s.function.Status.Conditions, v1alpha1.Built)
	switch {
	case built == nil || built.ObservedGeneration != s.function.Generation:
		return &waiting{metav1.ConditionUnknown, v1alpha1.ReasonFunctionNotReady, fmt.Sprintf("waits until Function %s is built", name), false}
	case built.Status == metav1.ConditionFalse:
		return &waiting{metav1.ConditionFalse, v1alpha1.ReasonFunctionFailed,
			fmt.Sprintf("waits until Function %s is built: %s: %s", name, built.Reason, built.Message), false}
	case built.Status != metav1.ConditionTrue || s.function.Status.Image == "":
		return &waiting{metav1.ConditionUnknown, v1alpha1.ReasonFunctionNotReady,
			fmt.Sprintf("waits until Function %s is built: %s: %s", name, built.Reason, built.Message), false}
	}
	return nil
}

// startRun starts the run that is wanted, or takes up one that was started without the status having it.
func (r *Reconciler) startRun(ctx context.Context, s *scope) error {
	if s.runs() || !s.wants() {
		return nil
	}
	if err := r.addFinalizer(ctx, s); err != nil {
		return err
	}
	if err := r.checkFresh(ctx, s); err != nil {
		return err
	}
	namespace, err := r.Tenants.Ensure(ctx, s.job.Namespace)
	if err != nil {
		return s.wait(err)
	}
	run, err := r.forgotten(ctx, s, namespace)
	if err != nil {
		return err
	}
	if run == nil {
		if run, err = r.createRun(ctx, s, namespace); err != nil {
			return s.wait(err)
		}
	}
	if err := r.giveEvent(ctx, run); err != nil {
		return err
	}
	s.begin(runIDOf(run), run.Annotations[functionUIDAnnotation])
	s.run = run
	s.job.Status.JobName = run.Name
	s.job.Status.Image = run.Spec.Template.Spec.Containers[0].Image
	s.job.Status.StartTime = &s.now
	s.come(pollEvery)
	return nil
}

// wait says why the run could not be started. What only somebody's change mends is no error, and looked at again slowly.
func (s *scope) wait(err error) error {
	terminal, ok := errors.AsType[*fault.Error](err)
	switch {
	case ok && terminal.Terminal:
		s.waiting = &waiting{metav1.ConditionFalse, terminal.Reason, terminal.Message, false}
	case errors.Is(err, tenant.ErrNotAllowed):
		s.waiting = &waiting{metav1.ConditionFalse, v1alpha1.ReasonNotAllowed, err.Error(), true}
	case errors.Is(err, tenant.ErrTerminating):
		s.waiting = &waiting{metav1.ConditionUnknown, v1alpha1.ReasonPending, err.Error(), false}
		s.come(pollEvery)
		return nil
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		s.waiting = &waiting{metav1.ConditionFalse, v1alpha1.ReasonQuotaExceeded, "the cluster refuses the run's Kubernetes Job: " + err.Error(), false}
		s.come(pollEvery) // a namespace just made may not know the operator's rights yet
		return nil
	default:
		s.waiting = &waiting{metav1.ConditionUnknown, v1alpha1.ReasonPending, "the run could not be started yet: " + err.Error(), false}
		return err
	}
	s.come(reconcile.Recheck)
	return nil
}

// checkFresh sees that the FunctionJob is what the API server has: of one that is older the run may have been and gone.
func (r *Reconciler) checkFresh(ctx context.Context, s *scope) error {
	fresh := &v1alpha1.FunctionJob{}
	if err := r.Reader.Get(ctx, s.key(), fresh); err != nil {
		return fmt.Errorf("get FunctionJob %s: %w", s.key(), err)
	}
	if fresh.ResourceVersion != s.before.ResourceVersion {
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("functionjobs").GroupResource(), s.job.Name, errors.New("it is newer than the cache"))
	}
	return nil
}

// forgotten returns the first Kubernetes Job that was made for a run of which the status knows nothing.
func (r *Reconciler) forgotten(ctx context.Context, s *scope, namespace string) (*batchv1.Job, error) {
	jobs, err := r.listJobs(ctx, s, namespace)
	if err != nil {
		return nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(run batchv1.Job) bool { return runIDOf(&run) <= s.job.Status.RunID })
	if len(jobs) == 0 {
		return nil, nil
	}
	first := slices.MinFunc(jobs, func(a, b batchv1.Job) int { return int(runIDOf(&a) - runIDOf(&b)) })
	return &first, nil
}

func (r *Reconciler) listJobs(ctx context.Context, s *scope, namespace string) ([]batchv1.Job, error) {
	var jobs batchv1.JobList
	own := client.MatchingLabels{names.UIDLabel: string(s.job.UID)}
	if err := r.Reader.List(ctx, &jobs, client.InNamespace(namespace), own); err != nil {
		return nil, fmt.Errorf("list Jobs of FunctionJob %s: %w", s.key(), err)
	}
	return jobs.Items, nil
}

// createRun makes the Kubernetes Job and the Secret with its event. The Secret comes first and then belongs to the Job; one whose
// Job was not made is deleted with the FunctionJob.
func (r *Reconciler) createRun(ctx context.Context, s *scope, namespace string) (*batchv1.Job, error) {
	envSecret, _, err := r.Env.Ensure(ctx, s.function, namespace)
	if err != nil {
		return nil, err
	}
	event := buildEvent(s.job, namespace)
	if err := r.Client.Create(ctx, event, client.FieldOwner(names.ManagedBy)); client.IgnoreAlreadyExists(err) != nil {
		return nil, fmt.Errorf("create Secret %s/%s: %w", namespace, event.Name, err)
	}
	run, err := buildJob(parts{job: s.job, function: s.function, namespace: namespace, envSecret: envSecret, eventSecret: event.Name, defaults: r.Config.Function})
	if err != nil {
		return nil, err
	}
	if err := r.Client.Create(ctx, run, client.FieldOwner(names.ManagedBy)); err != nil {
		return nil, fmt.Errorf("create Job %s/%s: %w", namespace, run.Name, err)
	}
	return run, nil
}

// giveEvent makes the Secret with the event belong to its Job, so that the two go together.
func (r *Reconciler) giveEvent(ctx context.Context, run *batchv1.Job) error {
	event := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: run.Namespace, Name: run.Annotations[eventAnnotation]}}
	patch := client.MergeFrom(event.DeepCopy())
	event.OwnerReferences = []metav1.OwnerReference{{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: run.Name, UID: run.UID}}
	if err := r.Client.Patch(ctx, event, patch, client.FieldOwner(names.ManagedBy)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("give Secret %s/%s to its Job: %w", event.Namespace, event.Name, err)
	}
	return nil
}

// addFinalizer makes sure that children are removed before there is one.
func (r *Reconciler) addFinalizer(ctx context.Context, s *scope) error {
	if controllerutil.ContainsFinalizer(s.job, names.Finalizer) {
		return nil
	}
	return r.patchFinalizers(ctx, s, controllerutil.AddFinalizer)
}

// patchFinalizers writes the finalizers; the status in s is kept.
func (r *Reconciler) patchFinalizers(ctx context.Context, s *scope, change func(client.Object, string) bool) error {
	written := s.before.DeepCopy()
	change(written, names.Finalizer)
	patch := client.MergeFromWithOptions(s.before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, written, patch, client.FieldOwner(names.ManagedBy)); err != nil {
		return fmt.Errorf("write finalizers of FunctionJob %s: %w", s.key(), err)
	}
	status := s.job.Status
	s.before, s.job = written, written.DeepCopy()
	s.job.Status = status
	return nil
}
