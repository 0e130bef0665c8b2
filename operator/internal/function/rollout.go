package function

import (
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// rollout is how far the pods of one version are.
type rollout struct {
	// unobserved says that the Deployment's own controller has not seen its spec yet.
	unobserved bool
	// complete says that as many pods as asked for answer, all of this version, and that no others are left.
	complete bool
	// message says what is missing when it is not complete.
	message string
	// problem is why it does not become complete by itself; overdue says that it is given up.
	problem *fault.Error
	overdue bool
	// unplaced says that no node takes a pod of this version.
	unplaced bool
	// ready is how many pods of this version answer, wanted how many should.
	ready, wanted int32
}

// again is how soon to look again; 0 is when the Deployment changes.
func (o rollout) again() time.Duration {
	switch {
	case o.complete || o.unobserved:
		return 0
	case o.problem != nil:
		return problemEvery
	}
	return rolloutEvery
}

const (
	// problemEvery is how often pods that do not start are looked at; when they do, the Deployment changes.
	problemEvery = 30 * time.Second
	// pullGrace is how long a pull may fail before it counts: in a new namespace the first one may be refused for some seconds, and
	// a registry may restart.
	pullGrace = 30 * time.Second
	// refusalGrace is how long the cluster may refuse pods before it counts: it does so for moments after a quota was made.
	refusalGrace = 10 * time.Second
)

// judgeDeployment judges a roll-out by the Deployment alone.
func judgeDeployment(deployment *appsv1.Deployment, wanted int32, now time.Time) rollout {
	status := &deployment.Status
	o := rollout{wanted: wanted, unobserved: status.ObservedGeneration < deployment.Generation}
	if o.unobserved {
		o.message = "the cluster has not begun to start the pods"
		return o
	}
	if status.UpdatedReplicas == status.Replicas {
		o.ready = status.ReadyReplicas
	}
	o.complete = status.UpdatedReplicas == wanted && status.Replicas == wanted && status.AvailableReplicas == wanted
	switch {
	case o.complete:
		return o
	case status.UpdatedReplicas < wanted || status.AvailableReplicas < wanted:
		o.message = fmt.Sprintf("%d of %d pods answer", min(o.ready, wanted), wanted)
	default:
		o.message = fmt.Sprintf("%d pods have yet to go", status.Replicas-wanted)
	}
	for _, condition := range status.Conditions {
		o.overdue = o.overdue || (condition.Type == appsv1.DeploymentProgressing && condition.Status == corev1.ConditionFalse)
		switch {
		case condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue:
			if now.Sub(condition.LastTransitionTime.Time) < refusalGrace {
				o.message += "; the cluster refuses the pods: " + condition.Message
				continue
			}
			o.problem = fault.Terminal(v1alpha1.ReasonQuotaExceeded, "the cluster refuses the pods: %s", condition.Message)
		case condition.Type == appsv1.DeploymentProgressing && condition.Status == corev1.ConditionFalse && o.problem == nil:
			o.problem = fault.Terminal(v1alpha1.ReasonProgressDeadlineExceeded, "the pods did not become ready in time: %s", o.message)
		}
	}
	return o
}

// judgePods looks for the reason in the pods of the version. What a pod itself says is nearer to the cause than its Deployment.
func (o *rollout) judgePods(pods []corev1.Pod, now time.Time) {
	o.ready = 0
	detail := ""
	for i := range pods {
		pod := &pods[i]
		if !pod.DeletionTimestamp.IsZero() {
			continue
		}
		if isReady(pod) {
			o.ready++
			continue
		}
		o.unplaced = o.unplaced || unplaced(pod) != ""
		problem, waiting := judgePod(pod, now)
		if problem != nil && (o.problem == nil || o.problem.Reason == v1alpha1.ReasonProgressDeadlineExceeded) {
			o.problem = problem
		}
		if waiting != "" {
			detail = waiting
		}
	}
	if o.ready >= o.wanted && o.problem != nil && o.problem.Reason == v1alpha1.ReasonProgressDeadlineExceeded {
		o.problem, o.overdue = nil, false // what was late is the version that was taken back, whose pods have yet to go
	}
	if detail == "" {
		return
	}
	o.message += "; " + detail
	if o.problem != nil && o.problem.Reason == v1alpha1.ReasonProgressDeadlineExceeded {
		o.problem = fault.Terminal(o.problem.Reason, "%s; %s", o.problem.Message, detail)
	}
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// judgePod says why a pod that is not ready will not become so, or what it waits for.
func judgePod(pod *corev1.Pod, now time.Time) (problem *fault.Error, waiting string) {
	if why := unplaced(pod); why != "" {
		return nil, why
	}
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if ended := lastEnd(status); ended != nil {
			return fault.Terminal(v1alpha1.ReasonCrashed, "%s", describeEnd(ended)), ""
		}
		wait := status.State.Waiting
		if wait == nil {
			continue
		}
		lasting := now.Sub(pod.CreationTimestamp.Time) > pullGrace
		switch wait.Reason {
		case "InvalidImageName", "ErrImageNeverPull":
			return fault.Terminal(v1alpha1.ReasonImagePullFailed, "the node can't pull the image: %s", wait.Message), ""
		case "ImagePullBackOff", "ErrImagePull":
			if lasting {
				return fault.Terminal(v1alpha1.ReasonImagePullFailed, "the node can't pull the image: %s", wait.Message), ""
			}
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			if lasting {
				return fault.Terminal(v1alpha1.ReasonCrashed, "the container can't be started: %s", wait.Message), ""
			}
		}
		if wait.Message != "" {
			waiting = wait.Reason + ": " + wait.Message
		}
	}
	return nil, waiting
}

// unplaced says why no node takes a pod; "" is that one has.
func unplaced(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return "no node takes pod " + pod.Name + ": " + condition.Message
		}
	}
	return ""
}

// lastEnd returns how a container ended that is not ready and has ended before, whether it is down now or has been started again.
func lastEnd(status *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if status.State.Terminated != nil {
		return status.State.Terminated
	}
	return status.LastTerminationState.Terminated
}

// describeEnd gives a container's last words: the runtime writes why it can't go on as {"error": …}, other images write something.
func describeEnd(ended *corev1.ContainerStateTerminated) string {
	if ended.Reason == "OOMKilled" {
		return "the function needed more memory than its limit and was ended; raise resources.limits.memory"
	}
	var words struct {
		Error string `json:"error"`
	}
	if json.Unmarshal([]byte(ended.Message), &words) == nil && words.Error != "" {
		return "the function does not start: " + words.Error
	}
	if ended.Message != "" {
		return fmt.Sprintf("the function's process ends by itself (exit code %d): %s", ended.ExitCode, ended.Message)
	}
	return fmt.Sprintf("the function's process ends by itself (exit code %d) and says nothing; see the pod's log", ended.ExitCode)
}
