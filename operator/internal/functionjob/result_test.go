package functionjob

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

var noon = metav1.NewTime(time.Date(2026, 5, 5, 12, 0, 0, 0, time.UTC))

// endedJob is a Kubernetes Job with a condition; empty for one that goes on.
func endedJob(kind batchv1.JobConditionType, reason string) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "sless-fn-ns", Name: "j-1-x", CreationTimestamp: noon},
		Spec: batchv1.JobSpec{ActiveDeadlineSeconds: new(int64(30)), BackoffLimit: new(int32(2)), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "function", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("256Mi")}}}}}}},
	}
	if kind != "" {
		job.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: "True", Reason: reason, Message: "what the Job says", LastTransitionTime: noon}}
	}
	return job
}

// endedPod is a pod whose handler ended some seconds after noon.
func endedPod(seconds int, code int32, reason, message string) corev1.Pod {
	return corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "other", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 99, FinishedAt: metav1.NewTime(noon.Add(time.Hour))}}},
		{Name: "function", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: reason, Message: message, FinishedAt: metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))}}},
	}}}
}

func TestEndOf(t *testing.T) {
	complete, failed := endedJob(batchv1.JobComplete, ""), endedJob(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
	thrice := failed.DeepCopy()
	thrice.Status.Failed = 3
	for _, test := range []struct {
		name   string
		run    *batchv1.Job
		pods   []corev1.Pod
		waited string
		want   ending
	}{
		{"result", complete, []corev1.Pod{endedPod(1, 0, "Completed", `{"result": {"a": [1, 2]}, "truncated": false}`)}, "",
			ending{reason: "Succeeded", exitCode: new(int32(0)), result: `{"a":[1,2]}`}},
		{"result null", complete, []corev1.Pod{endedPod(1, 0, "Completed", `{"result": null, "truncated": false}`)}, "",
			ending{reason: "Succeeded", exitCode: new(int32(0)), result: `null`}},
		{"result cut by the runtime", complete, []corev1.Pod{endedPod(1, 0, "Completed", `{"result": "{\"a\": \"bbb", "truncated": true}`)}, "",
			ending{reason: "Succeeded", exitCode: new(int32(0)), result: `{"a": "bbb`, truncated: true}},
		{"result longer than the contract allows", complete, []corev1.Pod{endedPod(1, 0, "Completed", `{"result": "`+strings.Repeat("ж", 2000)+`"}`)}, "",
			ending{reason: "Succeeded", exitCode: new(int32(0)), result: `"` + strings.Repeat("ж", 1535), truncated: true}},
		{"no result", complete, []corev1.Pod{endedPod(1, 0, "Completed", "hello")}, "",
			ending{reason: "Succeeded", exitCode: new(int32(0)), message: "the run ended well and left no result; the image does not keep the runtime contract"}},
		{"pod gone", complete, nil, "", ending{reason: "Succeeded", message: "the run ended well; its pod went before the result could be read"}},
		{"the second attempt succeeds", complete, []corev1.Pod{endedPod(9, 0, "Completed", `{"result": 2}`), endedPod(1, 1, "Error", `{"error": "first"}`)}, "",
			ending{reason: "Succeeded", exitCode: new(int32(0)), result: "2"}},
		{"error", failed, []corev1.Pod{endedPod(1, 1, "Error", `{"error": "ValueError: no"}`)}, "",
			ending{reason: "Failed", exitCode: new(int32(1)), message: "ValueError: no"}},
		{"three attempts", thrice, []corev1.Pod{endedPod(5, 1, "Error", `{"error": "last"}`), endedPod(1, 1, "Error", `{"error": "first"}`)}, "",
			ending{reason: "Failed", exitCode: new(int32(1)), message: "3 attempts failed; the last: last"}},
		{"out of memory", failed, []corev1.Pod{endedPod(1, 137, "OOMKilled", "")}, "",
			ending{reason: "Failed", exitCode: new(int32(137)), message: "the handler needed more memory than its limit of 256Mi; raise spec.resources.limits.memory of the Function"}},
		{"what is no answer stays in the pod", failed, []corev1.Pod{endedPod(1, 3, "Error", "password is swordfish")}, "",
			ending{reason: "Failed", exitCode: new(int32(3)), message: "the handler's process ended with exit code 3 and said nothing; see the pod's log"}},
		{"no pod", failed, nil, "", ending{reason: "Failed", message: "the run failed before its handler was started: what the Job says"}},
		{"time-out", endedJob(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded), nil, "",
			ending{reason: "Timeout", message: "stopped after 30 s (timeoutSeconds)"}},
		{"time-out while it could not start", endedJob(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded), nil, "the node can't pull the image x: ErrImagePull",
			ending{reason: "Timeout", message: "stopped after 30 s (timeoutSeconds): the node can't pull the image x: ErrImagePull"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := endOf(test.run, test.pods, test.waited)
			test.want.at = noon
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(ending{})); diff != "" || !ok {
				t.Errorf("ended is %v (-want +got):\n%s", ok, diff)
			}
		})
	}
	if _, ok := endOf(endedJob("", ""), []corev1.Pod{endedPod(1, 1, "Error", "")}, ""); ok {
		t.Error("a Job that tries again has ended")
	}
}

