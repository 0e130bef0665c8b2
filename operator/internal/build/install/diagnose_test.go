package install

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/check"
	"github.com/naeel/sless/operator/internal/build/fault"
)

var begun = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func jobOf(conditions ...batchv1.JobConditionType) *batchv1.Job {
	spec := testSpec
	spec.Wanted = []string{"built/dist/handler.js", "built/dist/handler.mjs"}
	job := buildJob(spec, plain)
	job.Status.StartTime = &metav1.Time{Time: begun}
	for _, condition := range conditions {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: condition, Status: corev1.ConditionTrue})
	}
	return job
}

func ended(name string, code int32, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}}
}

func waiting(name, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, Image: "image-of-" + name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "because"}}}
}

func running(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

// podOf is the pod when the init containers have the given statuses and kaniko the last.
func podOf(statuses ...corev1.ContainerStatus) *corev1.Pod {
	pod := &corev1.Pod{}
	for _, status := range statuses {
		if status.Name == kanikoStep {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
		} else {
			pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status)
		}
	}
	return pod
}

func evictedPod(message string) *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: message}}
}

func unschedulable() *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes"}}}}
}

func TestProgress(t *testing.T) {
	initialised := []corev1.ContainerStatus{ended(installStep, 0, "Completed"), ended(checkStep, 0, "Completed")}
	for name, test := range map[string]struct {
		job      *batchv1.Job
		pod      *corev1.Pod
		after    time.Duration
		refusal  string
		done     bool
		reason   string // of the error; empty for none
		terminal bool
		culprit  string
		says     string
	}{
		"no pod yet":          {after: time.Second},
		"installing":          {pod: podOf(running(installStep), waiting(checkStep, "PodInitializing"), waiting(kanikoStep, "PodInitializing")), after: time.Minute},
		"copying":             {pod: podOf(append(initialised, running(kanikoStep))...), after: time.Minute},
		"fetch failed":        {pod: podOf(ended(fetchStep, 1, "Error"), waiting(kanikoStep, "PodInitializing")), done: true, reason: v1alpha1.ReasonObjectStoreUnavailable, culprit: fetchStep},
		"install failed":      {pod: podOf(ended(installStep, 1, "Error"), waiting(kanikoStep, "PodInitializing")), done: true, reason: v1alpha1.ReasonDependenciesFailed, terminal: true, culprit: installStep, says: "exit code 1"},
		"check failed":        {pod: podOf(ended(installStep, 0, "Completed"), ended(checkStep, 1, "Error")), done: true, reason: v1alpha1.ReasonDependenciesFailed, terminal: true, culprit: checkStep, says: "refused"},
		"built nothing":       {pod: podOf(ended(installStep, 0, "Completed"), ended(checkStep, check.Missing, "Error")), done: true, reason: v1alpha1.ReasonSourceInvalid, terminal: true, culprit: checkStep, says: "dist/handler.js, dist/handler.mjs;"},
		"kaniko failed":       {pod: podOf(append(initialised, ended(kanikoStep, 1, "Error"))...), done: true, reason: v1alpha1.ReasonBuildFailed, culprit: kanikoStep},
		"out of memory":       {pod: podOf(ended(installStep, 1, "OOMKilled")), done: true, reason: v1alpha1.ReasonBuildOutOfMemory, terminal: true, culprit: installStep, says: "2Gi"},
		"killed":              {pod: podOf(ended(installStep, 137, "Error")), after: time.Minute, done: true, reason: v1alpha1.ReasonBuildOutOfMemory, terminal: true, culprit: installStep},
		"kaniko out of it":    {pod: podOf(append(initialised, ended(kanikoStep, 137, "OOMKilled"))...), done: true, reason: v1alpha1.ReasonBuildOutOfMemory, terminal: true, culprit: kanikoStep},
		"too slow":            {pod: podOf(running(installStep)), after: 301 * time.Second, done: true, reason: v1alpha1.ReasonBuildTimeout, terminal: true, culprit: installStep, says: "300 seconds"},
		"deadline passed":     {job: jobOf(batchv1.JobFailed), after: 400 * time.Second, done: true, reason: v1alpha1.ReasonBuildTimeout, terminal: true},
		"pod deleted":         {job: jobOf(batchv1.JobFailed), after: time.Minute, done: true, reason: v1alpha1.ReasonBuildFailed, says: "gone"},
		"image being pulled":  {pod: podOf(waiting(installStep, "ErrImagePull")), after: time.Second, reason: v1alpha1.ReasonImagePullFailed, says: "image-of-install"},
		"image unpullable":    {pod: podOf(waiting(installStep, "ImagePullBackOff")), after: 2 * time.Minute, done: true, reason: v1alpha1.ReasonImagePullFailed, says: "because"},
		"mount missing":       {pod: podOf(waiting(kanikoStep, "CreateContainerConfigError")), reason: v1alpha1.ReasonBuildFailed, says: kanikoStep},
		"no room":             {pod: unschedulable(), after: time.Minute, reason: v1alpha1.ReasonBuilding, says: "0/1 nodes"},
		"no room at the end":  {pod: unschedulable(), after: 301 * time.Second, done: true, reason: v1alpha1.ReasonBuilding, says: "0/1 nodes"},
		"refused":             {refusal: "exceeded quota", after: time.Minute, reason: v1alpha1.ReasonQuotaExceeded, says: "exceeded quota"},
		"refused to the end":  {refusal: "exceeded quota", after: 301 * time.Second, done: true, reason: v1alpha1.ReasonQuotaExceeded},
		"volume full":         {pod: evictedPod(`Usage of EmptyDir volume "deps" exceeds the limit "4Gi".`), done: true, reason: v1alpha1.ReasonBuildOutOfDisk, terminal: true, says: "4Gi"},
		"evicted by the node": {pod: evictedPod("The node was low on resource: memory."), done: true, reason: v1alpha1.ReasonBuildFailed, says: "low on resource"},
	} {
		t.Run(name, func(t *testing.T) {
			job := test.job
			if job == nil {
				job = jobOf()
			}
			seen := observation{job: job, pod: test.pod, now: begun.Add(test.after), refusal: test.refusal, memory: "2Gi", volume: "4Gi"}
			progress, culprit := seen.progress()
			if progress.Done != test.done || culprit != test.culprit {
				t.Errorf("done %v, culprit %q", progress.Done, culprit)
			}
			if test.reason == "" {
				if progress.Err != nil {
					t.Errorf("got %v", progress.Err)
				}
				return
			}
			if err := progress.Err; err == nil || err.Reason != test.reason || err.Terminal != test.terminal || !strings.Contains(err.Message, test.says) {
				t.Errorf("got %+v", err)
			}
		})
	}
}

