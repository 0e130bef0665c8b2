package tenant

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
)

// sweepEvery is how soon changed pull credentials are everywhere, and a namespace that a crash left behind is gone.
const sweepEvery = 30 * time.Second

// Start sweeps until ctx ends. The manager runs it on the leader.
func (t *Tenants) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := t.Sweep(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "sweep tenants")
		}
	}, sweepEvery)
	return nil
}

// Sweep goes over all tenants once: writes boundaries that are old or whose pull credentials have changed, and removes namespaces
// that nobody needs.
func (t *Tenants) Sweep(ctx context.Context) error {
	var made corev1.NamespaceList
	if err := t.Client.List(ctx, &made, client.MatchingLabels{names.ManagedByLabel: names.ManagedBy}); err != nil {
		return fmt.Errorf("list Namespaces: %w", err)
	}
	var errs []error
	for _, namespace := range made.Items {
		user := namespace.Labels[names.NamespaceLabel]
		if user == "" || namespace.Name != names.FunctionNamespace(user) || !namespace.DeletionTimestamp.IsZero() {
			continue
		}
		if err := t.sweep(ctx, user); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (t *Tenants) sweep(ctx context.Context, user string) error {
	needed, err := t.needed(ctx, user)
	if err != nil {
		return err
	}
	if !needed {
		return t.Release(ctx, user)
	}
	if _, err := t.Ensure(ctx, user); err != nil && !errors.Is(err, ErrTerminating) && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}
