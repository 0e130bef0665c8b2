package resources

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// A note is a Lease in the platform's namespace which says that a Secret is being made for a Function that may never refer to it, because
// this process may end before. The apiserver may not list Secrets; of what it left behind it knows by these. The admission policy lets it
// write no Lease of another name.
const (
	notePrefix     = "secret-env-"
	noteAnnotation = "sless.io/secret"
	componentLabel = "app.kubernetes.io/component"
	component      = "secret-env"
)

// noteAge is how old a note is when its request has ended for certain.
const noteAge = 15 * time.Minute

// note writes that the Secret is being made for the Function.
func (e *Secrets) note(ctx context.Context, fn *v1alpha1.Function, secret string) (*coordinationv1.Lease, error) {
	labels := names.Labels("Function", fn.Namespace, fn.Name, fn.UID)
	labels[componentLabel] = component
	note := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: names.SystemNamespace, Name: notePrefix + names.Hash(fn.Namespace, secret)[:40],
			Labels: labels, Annotations: map[string]string{noteAnnotation: secret},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("apiserver"), LeaseDurationSeconds: new(int32(noteAge / time.Second))},
	}
	if err := e.Store.Client.Create(ctx, note); err != nil {
		return nil, fmt.Errorf("note Secret %s/%s: %w", fn.Namespace, secret, err)
	}
	return note, nil
}

// Sweep ends what requests have begun whose process ended before they did: a Secret to which its Function refers gets its owner, another is
// deleted. Replicas may do it at the same time.
func (e *Secrets) Sweep(ctx context.Context, now time.Time) error {
	notes := &coordinationv1.LeaseList{}
	err := e.Store.Client.List(ctx, notes, client.InNamespace(names.SystemNamespace), client.MatchingLabels{componentLabel: component})
	if err != nil {
		return fmt.Errorf("list notes of Secrets: %w", err)
	}
	var errs []error
	for i := range notes.Items {
		if note := &notes.Items[i]; now.Sub(note.CreationTimestamp.Time) > noteAge {
			errs = append(errs, e.resolve(ctx, note))
		}
	}
	return errors.Join(errs...)
}

func (e *Secrets) resolve(ctx context.Context, note *coordinationv1.Lease) error {
	_, owner, ok := names.Owner(note.Labels)
	name := note.Annotations[noteAnnotation]
	if !ok || name == "" {
		return nil // not written here
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: name}}
	fn := &v1alpha1.Function{}
	err := e.Store.Get(ctx, owner, fn)
	switch {
	case err == nil && refersTo(fn, name):
		err = e.own(ctx, secret, fn)
	case err == nil || apierrors.IsNotFound(err):
		err = e.Store.Client.Delete(ctx, secret)
	}
	// Forbidden is what the admission policy says of a Secret that is not of sless: somebody else has taken the name.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("end what was begun with Secret %s/%s: %w", owner.Namespace, name, err)
	}
	return client.IgnoreNotFound(e.Store.Client.Delete(ctx, note))
}

// own makes the Function the owner of a Secret, which goes with it then.
func (e *Secrets) own(ctx context.Context, secret *corev1.Secret, fn *v1alpha1.Function) error {
	owned := secret.DeepCopy()
	owned.OwnerReferences = ownedBy(fn)
	owned.Labels = names.Labels("Function", fn.Namespace, fn.Name, fn.UID)
	return e.Store.Client.Patch(ctx, owned, client.MergeFrom(secret))
}

// refersTo says whether a variable of the Function comes from the Secret.
func refersTo(fn *v1alpha1.Function, secret string) bool {
	for _, env := range fn.Spec.Env {
		if env.ValueFrom != nil && env.ValueFrom.SecretKeyRef != nil && env.ValueFrom.SecretKeyRef.Name == secret {
			return true
		}
	}
	return false
}
