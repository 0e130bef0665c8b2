package function

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build"
)

// retainImages remembers the image that serves, once what the spec asks for is what serves, and says which of the Function's images
// the registry must keep.
func (r *Reconciler) retainImages(_ context.Context, s *scope) error {
	if s.obstacle != nil || !s.deployed || !s.rollout.complete || !s.routing.Complete {
		return nil
	}
	status := &s.function.Status
	if image := runningImage(s.deployment); image != "" {
		status.Images = lastUsed(status.Images, usedImage(status, image), r.Config.Build.KeepImages)
	}
	keep := references(status.Images)
	for _, image := range []string{status.Image, upgradeImage(status)} {
		if image != "" && !slices.Contains(keep, image) {
			keep = append(keep, image) // it is about to be rolled out
		}
	}
	owner := build.Owner{Namespace: s.function.Namespace, Name: s.function.Name}
	r.Builder.Retain(owner, keep, func(ctx context.Context) ([]string, error) { return r.imagesInUse(ctx, owner) })
	return nil
}

// runningImage is the image of a Deployment's pods; "" if it is not one of sless's.
func runningImage(deployment *appsv1.Deployment) string {
	if containers := deployment.Spec.Template.Spec.Containers; len(containers) > 0 {
		return containers[0].Image
	}
	return ""
}

// upgradeImage is the image of an upgrade under way, or "".
func upgradeImage(status *v1alpha1.FunctionStatus) string {
	if status.Upgrade == nil {
		return ""
	}
	return status.Upgrade.Image
}

// usedImage is what is remembered of an image that runs. Of one that is not the image of the status, only that it was used.
func usedImage(status *v1alpha1.FunctionStatus, image string) v1alpha1.UsedImage {
	if image != status.Image {
		return v1alpha1.UsedImage{Image: image}
	}
	return v1alpha1.UsedImage{
		Image: image, SourceDigest: status.SourceDigest, SourceRevision: status.SourceRevision,
		BuildKey: status.BuildKey, RuntimeVersion: status.RuntimeVersion,
	}
}

// lastUsed puts an image in front of those that were used before it, of which it keeps so many that there are most in all.
func lastUsed(before []v1alpha1.UsedImage, used v1alpha1.UsedImage, most int) []v1alpha1.UsedImage {
	images := []v1alpha1.UsedImage{used}
	for _, earlier := range before {
		if earlier.Image != used.Image && len(images) < most {
			images = append(images, earlier)
		}
	}
	return images
}

// recall goes back to an image that was used before, if it was made of what the spec names now. A source that may have other bytes by now
// under the same name is read.
func (s *scope) recall(request build.Request, key string) {
	if !request.Source.Fixed() {
		return
	}
	status := &s.function.Status
	for _, used := range status.Images {
		if used.BuildKey == key && used.RuntimeVersion == request.Runtime.Image {
			status.Image, status.SourceDigest, status.SourceRevision = used.Image, used.SourceDigest, used.SourceRevision
			status.BuildKey, status.RuntimeVersion = used.BuildKey, used.RuntimeVersion
			status.RuntimeHeld, status.Upgrade = "", nil
			status.LastBuiltAt = new(metav1.NewTime(s.now).Rfc3339Copy())
			status.Build = &v1alpha1.BuildStatus{Step: string(build.Done)}
			return
		}
	}
}

func references(images []v1alpha1.UsedImage) []string {
	list := make([]string, 0, len(images))
	for _, used := range images {
		list = append(list, used.Image)
	}
	return list
}

// imagesInUse lists the images that anything of the tenant's uses apart from the Function itself: its other Functions, those that may name
// the image of this one as their source included; its FunctionJobs that have not ended; and whatever is in its pods.
func (r *Reconciler) imagesInUse(ctx context.Context, owner build.Owner) ([]string, error) {
	var used []string
	var functions v1alpha1.FunctionList
	if err := r.Client.List(ctx, &functions, client.InNamespace(owner.Namespace), client.UnsafeDisableDeepCopy); err != nil { // only looked at
		return nil, fmt.Errorf("list Functions of %s: %w", owner.Namespace, err)
	}
	for i := range functions.Items {
		function := &functions.Items[i]
		used = append(used, function.Spec.Source.Image, function.Status.Image, upgradeImage(&function.Status))
		if function.Name != owner.Name {
			used = append(used, references(function.Status.Images)...)
		}
	}
	var jobs v1alpha1.FunctionJobList
	if err := r.Client.List(ctx, &jobs, client.InNamespace(owner.Namespace)); err != nil {
		return nil, fmt.Errorf("list FunctionJobs of %s: %w", owner.Namespace, err)
	}
	for i := range jobs.Items {
		if status := &jobs.Items[i].Status; status.CompletionTime == nil {
			used = append(used, status.Image)
		}
	}
	running, err := r.imagesInPods(ctx, names.FunctionNamespace(owner.Namespace))
	return append(used, running...), err
}

func (r *Reconciler) imagesInPods(ctx context.Context, tenant string) ([]string, error) {
	var used []string
	add := func(pod *corev1.PodSpec) {
		for i := range pod.Containers {
			used = append(used, pod.Containers[i].Image)
		}
	}
	var sets appsv1.ReplicaSetList
	if err := r.Reader.List(ctx, &sets, client.InNamespace(tenant)); err != nil {
		return nil, fmt.Errorf("list ReplicaSets of %s: %w", tenant, err)
	}
	for i := range sets.Items {
		add(&sets.Items[i].Spec.Template.Spec)
	}
	var pods corev1.PodList
	if err := r.Reader.List(ctx, &pods, client.InNamespace(tenant)); err != nil {
		return nil, fmt.Errorf("list Pods of %s: %w", tenant, err)
	}
	for i := range pods.Items {
		add(&pods.Items[i].Spec)
	}
	return used, nil
}
