// Package builder changes the builder that a cluster's operator runs with, for a test or a benchmark.
package builder

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
)

const (
	flag = "--builder="
	// patience is how long an operator may take to be replaced.
	patience = 5 * time.Minute
)

// Use has the operator run with a builder, or with its default when kind is empty, and waits until no other operator runs. A cluster
// whose operator should have another builder than the default has it no more after a test.
func Use(ctx context.Context, kube client.Client, kind string) error {
	operator := &appsv1.Deployment{}
	if err := kube.Get(ctx, client.ObjectKey{Namespace: names.SystemNamespace, Name: "operator"}, operator); err != nil {
		return err
	}
	old := operator.DeepCopy()
	container := &operator.Spec.Template.Spec.Containers[0]
	container.Args = slices.DeleteFunc(container.Args, func(arg string) bool { return strings.HasPrefix(arg, flag) })
	if kind != "" {
		container.Args = append(container.Args, flag+kind)
	}
	if err := kube.Patch(ctx, operator, client.MergeFrom(old)); err != nil {
		return err
	}
	return replaced(ctx, kube)
}

// replaced waits until all of the operator's pods are of its present version, and ready.
func replaced(ctx context.Context, kube client.Client) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		err := differs(ctx, kube)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the operator is not replaced within %s: %w", patience, err)
		}
	}
}

func differs(ctx context.Context, kube client.Client) error {
	operator := &appsv1.Deployment{}
	if err := kube.Get(ctx, client.ObjectKey{Namespace: names.SystemNamespace, Name: "operator"}, operator); err != nil {
		return err
	}
	pods := &corev1.PodList{}
	if err := kube.List(ctx, pods, client.InNamespace(names.SystemNamespace), client.MatchingLabels(operator.Spec.Selector.MatchLabels)); err != nil {
		return err
	}
	status, wanted := operator.Status, *operator.Spec.Replicas
	if status.ObservedGeneration < operator.Generation || status.UpdatedReplicas != wanted || status.ReadyReplicas != wanted || len(pods.Items) != int(wanted) {
		return fmt.Errorf("%d of %d pods are new, %d are ready, %d exist", status.UpdatedReplicas, wanted, status.ReadyReplicas, len(pods.Items))
	}
	return nil
}
