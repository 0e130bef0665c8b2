package reconcile

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// LiveFunction reads a Function; it is nil when there is none, and when it is being deleted.
func LiveFunction(ctx context.Context, c client.Reader, key client.ObjectKey) (*v1alpha1.Function, error) {
	function := &v1alpha1.Function{}
	switch err := c.Get(ctx, key, function); {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("get Function %s: %w", key, err)
	case err != nil || !function.DeletionTimestamp.IsZero():
		return nil, nil
	}
	return function, nil
}

// OwnerOfKind maps a child to the owner that its labels name, when that is of the kind.
func OwnerOfKind(kind string) handler.MapFunc {
	return func(_ context.Context, child client.Object) []ctrl.Request {
		is, owner, ok := names.Owner(child.GetLabels())
		if !ok || is != kind {
			return nil
		}
		return []ctrl.Request{{NamespacedName: owner}}
	}
}
