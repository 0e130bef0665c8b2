package env

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// keepFor is how old a Secret is before it may be collected: one that is younger may be about to be used by a Job.
const keepFor = 5 * time.Minute

// Collect deletes the Secrets of a Function's environments in the tenant's namespace that nothing uses: not the current one, and no
// ReplicaSet with pods or Job that runs has it. It returns after how long to come again, or 0 when no other is left.
func (s *Store) Collect(ctx context.Context, function *v1alpha1.Function, tenant, current string) (time.Duration, error) {
	key := client.ObjectKeyFromObject(function)
	if s.isAlone(key, current) {
		return 0, nil // the API server would look through all Secrets of the namespace with each pass over each Function
	}
	secrets := metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	own := client.MatchingLabels(names.Selector("Function", function.Namespace, function.Name))
	if err := s.Reader.List(ctx, &secrets, client.InNamespace(tenant), own); err != nil {
		return 0, fmt.Errorf("list Secrets of %s: %w", tenant, err)
	}
	var others []metav1.PartialObjectMetadata
	for _, secret := range secrets.Items {
		if secret.Name != current {
			others = append(others, secret)
		}
	}
	if len(others) == 0 {
		s.setAlone(key, current)
		return 0, nil
	}
	used, err := s.used(ctx, tenant, own)
	if err != nil {
		return 0, err
	}
	now := s.now
	if now == nil {
		now = time.Now
	}
	again := time.Duration(0)
	for _, secret := range others {
		if used[secret.Name] || now().Sub(secret.CreationTimestamp.Time) < keepFor {
			again = keepFor
			continue
		}
		if err := s.Client.Delete(ctx, &secret, client.Preconditions{UID: &secret.UID}); client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("delete Secret %s/%s: %w", tenant, secret.Name, err)
		}
	}
	return again, nil
}

func (s *Store) isAlone(function client.ObjectKey, current string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	alone, known := s.alone[function]
	return known && alone == current
}

func (s *Store) setAlone(function client.ObjectKey, current string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alone == nil {
		s.alone = map[client.ObjectKey]string{}
	}
	s.alone[function] = current
}

// used returns the Secrets that pods may be started with.
func (s *Store) used(ctx context.Context, tenant string, own client.MatchingLabels) (map[string]bool, error) {
	used := map[string]bool{}
	var sets appsv1.ReplicaSetList
	if err := s.Reader.List(ctx, &sets, client.InNamespace(tenant), own); err != nil {
		return nil, fmt.Errorf("list ReplicaSets of %s: %w", tenant, err)
	}
	for _, set := range sets.Items {
		if set.Status.Replicas > 0 || set.Spec.Replicas == nil || *set.Spec.Replicas > 0 {
			use(used, &set.Spec.Template.Spec)
		}
	}
	var jobs batchv1.JobList
	if err := s.Reader.List(ctx, &jobs, client.InNamespace(tenant), client.MatchingLabels{names.ManagedByLabel: names.ManagedBy}); err != nil {
		return nil, fmt.Errorf("list Jobs of %s: %w", tenant, err)
	}
	for _, job := range jobs.Items {
		if !hasEnded(&job) {
			use(used, &job.Spec.Template.Spec)
		}
	}
	return used, nil
}

func hasEnded(job *batchv1.Job) bool {
	for _, condition := range job.Status.Conditions {
		if (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func use(used map[string]bool, pod *corev1.PodSpec) {
	for _, container := range pod.Containers {
		for _, from := range container.EnvFrom {
			if from.SecretRef != nil {
				used[from.SecretRef.Name] = true
			}
		}
	}
}
