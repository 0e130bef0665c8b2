package watch

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// strip keeps of an object what routing needs, before it enters the cache: a gateway must not hold every tenant's code, environment and
// status in memory.
func strip(object any) (any, error) {
	switch object := object.(type) {
	case *v1alpha1.Function:
		return &v1alpha1.Function{
			ObjectMeta: stripMeta(object.ObjectMeta),
			Spec: v1alpha1.FunctionSpec{
				TimeoutSeconds: object.Spec.TimeoutSeconds,
				Concurrency:    object.Spec.Concurrency,
				Replicas:       object.Spec.Replicas,
			},
			Status: v1alpha1.FunctionStatus{
				Phase: object.Status.Phase, ObservedGeneration: object.Status.ObservedGeneration,
				Image: object.Status.Image, CodeHash: object.Status.CodeHash,
			},
		}, nil
	case *v1alpha1.Trigger:
		spec := v1alpha1.TriggerSpec{FunctionRef: object.Spec.FunctionRef, Enabled: object.Spec.Enabled, Type: object.Spec.Type, HTTP: object.Spec.HTTP}
		return &v1alpha1.Trigger{ObjectMeta: stripMeta(object.ObjectMeta), Spec: spec}, nil
	case *discoveryv1.EndpointSlice:
		return stripSlice(object), nil
	case *corev1.Namespace:
		stripped := &corev1.Namespace{ObjectMeta: stripMeta(object.ObjectMeta)}
		if by := object.Labels[names.ManagedByLabel]; by == names.ManagedBy {
			stripped.Labels = map[string]string{names.ManagedByLabel: by}
		}
		return stripped, nil
	}
	return nil, fmt.Errorf("unexpected object %T", object)
}

func stripMeta(meta metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: meta.Name, Namespace: meta.Namespace, UID: meta.UID, ResourceVersion: meta.ResourceVersion, Generation: meta.Generation,
		CreationTimestamp: meta.CreationTimestamp, DeletionTimestamp: meta.DeletionTimestamp,
	}
}

func stripSlice(object *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	stripped := &discoveryv1.EndpointSlice{ObjectMeta: stripMeta(object.ObjectMeta), AddressType: object.AddressType}
	stripped.Labels = map[string]string{
		names.NamespaceLabel: object.Labels[names.NamespaceLabel],
		names.NameLabel:      object.Labels[names.NameLabel],
		names.RevisionLabel:  object.Labels[names.RevisionLabel],
	}
	for _, port := range object.Ports {
		stripped.Ports = append(stripped.Ports, discoveryv1.EndpointPort{Name: port.Name, Port: port.Port})
	}
	for _, e := range object.Endpoints {
		stripped.Endpoints = append(stripped.Endpoints, discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: e.Conditions, TargetRef: e.TargetRef})
	}
	return stripped
}
