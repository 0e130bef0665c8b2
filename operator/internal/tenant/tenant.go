// Package tenant keeps the namespace in which the functions of one user's namespace run: makes it with its boundaries when the
// first child needs it, renews them, and removes it after the last.
package tenant

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
)

var (
	// ErrNotAllowed says that a namespace may have no functions; only a change of names helps.
	ErrNotAllowed = errors.New("functions are not allowed here")
	// ErrTerminating says that a namespace is being deleted, so that nothing can be made in it now.
	ErrTerminating = errors.New("namespace is being deleted")
)

// Tenants keeps the namespaces of all tenants. Its reads come from Client's cache.
type Tenants struct {
	Client client.Client
	// PullConfigFile is the Docker config.json that is copied into every tenant's namespace.
	PullConfigFile string
	// Network has the address ranges that functions may call although they are private, and those that they may not.
	Network config.Network
	// Limits bound the tenants whose namespace has no quota.
	Limits config.Tenants

	mu      sync.Mutex
	applied map[string]applied // by the user's namespace; guarded by mu
}

// applied is what was last written for a tenant.
type applied struct {
	uid    types.UID // of the namespace that was made
	digest string    // of what was written
	at     time.Time
}

// boundariesAnnotation is on the namespace made for a tenant, and stands for the boundaries that were written, but for the credentials.
const boundariesAnnotation = "sless.io/boundaries"

// renewAfter is how old the boundaries of a tenant may be before they are written again, in case somebody changed them.
const renewAfter = time.Hour

// Check says, by an error that wraps ErrNotAllowed, that a namespace may have no functions: those of Kubernetes and of sless.
func Check(namespace string) error {
	for _, prefix := range []string{"kube-", "sless-"} {
		if strings.HasPrefix(namespace, prefix) {
			return fmt.Errorf("%w: namespace %s begins with %s, which belongs to the platform; use another namespace", ErrNotAllowed, namespace, prefix)
		}
	}
	return nil
}

// Ensure makes the namespace in which the functions of a user's namespace run, with its boundaries, and returns its name. It
// writes nothing when all of it is there. Its error wraps ErrNotAllowed, or ErrTerminating, or is one of the API server's.
func (t *Tenants) Ensure(ctx context.Context, namespace string) (string, error) {
	if err := Check(namespace); err != nil {
		return "", err
	}
	var user corev1.Namespace
	if err := t.Client.Get(ctx, client.ObjectKey{Name: namespace}, &user); err != nil {
		return "", fmt.Errorf("get Namespace %s: %w", namespace, err)
	}
	if !user.DeletionTimestamp.IsZero() {
		return "", fmt.Errorf("%w: %s", ErrTerminating, namespace)
	}
	made, err := t.ensureNamespace(ctx, &user)
	if err != nil {
		return "", err
	}
	pullConfig, err := readPullConfig(t.PullConfigFile)
	if err != nil {
		return "", err
	}
	limits, err := t.userLimits(ctx, namespace)
	if err != nil {
		return "", err
	}
	return made.Name, t.ensureBoundaries(ctx, made, pullConfig, limits)
}

// ensureNamespace returns the tenant's namespace. One that is left from an earlier namespace of the user's name is removed first, so that
// nothing is inherited.
func (t *Tenants) ensureNamespace(ctx context.Context, user *corev1.Namespace) (*corev1.Namespace, error) {
	name := names.FunctionNamespace(user.Name)
	var made corev1.Namespace
	err := t.Client.Get(ctx, client.ObjectKey{Name: name}, &made)
	if apierrors.IsNotFound(err) {
		made = *newNamespace(user)
		if err := t.Client.Create(ctx, &made, client.FieldOwner(names.ManagedBy)); err != nil {
			return nil, fmt.Errorf("create Namespace %s: %w", name, err)
		}
		return &made, nil
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("get Namespace %s: %w", name, err)
	case made.Labels[names.ManagedByLabel] != names.ManagedBy || made.Labels[names.NamespaceLabel] != user.Name:
		return nil, fmt.Errorf("%w: namespace %s, in which the functions of %s would run, belongs to something else; rename one of the two", ErrNotAllowed, name, user.Name)
	case !made.DeletionTimestamp.IsZero():
		return nil, fmt.Errorf("%w: %s", ErrTerminating, name)
	case made.Labels[names.UIDLabel] != string(user.UID):
		if err := t.remove(ctx, &made); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s, left from an earlier namespace %s", ErrTerminating, name, user.Name)
	}
	return &made, nil
}

