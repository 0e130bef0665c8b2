package install

import (
	"cmp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/check"
	"github.com/naeel/sless/operator/internal/build/fault"
)

const (
	// podlessFor is how long a Job may be without a pod before the reason is looked for.
	podlessFor = 5 * time.Second
	// unpullableFor is how long an image may fail to be pulled before the attempt is given up, to begin again with a new one.
	unpullableFor = 60 * time.Second
)

// observation is a Job at a moment.
type observation struct {
	job            *batchv1.Job
	pod            *corev1.Pod // nil when there is none
	now            time.Time
	refusal        string // why the pod could not be made
	memory, volume string // the limits that the pod has
}

// progress says how far the Job is, and which container's log tells more when it failed.
func (o observation) progress() (progress Progress, culprit string) {
	if o.pod != nil && o.pod.Status.Reason == "Evicted" {
		return Progress{Done: true, Err: o.evicted()}, ""
	}
	if failed, status := o.failedContainer(); failed != "" {
		return Progress{Done: true, Err: o.explainExit(failed, status)}, failed
	}
	trouble := o.trouble()
	if limit := o.limit(); o.elapsed() > limit {
		if trouble == nil {
			trouble = fault.Terminal(v1alpha1.ReasonBuildTimeout, "the build's Job took longer than %d seconds (step %s); depend on less, or raise spec.build.timeoutSeconds", int(limit.Seconds()), o.step())
		}
		return Progress{Done: true, Err: trouble}, o.step()
	}
	if finished(o.job, batchv1.JobFailed) {
		return Progress{Done: true, Err: fault.Transient(v1alpha1.ReasonBuildFailed, "the build's pod was stopped from outside (%s); it runs again", o.podMessage())}, ""
	}
	if trouble != nil && trouble.Reason == v1alpha1.ReasonImagePullFailed && o.elapsed() > unpullableFor {
		return Progress{Done: true, Err: trouble}, ""
	}
	return Progress{Err: trouble}, ""
}

func (o observation) podMessage() string {
	if o.pod == nil {
		return "it is gone"
	}
	return cmp.Or(o.pod.Status.Message, o.pod.Status.Reason, string(o.pod.Status.Phase))
}

// limit is the time limit that the Job was made with, which need not be the one asked for now.
func (o observation) limit() time.Duration {
	seconds := *cmp.Or(o.job.Spec.ActiveDeadlineSeconds, new(int64(graceSeconds)))
	return time.Duration(seconds-graceSeconds) * time.Second
}

func (o observation) elapsed() time.Duration {
	if o.job.Status.StartTime == nil {
		return 0
	}
	return o.now.Sub(o.job.Status.StartTime.Time)
}

func (o observation) statuses() []corev1.ContainerStatus {
	if o.pod == nil {
		return nil
	}
	return slices.Concat(o.pod.Status.InitContainerStatuses, o.pod.Status.ContainerStatuses)
}

func (o observation) failedContainer() (string, *corev1.ContainerStateTerminated) {
	for _, status := range o.statuses() {
		if ended := status.State.Terminated; ended != nil && ended.ExitCode != 0 {
			return status.Name, ended
		}
	}
	return "", nil
}

// wanted is the files of which the check step needs one, as the code's author knows them.
func (o observation) wanted() []string {
	for _, container := range o.job.Spec.Template.Spec.InitContainers {
		if container.Name == checkStep {
			var files []string
			for _, name := range container.Args[2:] {
				_, name, _ = strings.Cut(name, "/")
				files = append(files, name)
			}
			return files
		}
	}
	return nil
}

// step is the container that runs, or that should.
func (o observation) step() string {
	for _, status := range o.statuses() {
		if ended := status.State.Terminated; ended == nil {
			return status.Name
		}
	}
	return ""
}

func (o observation) explainExit(container string, ended *corev1.ContainerStateTerminated) *fault.Error {
	const killed = 137
	if ended.Reason == "OOMKilled" || ended.ExitCode == killed && o.elapsed() <= o.limit() {
		return fault.Terminal(v1alpha1.ReasonBuildOutOfMemory, "step %s of the build needed more than %s of memory; depend on less, or ask the platform's operator to raise build.memory", container, o.memory)
	}
	switch container {
	case fetchStep:
		return fault.Transient(v1alpha1.ReasonObjectStoreUnavailable, "the build could not fetch its files from the object store (exit code %d); the log says why, and the build runs again", ended.ExitCode)
	case installStep:
		return fault.Terminal(v1alpha1.ReasonDependenciesFailed, "installing the dependencies failed (exit code %d); the log says which one and why", ended.ExitCode)
	case checkStep:
		if ended.ExitCode == check.Missing {
			return fault.Terminal(v1alpha1.ReasonSourceInvalid, "the build script made none of the files that spec.entrypoint needs: %s; correct the script or spec.entrypoint", strings.Join(o.wanted(), ", "))
		}
		return fault.Terminal(v1alpha1.ReasonDependenciesFailed, "what the dependencies installed is refused; the log names the file and the rule")
	}
	return fault.Transient(v1alpha1.ReasonBuildFailed, "making the image failed (exit code %d); the log says why", ended.ExitCode)
}

func (o observation) evicted() *fault.Error {
	if strings.Contains(o.pod.Status.Message, "EmptyDir") { // the kubelet gives no reason apart from its text
		return outOfDisk(o.volume)
	}
	return fault.Transient(v1alpha1.ReasonBuildFailed, "the node evicted the build (%s); it runs again", o.pod.Status.Message)
}

func outOfDisk(volume string) *fault.Error {
	return fault.Terminal(v1alpha1.ReasonBuildOutOfDisk, "the build writes more than %s; depend on less, or ask the platform's operator to raise build.volumeSize", volume)
}

// trouble is what keeps the pod from running.
func (o observation) trouble() *fault.Error {
	if o.pod == nil {
		if o.refusal == "" {
			return nil
		}
		return fault.Transient(v1alpha1.ReasonQuotaExceeded, "the cluster refuses the build's pod, by a quota or an admission policy of the build namespace, which the platform's operator must widen: %s", o.refusal)
	}
	for _, status := range o.statuses() {
		waiting := status.State.Waiting
		if waiting == nil {
			continue
		}
		switch waiting.Reason {
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
			return fault.Transient(v1alpha1.ReasonImagePullFailed, "the image %s of build step %s can't be pulled: %s", status.Image, status.Name, waiting.Message)
		case "CreateContainerConfigError", "CreateContainerError":
			return fault.Transient(v1alpha1.ReasonBuildFailed, "build step %s can't start: %s", status.Name, waiting.Message)
		}
	}
	for _, condition := range o.pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return fault.Transient(v1alpha1.ReasonBuilding, "no node has room for the build: %s", condition.Message)
		}
	}
	return nil
}
