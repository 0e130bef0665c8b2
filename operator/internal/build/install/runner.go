package install

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/config"
)

// Runner runs Jobs in the build namespace.
type Runner struct {
	client kubernetes.Interface
	config config.Config
	signer Signer
}

// NewRunner returns a Runner.
func NewRunner(client kubernetes.Interface, cfg config.Config, signer Signer) *Runner {
	return &Runner{client: client, config: cfg, signer: signer}
}

// Ensure makes the Job, or adopts the one of the same key that is there already, from whatever moment it was left at.
func (r *Runner) Ensure(ctx context.Context, spec Spec) error {
	job, err := r.client.BatchV1().Jobs(names.BuildNamespace).Create(ctx, buildJob(spec, r.config), metav1.CreateOptions{FieldManager: names.ManagedBy})
	if apierrors.IsAlreadyExists(err) {
		job, err = r.client.BatchV1().Jobs(names.BuildNamespace).Get(ctx, JobName(spec.Key), metav1.GetOptions{})
	}
	if err != nil {
		return explainRefusal("make the build Job", err)
	}
	if job.DeletionTimestamp != nil {
		return fault.Transient(v1alpha1.ReasonBuilding, "an earlier Job of the same build is being removed")
	}
	if job.Spec.Suspend == nil || !*job.Spec.Suspend {
		return nil
	}
	if err := r.applyParts(ctx, spec, job); err != nil {
		return err
	}
	// A patch, because the Job controller writes the status of the same object meanwhile.
	start := []byte(`{"spec":{"suspend":false}}`)
	if _, err := r.client.BatchV1().Jobs(names.BuildNamespace).Patch(ctx, job.Name, types.MergePatchType, start, metav1.PatchOptions{FieldManager: names.ManagedBy}); err != nil {
		return explainRefusal("start the build Job", err)
	}
	return nil
}

// applyParts makes what the pod mounts. It belongs to the Job and goes with it.
func (r *Runner) applyParts(ctx context.Context, spec Spec, job *batchv1.Job) error {
	pull, err := os.ReadFile(r.config.Registry.PullConfigFile)
	if err != nil {
		return fault.Transient(v1alpha1.ReasonBuildFailed, "the platform's pull credentials can't be read: %v", err)
	}
	push, err := os.ReadFile(r.config.Registry.PushConfigFile)
	if err != nil {
		return fault.Transient(v1alpha1.ReasonBuildFailed, "the platform's push credentials can't be read: %v", err)
	}
	trust, err := r.trust()
	if err != nil {
		return fault.Transient(v1alpha1.ReasonBuildFailed, "a CA bundle of the platform can't be read: %v", err)
	}
	secrets := map[string][]byte{corev1.DockerConfigJsonKey: pull, pushFile: push}
	if spec.Parcel != nil {
		address, err := r.signer.SignParcel(ctx, spec.Parcel.Object, time.Duration(spec.TimeoutSeconds+graceSeconds)*time.Second)
		if err != nil {
			return err
		}
		secrets[addressFile] = []byte(address)
	}
	if len(spec.Index) > 0 {
		maps.Copy(secrets, spec.Index)
		secrets[secretsFile] = []byte(strings.Join(spec.Index.secrets(), "\n"))
	}
	owner := metaapply.OwnerReference().WithAPIVersion("batch/v1").WithKind("Job").WithName(job.Name).WithUID(job.UID)
	options := metav1.ApplyOptions{FieldManager: names.ManagedBy, Force: true}
	recipe := coreapply.ConfigMap(job.Name, names.BuildNamespace).WithLabels(labels(spec)).WithOwnerReferences(owner).WithData(buildRecipe(spec, trust))
	if _, err := r.client.CoreV1().ConfigMaps(names.BuildNamespace).Apply(ctx, recipe, options); err != nil {
		return explainRefusal("make the build Job's ConfigMap", err)
	}
	secret := coreapply.Secret(job.Name, names.BuildNamespace).WithLabels(labels(spec)).WithOwnerReferences(owner).
		WithType(corev1.SecretTypeDockerConfigJson).WithData(secrets)
	if _, err := r.client.CoreV1().Secrets(names.BuildNamespace).Apply(ctx, secret, options); err != nil {
		return explainRefusal("make the build Job's Secret", err)
	}
	return nil
}