// The last lines are what the programs themselves wrote when they met that trouble.
func TestExplainLog(t *testing.T) {
	const at = "error pushing image: failed to push to destination registry.example.org/sless-ns:deps-1: "
	exit1 := &corev1.ContainerStateTerminated{ExitCode: 1}
	for name, test := range map[string]struct {
		step, log, reason string
		terminal          bool
	}{
		"pip, disk":        {installStep, "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n", v1alpha1.ReasonBuildOutOfDisk, true},
		"npm, disk":        {installStep, "npm error code ENOSPC\nnpm error syscall write\n", v1alpha1.ReasonBuildOutOfDisk, true},
		"npm, 401":         {installStep, "npm error code E401\nnpm error 401 Unauthorized - GET https://npm.example.org/x\n", v1alpha1.ReasonDependenciesFailed, true},
		"pip, away":        {installStep, "Failed to establish a new connection: [Errno 111] connection refused\n", v1alpha1.ReasonDependenciesFailed, true},
		"check, disk":      {checkStep, "\"no space left on device\" is a named pipe\n", v1alpha1.ReasonDependenciesFailed, true},
		"kaniko, disk":     {kanikoStep, "error building image: write /kaniko/1: no space left on device\n", v1alpha1.ReasonBuildOutOfDisk, true},
		"kaniko, refused":  {kanikoStep, at + "POST https://registry.example.org/v2/sless-ns/blobs/uploads/: UNAUTHORIZED: authentication required\n", v1alpha1.ReasonRegistryDenied, true},
		"kaniko, denied":   {kanikoStep, at + "DENIED: requested access to the resource is denied\n", v1alpha1.ReasonRegistryDenied, true},
		"kaniko, away":     {kanikoStep, at + "Get \"https://registry.example.org/v2/\": dial tcp 192.0.2.1:443: connect: connection refused\n", v1alpha1.ReasonRegistryUnavailable, false},
		"kaniko, other CA": {kanikoStep, at + "tls: failed to verify certificate: x509: certificate signed by unknown authority\n", v1alpha1.ReasonRegistryUnavailable, false},
		"kaniko, broken":   {kanikoStep, at + "unexpected status code 503 Service Unavailable\n", v1alpha1.ReasonRegistryUnavailable, false},
		"kaniko, else":     {kanikoStep, "error building image: no\n", v1alpha1.ReasonBuildFailed, false},
		"kaniko, no log":   {kanikoStep, "", v1alpha1.ReasonBuildFailed, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := observation{job: jobOf(), now: begun, memory: "2Gi", volume: "4Gi"}
			got := o.explainLog(o.explainExit(test.step, exit1), test.step, test.log)
			if got.Reason != test.reason || got.Terminal != test.terminal {
				t.Errorf("got %+v", got)
			}
		})
	}
	killed := fault.Terminal(v1alpha1.ReasonBuildOutOfMemory, "2Gi")
	if got := (observation{}).explainLog(killed, installStep, "no space left on device"); got != killed {
		t.Errorf("the log overrules the kubelet: %+v", got)
	}
}