func TestObstacle(t *testing.T) {
	pending := func(change func(*corev1.PodStatus)) []corev1.Pod {
		pod := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "function", Image: "registry/f@sha256:1"}}}}
		change(&pod.Status)
		return []corev1.Pod{pod}
	}
	waits := func(reason string) []corev1.Pod {
		return pending(func(s *corev1.PodStatus) {
			s.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: "secret"}
		})
	}
	again := endedJob("", "")
	again.Status.Failed = 1
	last := endedJob("", "")
	last.Status.Failed = 3
	for _, test := range []struct {
		name  string
		run   *batchv1.Job
		pods  []corev1.Pod
		after time.Duration
		want  string
	}{
		{"just made", endedJob("", ""), nil, time.Second, ""},
		{"no pod", endedJob("", ""), nil, time.Minute, "no pod could be made so far: a quota or a policy"},
		{"being made", endedJob("", ""), waits("ContainerCreating"), time.Minute, ""},
		{"no image", endedJob("", ""), waits("ImagePullBackOff"), time.Minute, "the node can't pull the image registry/f@sha256:1: ImagePullBackOff"},
		{"bad container", endedJob("", ""), waits("CreateContainerConfigError"), time.Minute, "the pod can't be started: CreateContainerConfigError"},
		{"no node", endedJob("", ""), pending(func(s *corev1.PodStatus) {
			s.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available"}}
		}), time.Minute, "no node takes the pod: 0/1 nodes are available"},
		{"does not try again", last, []corev1.Pod{endedPod(1, 1, "Error", `{"error": "why"}`)}, time.Minute, ""},
		{"tries again", again, []corev1.Pod{endedPod(1, 1, "Error", `{"error": "why"}`)}, time.Minute, "1 of 3 attempts failed; the last: why"},
	} {
		got := obstacle(test.run, test.pods, noon.Add(test.after))
		if !strings.HasPrefix(got, test.want) || (test.want == "") != (got == "") || strings.Contains(got, "secret") {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"aж", 2, "a"}, {"aж", 3, "aж"}, {"ж", 1, ""}, {"a\xffb", 9, "a�b"}} {
		if got := cut(test.text, test.limit); got != test.want {
			t.Errorf("cut(%q, %d) = %q, want %q", test.text, test.limit, got, test.want)
		}
	}
}

// FuzzEndOf: whatever an image writes to its termination log, the status takes it.
func FuzzEndOf(f *testing.F) {
	f.Add(`{"result": "x", "truncated": true}`, true)
	f.Add(`{"error": "\ud800"}`, false)
	f.Add("\xff\xfe{", false)
	f.Fuzz(func(t *testing.T, message string, good bool) {
		run := endedJob(batchv1.JobFailed, "")
		if good {
			run = endedJob(batchv1.JobComplete, "")
		}
		s := &scope{job: &v1alpha1.FunctionJob{Spec: v1alpha1.FunctionJobSpec{RunID: 1}}, now: noon}
		ended, ok := endOf(run, []corev1.Pod{endedPod(1, 1, "", message)}, message)
		if !ok {
			t.Fatal("not ended")
		}
		s.job.Status.RunID = 1
		s.end(ended)
		setStatus(s)
		if status := s.job.Status; len(status.Result) > maxResult || len(status.Message) > maxMessage {
			t.Errorf("a result of %d bytes, a message of %d", len(status.Result), len(status.Message))
		}
		text, err := json.Marshal(s.job.Status)
		if err != nil || !json.Valid(text) {
			t.Errorf("the status has no JSON: %v", err)
		}
	})
}