// ensureBoundaries writes the objects that bound a tenant unless they were written lately.
func (t *Tenants) ensureBoundaries(ctx context.Context, made *corev1.Namespace, pullConfig []byte, limits limits) error {
	key := made.Labels[names.NamespaceLabel]
	bounds, err := limits.build(made.Name)
	if err != nil {
		return err
	}
	build := func(pullConfig []byte) []runtime.ApplyConfiguration {
		return append(buildBoundaries(key, made.Name, made.Labels[names.UIDLabel], pullConfig, t.Network), bounds...)
	}
	objects := build(pullConfig)
	digest, err := digestOf(objects)
	if err != nil {
		return err
	}
	t.mu.Lock()
	last, known := t.applied[key]
	t.mu.Unlock()
	if known && last.uid == made.UID && last.digest == digest && time.Since(last.at) < renewAfter {
		return nil
	}
	mark, err := digestOf(build(nil)) // of credentials not even a digest is for all to read
	if err != nil {
		return err
	}
	if !known && made.Annotations[boundariesAnnotation] == mark && t.hasPullConfig(ctx, made.Name, pullConfig) {
		// An earlier process has written all this, nobody knows when: they are renewed at any time in the hour, not all at once.
		t.remember(key, applied{uid: made.UID, digest: digest, at: time.Now().Add(-rand.N(renewAfter))})
		return nil
	}
	for _, object := range objects {
		err := t.apply(ctx, object)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return fmt.Errorf("%w: %s", ErrTerminating, made.Name)
		}
		if err != nil {
			return fmt.Errorf("apply boundaries of Namespace %s: %w", made.Name, err)
		}
	}
	if err := t.dropLimits(ctx, made.Name, limits); err != nil {
		return err
	}
	// It comes last, so that it is true. The first of the objects is the namespace without it.
	marked := corev1ac.Namespace(made.Name).WithLabels(namespaceLabels(key, made.Labels[names.UIDLabel])).WithAnnotations(map[string]string{boundariesAnnotation: mark})
	if err := t.apply(ctx, marked); err != nil {
		return fmt.Errorf("mark Namespace %s: %w", made.Name, err)
	}
	t.remember(key, applied{uid: made.UID, digest: digest, at: time.Now()})
	return nil
}

func (t *Tenants) remember(key string, what applied) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.applied == nil {
		t.applied = map[string]applied{}
	}
	t.applied[key] = what
}

// hasPullConfig says whether a tenant's namespace has these pull credentials. They are written when that can't be told.
func (t *Tenants) hasPullConfig(ctx context.Context, made string, pullConfig []byte) bool {
	var secret corev1.Secret
	err := t.Client.Get(ctx, client.ObjectKey{Namespace: made, Name: PullSecret}, &secret)
	return err == nil && bytes.Equal(secret.Data[corev1.DockerConfigJsonKey], pullConfig)
}

// apply writes one object. The operator's own rights in a new namespace come from a RoleBinding that it, or another worker, has just made
// there, and which the API server knows a moment later: until then it refuses.
func (t *Tenants) apply(ctx context.Context, object runtime.ApplyConfiguration) error {
	var err error
	waitErr := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 3*time.Second, true, func(ctx context.Context) (bool, error) {
		err = t.Client.Apply(ctx, object, client.FieldOwner(names.ManagedBy), client.ForceOwnership)
		return !apierrors.IsForbidden(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), nil
	})
	if err != nil {
		return err
	}
	return waitErr
}

// Release removes the namespace in which the functions of a user's namespace run when that has no Function and no FunctionJob any
// more. Call it when one is gone.
func (t *Tenants) Release(ctx context.Context, namespace string) error {
	var made corev1.Namespace
	if err := t.Client.Get(ctx, client.ObjectKey{Name: names.FunctionNamespace(namespace)}, &made); err != nil {
		return client.IgnoreNotFound(err)
	}
	if made.Labels[names.ManagedByLabel] != names.ManagedBy || made.Labels[names.NamespaceLabel] != namespace || !made.DeletionTimestamp.IsZero() {
		return nil
	}
	needed, err := t.needed(ctx, namespace)
	if err != nil || needed {
		return err
	}
	return t.remove(ctx, &made)
}

// needed says whether a user's namespace has a Function or a FunctionJob.
func (t *Tenants) needed(ctx context.Context, namespace string) (bool, error) {
	for _, list := range []client.ObjectList{&v1alpha1.FunctionList{}, &v1alpha1.FunctionJobList{}} {
		if err := t.Client.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
			return false, fmt.Errorf("list %T of %s: %w", list, namespace, err)
		}
		if meta.LenList(list) > 0 {
			return true, nil
		}
	}
	return false, nil
}

func (t *Tenants) remove(ctx context.Context, made *corev1.Namespace) error {
	t.mu.Lock()
	delete(t.applied, made.Labels[names.NamespaceLabel])
	t.mu.Unlock()
	ctrl.LoggerFrom(ctx).Info("remove namespace", "name", made.Name)
	if err := t.Client.Delete(ctx, made, client.Preconditions{UID: &made.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Namespace %s: %w", made.Name, err)
	}
	return nil
}