func TestTailHasNoSecrets(t *testing.T) {
	for secret, line := range map[string]string{
		"hunter2-a":                            "Looking in indexes: https://user:hunter2-a@pip.example.org/simple",
		"hunter2-b":                            "https://hunter2-b@git.example.org/x.git",
		"hunter2-c-0123456789":                 "Authorization: Bearer hunter2-c-0123456789",
		"aHVudGVyMjpodW50ZXIy":                 "authorization: Basic aHVudGVyMjpodW50ZXIy",
		"hunter2-d":                            "//npm.example.org/:_authToken=hunter2-d",
		"hunter2-e":                            `{"password": "hunter2-e"}`,
		"hunter2-f":                            "AWS_SECRET_ACCESS_KEY=hunter2-f",
		"4567890abcdef0123456789abcdef0123456": "saw npm_1234567890abcdef0123456789abcdef0123456 there",
	} {
		if got := Tail(line); strings.Contains(got, secret) || !strings.Contains(got, "***") {
			t.Errorf("%q became %q", line, got)
		}
	}
	for _, harmless := range []string{"ERROR: No matching distribution found for nope==9", "npm error 404 Not Found - GET https://npm.example.org/nope", "tokenizers==0.1 is installed", "npm_lifecycle_event=postinstall"} {
		if got := Tail(harmless); got != harmless {
			t.Errorf("%q became %q", harmless, got)
		}
	}
}

func TestTailIsShortAndClean(t *testing.T) {
	if got := Tail(strings.Repeat("line\n", tailLines+1)); got != cutMark+strings.TrimSpace(strings.Repeat("line\n", tailLines)) {
		t.Errorf("of too many lines %q", got)
	}
	if whole := strings.TrimSpace(strings.Repeat("line\n", tailLines)); Tail(whole) != whole {
		t.Errorf("of few lines %q", Tail(whole))
	}
	if got := Tail("first " + strings.Repeat("я", 10_000) + " last"); len(got) > tailBytes || !strings.HasPrefix(got, cutMark) || !strings.HasSuffix(got, " last") || strings.Contains(got, "�") {
		t.Errorf("%d bytes, ends %q", len(got), got[len(got)-10:])
	}
	if got := Tail("\x1b[31mred\x1b[0m \x00\xff\rx"); got != "red �x" {
		t.Errorf("got %q", got)
	}
}
