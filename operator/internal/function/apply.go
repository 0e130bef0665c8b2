package function

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
)

// applyDeployment writes the Deployment unless current, which may be nil, has just what is desired, and returns what is there then.
func (r *Reconciler) applyDeployment(ctx context.Context, current *appsv1.Deployment, desired *appsv1ac.DeploymentApplyConfiguration) (*appsv1.Deployment, error) {
	if current != nil {
		owned, err := extractDeployment(current)
		if err != nil {
			return nil, err
		}
		if same, err := same[appsv1.Deployment](owned, desired); same || err != nil {
			return current, err
		}
	}
	if err := r.apply(ctx, desired); err != nil {
		return nil, err
	}
	return decode[appsv1.Deployment](desired) // the answer is read into what was sent
}

// applyService writes the Service unless current, which may be nil, has just what is desired.
func (r *Reconciler) applyService(ctx context.Context, current *corev1.Service, desired *corev1ac.ServiceApplyConfiguration) error {
	if current != nil {
		owned, err := corev1ac.ExtractService(current, names.ManagedBy)
		if err != nil {
			return fmt.Errorf("extract Service %s/%s: %w", current.Namespace, current.Name, err)
		}
		if same, err := same[corev1.Service](owned, desired); same || err != nil {
			return err
		}
	}
	return r.apply(ctx, desired)
}

func (r *Reconciler) apply(ctx context.Context, desired runtime.ApplyConfiguration) error {
	return r.Client.Apply(ctx, desired, client.FieldOwner(names.ManagedBy), client.ForceOwnership)
}

// extractDeployment returns what sless has applied of a Deployment and nobody has changed since.
func extractDeployment(current *appsv1.Deployment) (*appsv1ac.DeploymentApplyConfiguration, error) {
	owned, err := appsv1ac.ExtractDeployment(current, names.ManagedBy)
	if err != nil {
		return nil, fmt.Errorf("extract Deployment %s/%s: %w", current.Namespace, current.Name, err)
	}
	return owned, nil
}

// same says whether two apply configurations of a T mean the same: they are compared as T, where 1000m is 1.
func same[T any](a, b any) (bool, error) {
	left, err := decode[T](a)
	if err != nil {
		return false, err
	}
	right, err := decode[T](b)
	if err != nil {
		return false, err
	}
	return equality.Semantic.DeepEqual(left, right), nil
}

func decode[T any](configuration any) (*T, error) {
	text, err := json.Marshal(configuration)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", configuration, err)
	}
	object := new(T)
	if err := json.Unmarshal(text, object); err != nil {
		return nil, fmt.Errorf("decode %T: %w", configuration, err)
	}
	return object, nil
}
