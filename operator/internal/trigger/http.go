package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// reconcileHTTP keeps the Ingress of a Trigger that serves, and sets the URL.
func (r *Reconciler) reconcileHTTP(ctx context.Context, s *scope) error {
	s.trigger.Status.URL = ""
	if s.serves() {
		s.trigger.Status.URL = s.address.url
	}
	if s.address.host != "" && s.trigger.IsEnabled() && s.function != nil && s.winner == nil {
		return r.ensureIngress(ctx, s)
	}
	return r.removeIngress(ctx, s)
}

// ensureIngress writes the Ingress when it is not as it should be. The finalizer is there before it.
func (r *Reconciler) ensureIngress(ctx context.Context, s *scope) error {
	if controllerutil.AddFinalizer(s.trigger, names.Finalizer) {
		if err := r.patchFinalizers(ctx, s); err != nil {
			return err
		}
	}
	wanted := buildIngress(r.Config.Ingress, s.trigger, s.address.host)
	found := &networkingv1.Ingress{}
	key := client.ObjectKey{Namespace: names.SystemNamespace, Name: ingressName(s.trigger)}
	err := r.Client.Get(ctx, key, found)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get Ingress %s: %w", key, err)
	}
	if err == nil && isApplied(found, wanted) {
		return nil
	}
	if err := r.Client.Apply(ctx, wanted, client.FieldOwner(names.ManagedBy), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply Ingress %s: %w", key, err)
	}
	return nil
}

// isApplied says whether an Ingress has the labels and the spec that are wanted. Of its own, the API server writes only the default
// class into them.
func isApplied(found *networkingv1.Ingress, wanted *networkingv1ac.IngressApplyConfiguration) bool {
	for name, value := range wanted.Labels {
		if found.Labels[name] != value {
			return false
		}
	}
	spec := found.Spec.DeepCopy()
	if wanted.Spec.IngressClassName == nil {
		spec.IngressClassName = nil
	}
	have, err := json.Marshal(spec)
	if err != nil {
		return false
	}
	want, err := json.Marshal(wanted.Spec)
	return err == nil && bytes.Equal(have, want)
}

// removeIngress deletes the Ingress if there is one, and then the finalizer.
func (r *Reconciler) removeIngress(ctx context.Context, s *scope) error {
	if !controllerutil.ContainsFinalizer(s.trigger, names.Finalizer) {
		return nil
	}
	ingress := &networkingv1.Ingress{}
	ingress.Namespace, ingress.Name = names.SystemNamespace, ingressName(s.trigger)
	if err := r.Client.Delete(ctx, ingress); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Ingress %s/%s: %w", ingress.Namespace, ingress.Name, err)
	}
	controllerutil.RemoveFinalizer(s.trigger, names.Finalizer)
	return r.patchFinalizers(ctx, s)
}

// patchFinalizers writes the finalizers and takes over what the API server answers; the status in s is kept.
func (r *Reconciler) patchFinalizers(ctx context.Context, s *scope) error {
	written := s.before.DeepCopy()
	written.Finalizers = s.trigger.Finalizers
	patch := client.MergeFromWithOptions(s.before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, written, patch, client.FieldOwner(names.ManagedBy)); err != nil {
		return fmt.Errorf("write finalizers: %w", err)
	}
	s.before = written
	status := s.trigger.Status
	s.trigger = written.DeepCopy()
	s.trigger.Status = status
	return nil
}

// serves says whether a call of the URL reaches a replica. The URL is given once the Function is ready, and stays while replicas of some
// version answer, be it an older one.
func (s *scope) serves() bool {
	if !s.trigger.IsEnabled() || s.winner != nil || s.address.url == "" || s.function == nil || !isAnswering(s.function) {
		return false
	}
	return functionVerdict(s.function).reason == v1alpha1.ReasonReady || s.before.Status.URL == s.address.url
}

// isAnswering says whether a Function has replicas that answer; its own URL says so.
func isAnswering(function *v1alpha1.Function) bool {
	off := function.Spec.Replicas != nil && *function.Spec.Replicas == 0
	return !off && function.Status.URL != ""
}