// Delete removes the Job, its pod and everything that belongs to it. It is harmless when there is none.
func (r *Runner) Delete(ctx context.Context, key string) error {
	name := JobName(key)
	background := metav1.DeletePropagationBackground
	err := r.client.BatchV1().Jobs(names.BuildNamespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Job %s: %w", name, err)
	}
	// The garbage collector would take these too, but perhaps only after the next Job of this key needs new ones.
	if err := r.client.CoreV1().ConfigMaps(names.BuildNamespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ConfigMap %s: %w", name, err)
	}
	if err := r.client.CoreV1().Secrets(names.BuildNamespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Secret %s: %w", name, err)
	}
	return nil
}

// Left is a Job that is there.
type Left struct {
	// Key is what it was made for.
	Key string
	// Namespace is the tenant's.
	Namespace string
}

// List lists all Jobs there are, whoever made them.
func (r *Runner) List(ctx context.Context) ([]Left, error) {
	selector := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: map[string]string{names.ManagedByLabel: names.ManagedBy, componentLabel: component}})
	jobs, err := r.client.BatchV1().Jobs(names.BuildNamespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list build Jobs: %w", err)
	}
	left := make([]Left, 0, len(jobs.Items))
	for _, job := range jobs.Items {
		if key, ok := strings.CutPrefix(job.Name, JobName("")); ok {
			left = append(left, Left{Key: key, Namespace: job.Labels[names.NamespaceLabel]})
		}
	}
	return left, nil
}

// Progress is how far a Job is.
type Progress struct {
	// Done says that it has ended.
	Done bool
	// Err is why it failed, or, while it is not done, what keeps it from going on; nil when all is well.
	Err *fault.Error
}

// Observe looks at the Job. A Job that is gone counts as one that must run again.
func (r *Runner) Observe(ctx context.Context, key string, now time.Time) (Progress, error) {
	job, err := r.client.BatchV1().Jobs(names.BuildNamespace).Get(ctx, JobName(key), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Progress{Done: true, Err: fault.Transient(v1alpha1.ReasonBuildFailed, "the build Job was removed; it is made again")}, nil
	}
	if err != nil {
		return Progress{}, fmt.Errorf("get Job %s: %w", JobName(key), err)
	}
	if finished(job, batchv1.JobComplete) {
		return Progress{Done: true}, nil
	}
	pod, err := r.pod(ctx, job)
	if err != nil {
		return Progress{}, err
	}
	seen := observation{job: job, pod: pod, now: now, memory: r.config.Build.Memory, volume: r.config.Build.VolumeSize}
	if pod == nil && now.Sub(job.CreationTimestamp.Time) > podlessFor {
		seen.refusal = r.refusal(ctx, job)
	}
	progress, culprit := seen.progress()
	if progress.Done && culprit != "" {
		tail := r.logTail(ctx, pod, culprit)
		progress.Err = seen.explainLog(progress.Err, culprit, tail)
		progress.Err.LogTail = tail
	}
	return progress, nil
}

func (r *Runner) pod(ctx context.Context, job *batchv1.Job) (*corev1.Pod, error) {
	pods, err := r.client.CoreV1().Pods(names.BuildNamespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job.Name})
	if err != nil {
		return nil, fmt.Errorf("list pods of Job %s: %w", job.Name, err)
	}
	for _, pod := range pods.Items {
		if metav1.IsControlledBy(&pod, job) {
			return &pod, nil
		}
	}
	return nil, nil
}

// refusal returns what the Job controller says about pods it could not make.
func (r *Runner) refusal(ctx context.Context, job *batchv1.Job) string {
	events, err := r.client.CoreV1().Events(names.BuildNamespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.uid=" + string(job.UID) + ",reason=FailedCreate",
	})
	if err != nil || len(events.Items) == 0 {
		return ""
	}
	latest := slices.MaxFunc(events.Items, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	return latest.Message
}

func explainRefusal(what string, err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return fault.Transient(v1alpha1.ReasonQuotaExceeded, "%s: the cluster refuses it, by a quota or an admission policy of the build namespace, which the platform's operator must widen: %v", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func finished(job *batchv1.Job, kind batchv1.JobConditionType) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

// trust is the platform's CA bundles, as PEM.
type trust struct{ registry, store string }

func (r *Runner) trust() (t trust, err error) {
	if t.registry, err = readOptional(r.config.Registry.CAFile); err != nil {
		return t, err
	}
	t.store, err = readOptional(r.config.ObjectStore.CAFile)
	return t, err
}

func readOptional(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	return string(text), err
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
