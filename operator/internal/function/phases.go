package function

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/reconcile"
	"github.com/naeel/sless/operator/internal/tenant"
)

// observe looks at what the Function depends on and what there is of it.
func (r *Reconciler) observe(ctx context.Context, s *scope) error {
	if err := tenant.Check(s.function.Namespace); err != nil {
		s.stop(fault.Terminal(v1alpha1.ReasonNotAllowed, "%v", err), reconcile.Recheck)
		return reconcile.Stop
	}
	var list v1alpha1.TriggerList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.function.Namespace), client.MatchingFields{triggersByFunction: s.function.Name}); err != nil {
		return fmt.Errorf("list Triggers of Function %s: %w", s.key(), err)
	}
	s.triggers = observeTriggers(list.Items)
	deployment := &appsv1.Deployment{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.tenantName(), Name: s.function.Name}, deployment)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get Deployment of Function %s: %w", s.key(), err)
	}
	if err == nil && deployment.DeletionTimestamp.IsZero() {
		s.deployment = deployment
	}
	return r.checkNumber(ctx, s)
}

// checkNumber ends the pass for a Function that is one too many. As with a quota, what is deployed stays when the limit is lowered.
func (r *Reconciler) checkNumber(ctx context.Context, s *scope) error {
	most := r.Config.Tenants.MaxFunctions
	if most == 0 || s.deployment != nil {
		return nil
	}
	var list v1alpha1.FunctionList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.function.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Functions of %s: %w", s.function.Namespace, err)
	}
	if countOlder(list.Items, s.function) < most {
		return nil
	}
	r.Builder.Forget(build.Owner{Namespace: s.function.Namespace, Name: s.function.Name})
	s.stop(fault.Terminal(v1alpha1.ReasonQuotaExceeded,
		"namespace %s may have %d Functions, and has as many that are older; delete one, or ask the platform's engineer for more (tenants.maxFunctions)", s.function.Namespace, most), reconcile.Recheck)
	return reconcile.Stop
}

// countOlder counts the Functions that stay and come before another. Of those made in the same second the names decide.
func countOlder(list []v1alpha1.Function, function *v1alpha1.Function) (older int) {
	for i := range list {
		other := &list[i]
		order := other.CreationTimestamp.Compare(function.CreationTimestamp.Time)
		if other.DeletionTimestamp.IsZero() && (order < 0 || order == 0 && other.Name < function.Name) {
			older++
		}
	}
	return older
}

// reconcileTenant makes the namespace for the children when the image is there to run in it.
func (r *Reconciler) reconcileTenant(ctx context.Context, s *scope) error {
	if s.image == nil {
		return nil
	}
	name, err := r.Tenants.Ensure(ctx, s.function.Namespace)
	switch {
	case errors.Is(err, tenant.ErrNotAllowed):
		s.stop(fault.Terminal(v1alpha1.ReasonNotAllowed, "%v", err), reconcile.Recheck)
	case errors.Is(err, tenant.ErrTerminating):
		s.stop(fault.Transient(v1alpha1.ReasonPending, "%v; the function starts when it is gone", err), tenantEvery)
	case err != nil:
		return s.retry("prepare the namespace for its pods", err)
	}
	s.tenant = name
	return nil
}

// reconcileEnv makes the Secret with the handler's environment.
func (r *Reconciler) reconcileEnv(ctx context.Context, s *scope) error {
	if s.image == nil || s.tenant == "" {
		return nil
	}
	secret, environment, err := r.Env.Ensure(ctx, s.function, s.tenant)
	s.envFollows = environment.Follows
	if problem, ok := errors.AsType[*fault.Error](err); ok {
		s.stop(problem, followEvery)
		return nil
	}
	if err != nil {
		return s.retry("prepare its environment", err)
	}
	s.envSecret, s.envKnown = secret, true
	return nil
}

// reconcileService makes the Service, which names the version that the Deployment has by now.
func (r *Reconciler) reconcileService(ctx context.Context, s *scope) error {
	if !s.deployed {
		return nil
	}
	current := &corev1.Service{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.tenant, Name: s.function.Name}, current)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get Service of Function %s: %w", s.key(), err)
	}
	if apierrors.IsNotFound(err) {
		current = nil
	}
	if err := r.applyService(ctx, current, buildService(s)); err != nil {
		return s.retry("apply its Service", err)
	}
	return nil
}

