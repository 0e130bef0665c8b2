package functionjob

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/podspec"
)

const (
	// maxResult is how many bytes of a result a status keeps.
	maxResult = 3072
	// maxMessage is how many bytes a status's message has at most.
	maxMessage = 1024
	// podSoon is how long a Kubernetes Job may be without a pod before that is worth a word.
	podSoon = 10 * time.Second
)

// finished says that a Kubernetes Job starts no pod any more.
func finished(run *batchv1.Job) bool {
	return jobCondition(run, batchv1.JobComplete) != nil || jobCondition(run, batchv1.JobFailed) != nil
}

func jobCondition(run *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range run.Status.Conditions {
		if c := &run.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// endOf says how a run ended; false when it goes on. waited is what it was last seen to wait for.
func endOf(run *batchv1.Job, pods []corev1.Pod, waited string) (ending, bool) {
	if c := jobCondition(run, batchv1.JobComplete); c != nil {
		return completed(lastTerminated(pods), c.LastTransitionTime), true
	}
	c := jobCondition(run, batchv1.JobFailed)
	if c == nil {
		return ending{}, false
	}
	if c.Reason == batchv1.JobReasonDeadlineExceeded {
		message := fmt.Sprintf("stopped after %d s (timeoutSeconds)", *run.Spec.ActiveDeadlineSeconds)
		if waited != "" {
			message += ": " + waited
		}
		return ending{reason: v1alpha1.ReasonTimeout, message: message, at: c.LastTransitionTime}, true
	}
	return failed(lastTerminated(pods), run, c), true
}

func completed(terminated *corev1.ContainerStateTerminated, at metav1.Time) ending {
	e := ending{reason: v1alpha1.ReasonSucceeded, at: at}
	if terminated == nil {
		e.message = "the run ended well; its pod went before the result could be read"
		return e
	}
	e.exitCode = &terminated.ExitCode
	answer, ok := parseAnswer(terminated.Message)
	if !ok || answer.Result == nil {
		e.message = "the run ended well and left no result; the image does not keep the runtime contract"
		return e
	}
	e.result, e.truncated = resultOf(answer)
	return e
}

func failed(terminated *corev1.ContainerStateTerminated, run *batchv1.Job, c *batchv1.JobCondition) ending {
	e := ending{reason: v1alpha1.ReasonFailed, at: c.LastTransitionTime}
	if terminated == nil {
		e.message = "the run failed before its handler was started: " + c.Message
		return e
	}
	e.exitCode = &terminated.ExitCode
	e.message = why(terminated, memoryLimit(run))
	if run.Status.Failed > 1 {
		e.message = fmt.Sprintf("%d attempts failed; the last: %s", run.Status.Failed, e.message)
	}
	return e
}

// why says why a container ended badly.
func why(terminated *corev1.ContainerStateTerminated, memory string) string {
	if terminated.Reason == "OOMKilled" {
		return fmt.Sprintf("the handler needed more memory than its limit of %s; raise spec.resources.limits.memory of the Function", memory)
	}
	if answer, ok := parseAnswer(terminated.Message); ok && answer.Error != "" {
		return answer.Error
	}
	return fmt.Sprintf("the handler's process ended with exit code %d and said nothing; see the pod's log", terminated.ExitCode)
}

func memoryLimit(run *batchv1.Job) string {
	for _, container := range run.Spec.Template.Spec.Containers {
		if container.Name == podspec.Container {
			return container.Resources.Limits.Memory().String()
		}
	}
	return "?"
}

// lastTerminated returns the end of the handler's container that ended last; nil when none has.
func lastTerminated(pods []corev1.Pod) *corev1.ContainerStateTerminated {
	var ends []*corev1.ContainerStateTerminated
	for i := range pods {
		for j := range pods[i].Status.ContainerStatuses {
			status := &pods[i].Status.ContainerStatuses[j]
			if status.Name == podspec.Container && status.State.Terminated != nil {
				ends = append(ends, status.State.Terminated)
			}
		}
	}
	if len(ends) == 0 {
		return nil
	}
	return slices.MaxFunc(ends, func(a, b *corev1.ContainerStateTerminated) int {
		return cmp.Compare(a.FinishedAt.UnixNano(), b.FinishedAt.UnixNano())
	})
}

// answer is what a runtime writes to the termination log.
type answer struct {
	Result    json.RawMessage `json:"result"`
	Truncated bool            `json:"truncated"`
	Error     string          `json:"error"`
}

func parseAnswer(message string) (answer, bool) {
	var a answer
	err := json.Unmarshal([]byte(message), &a)
	return a, err == nil
}

// resultOf returns the handler's JSON. Of one that was too long the runtime gives the beginning, as a string.
func resultOf(a answer) (result string, truncated bool) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, a.Result); err != nil {
		return "", true
	}
	result = compact.String()
	var beginning string
	if a.Truncated && json.Unmarshal(a.Result, &beginning) == nil {
		result = beginning
	}
	if len(result) > maxResult {
		return cut(result, maxResult), true
	}
	return strings.ToValidUTF8(result, "�"), a.Truncated
}

// cut returns at most limit bytes of text, cut between characters.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, "�")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// obstacle says what keeps a run from going on, as far as its pods show; empty when nothing does.
func obstacle(run *batchv1.Job, pods []corev1.Pod, now time.Time) string {
	if len(pods) == 0 && now.Sub(run.CreationTimestamp.Time) > podSoon {
		return "no pod could be made so far: a quota or a policy of the cluster may refuse it (kubectl describe job " + run.Name + " -n " + run.Namespace + ")"
	}
	for i := range pods {
		if pods[i].Status.Phase != corev1.PodPending {
			continue
		}
		if text := podObstacle(&pods[i]); text != "" {
			return text
		}
	}
	if run.Status.Failed > 0 && run.Spec.BackoffLimit != nil && run.Status.Failed <= *run.Spec.BackoffLimit {
		message := fmt.Sprintf("%d of %d attempts failed", run.Status.Failed, *run.Spec.BackoffLimit+1)
		if terminated := lastTerminated(pods); terminated != nil {
			message += "; the last: " + why(terminated, memoryLimit(run))
		}
		return message
	}
	return ""
}

func podObstacle(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		waiting := status.State.Waiting
		if waiting == nil {
			continue
		}
		switch waiting.Reason {
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable":
			return "the node can't pull the image " + status.Image + ": " + waiting.Reason
		case "", "ContainerCreating", "PodInitializing":
		default:
			return "the pod can't be started: " + waiting.Reason
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "no node takes the pod: " + c.Message
		}
	}
	return ""
}