// reconcileDeployment brings the Deployment to what the spec asks for. As long as that can't be, it keeps the version that is there, and
// changes nothing but how many pods run.
func (r *Reconciler) reconcileDeployment(ctx context.Context, s *scope) error {
	if !s.deployable() {
		return r.scale(ctx, s)
	}
	desired, revision := buildDeployment(s, r.Config)
	if changedByTenant(s.deployment, desired) {
		// It comes first, on the runtime image that is known to be good, and may be what another one lacked.
		s.unhold()
		r.leave(s)
		desired, revision = buildDeployment(s, r.Config)
	}
	if waitsForTurn(s.deployment, desired, s.now) && !s.mayReplace() {
		s.deployed, s.revision, s.podsWait = true, s.deployment.Spec.Template.Labels[revisionLabel], true
		return r.scale(ctx, s)
	}
	deployment, err := r.applyDeployment(ctx, s.deployment, desired)
	if apierrors.IsInvalid(err) {
		s.stop(fault.Terminal(v1alpha1.ReasonSpecRefused, "the API server refuses the pods that the spec describes: %v", err), reconcile.Recheck)
		return r.scale(ctx, s)
	}
	if err != nil {
		return s.retry("apply its Deployment", err)
	}
	s.deployment, s.deployed, s.revision = deployment, true, revision
	return nil
}

func (r *Reconciler) scale(ctx context.Context, s *scope) error {
	if s.deployment == nil || (s.deployment.Spec.Replicas != nil && *s.deployment.Spec.Replicas == s.replicas()) {
		return nil
	}
	desired, err := extractDeployment(s.deployment)
	if err != nil {
		return err
	}
	if desired.Spec == nil {
		return nil // not made by sless
	}
	desired.Spec.WithReplicas(s.replicas())
	deployment, err := r.applyDeployment(ctx, s.deployment, desired)
	if err != nil {
		return fmt.Errorf("scale Deployment of Function %s: %w", s.key(), err)
	}
	s.deployment = deployment
	return nil
}

// retry notes for the status what could not be done, and returns the error for the queue to try again.
func (s *scope) retry(what string, err error) error {
	s.stop(fault.Transient(v1alpha1.ReasonDeploying, "sless could not %s and tries again: %v", what, err), 0)
	return fmt.Errorf("%s of Function %s: %w", what, s.key(), err)
}

// observeRollout judges how far the pods of the version that the spec asks for are.
func (r *Reconciler) observeRollout(ctx context.Context, s *scope) error {
	defer r.doubt(s)
	if !s.deployed {
		return nil
	}
	s.rollout = judgeDeployment(s.deployment, s.replicas(), s.now)
	if s.rollout.complete || s.rollout.unobserved || s.replicas() == 0 {
		return nil
	}
	var pods corev1.PodList
	labels := client.MatchingLabels(names.Selector(Kind, s.function.Namespace, s.function.Name))
	labels[revisionLabel] = s.revision
	if err := r.Reader.List(ctx, &pods, client.InNamespace(s.tenant), labels); err != nil {
		return fmt.Errorf("list Pods of Function %s: %w", s.key(), err)
	}
	s.rollout.judgePods(pods.Items, s.now)
	return nil
}

// doubt keeps in mind whether the image may be lost.
func (r *Reconciler) doubt(s *scope) {
	switch {
	case s.rollout.complete:
		r.doubts.Delete(s.key())
	case s.rollout.problem != nil && s.rollout.problem.Reason == v1alpha1.ReasonImagePullFailed:
		r.doubts.Store(s.key(), true)
	}
}

// observeRouting asks the gateways, when the Function has calls from outside and all else is done.
func (r *Reconciler) observeRouting(ctx context.Context, s *scope) error {
	if !s.rollout.complete || !s.triggers.enabledHTTP || s.replicas() == 0 {
		s.routing.Complete = true
		return nil
	}
	s.routing = r.Gateways.Routing(ctx, s.key(), s.revision)
	if s.routing.Early {
		return reconcile.Stop
	}
	return nil
}

// collectEnv deletes environments of versions that are gone.
func (r *Reconciler) collectEnv(ctx context.Context, s *scope) error {
	if !s.rollout.complete || !s.routing.Complete {
		return nil
	}
	again, err := r.Env.Collect(ctx, s.function, s.tenant, s.envSecret)
	s.collectAgain = again
	return err
}
