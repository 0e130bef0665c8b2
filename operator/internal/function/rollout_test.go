package function

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

// deploymentWith is a Deployment whose controller has seen it.
func deploymentWith(total, updated, available int32, conditions ...appsv1.DeploymentCondition) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "hello", Generation: 2},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: total, UpdatedReplicas: updated, ReadyReplicas: available, AvailableReplicas: available,
			Conditions: conditions,
		},
	}
}

func TestJudgeDeployment(t *testing.T) {
	now := time.Unix(1700000000, 0)
	refusedFor := func(age time.Duration) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota: small", LastTransitionTime: metav1.NewTime(now.Add(-age))}
	}
	refused := refusedFor(time.Minute)
	late := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}
	unseen := deploymentWith(1, 1, 1)
	unseen.Generation = 3
	for name, test := range map[string]struct {
		deployment *appsv1.Deployment
		wanted     int32
		complete   bool
		message    string
		reason     string
	}{
		"complete":           {deploymentWith(2, 2, 2), 2, true, "", ""},
		"off":                {deploymentWith(0, 0, 0), 0, true, "", ""},
		"not seen":           {unseen, 1, false, "has not begun", ""},
		"starting":           {deploymentWith(1, 1, 0), 1, false, "0 of 1 pods answer", ""},
		"old pods left":      {deploymentWith(2, 1, 2), 1, false, "1 pods have yet to go", ""},
		"going off":          {deploymentWith(2, 2, 2), 0, false, "2 pods have yet to go", ""},
		"quota":              {deploymentWith(0, 0, 0, refused), 1, false, "", v1alpha1.ReasonQuotaExceeded},
		"quota just made":    {deploymentWith(0, 0, 0, refusedFor(time.Second)), 1, false, "exceeded quota: small", ""},
		"too late":           {deploymentWith(1, 1, 0, late), 1, false, "", v1alpha1.ReasonProgressDeadlineExceeded},
		"quota and too late": {deploymentWith(0, 0, 0, refused, late), 1, false, "", v1alpha1.ReasonQuotaExceeded},
		"late, then done":    {deploymentWith(1, 1, 1, late), 1, true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := judgeDeployment(test.deployment, test.wanted, now)
			if o.complete != test.complete || !strings.Contains(o.message, test.message) {
				t.Errorf("got complete %v, %q; want %v, %q", o.complete, o.message, test.complete, test.message)
			}
			reason := ""
			if o.problem != nil {
				reason = o.problem.Reason
			}
			if reason != test.reason {
				t.Errorf("got reason %q, want %q", reason, test.reason)
			}
		})
	}
}

func waiting(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func ended(code int32, reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}}
}

func TestJudgePods(t *testing.T) {
	now := time.Unix(1700000000, 0)
	startedAgain := ended(1, "Error", `{"error": "handler.py: no module named flask"}`)
	startedAgain.LastTerminationState, startedAgain.State = startedAgain.State, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, test := range map[string]struct {
		age     time.Duration
		status  corev1.ContainerStatus
		reason  string
		message string // of the problem, or of the roll-out
	}{
		"starting":         {time.Second, waiting("ContainerCreating", ""), "", "0 of 1 pods answer"},
		"first words":      {time.Second, ended(1, "Error", `{"error": "no module named flask"}`), v1alpha1.ReasonCrashed, "no module named flask"},
		"started again":    {time.Minute, startedAgain, v1alpha1.ReasonCrashed, "no module named flask"},
		"log":              {time.Second, ended(3, "Error", "Traceback: boom"), v1alpha1.ReasonCrashed, "(exit code 3): Traceback: boom"},
		"silent":           {time.Second, ended(0, "Completed", ""), v1alpha1.ReasonCrashed, "says nothing"},
		"memory":           {time.Second, ended(137, "OOMKilled", ""), v1alpha1.ReasonCrashed, "raise resources.limits.memory"},
		"first pull":       {time.Second, waiting("ErrImagePull", "401"), "", "ErrImagePull: 401"},
		"first back-off":   {5 * time.Second, waiting("ImagePullBackOff", "401"), "", "ImagePullBackOff: 401"},
		"lasting":          {time.Minute, waiting("ImagePullBackOff", "401"), v1alpha1.ReasonImagePullFailed, "401"},
		"lasting, trying":  {time.Minute, waiting("ErrImagePull", "401"), v1alpha1.ReasonImagePullFailed, "401"},
		"not startable":    {time.Minute, waiting("CreateContainerConfigError", "secret not found"), v1alpha1.ReasonCrashed, "secret not found"},
		"being configured": {time.Second, waiting("CreateContainerConfigError", "secret not found"), "", "secret not found"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: metav1.NewTime(now.Add(-test.age))}}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{test.status}
			o := judgeDeployment(deploymentWith(1, 1, 0), 1, now)
			o.judgePods([]corev1.Pod{pod}, now)
			reason, message := "", o.message
			if o.problem != nil {
				reason, message = o.problem.Reason, o.problem.Message
			}
			if reason != test.reason || !strings.Contains(message, test.message) {
				t.Errorf("got %q %q, want %q %q", reason, message, test.reason, test.message)
			}
		})
	}
}

func TestJudgePodsOfSeveral(t *testing.T) {
	now := time.Unix(1700000000, 0)
	ready := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	leaving := corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now}}}
	leaving.Status.ContainerStatuses = []corev1.ContainerStatus{ended(1, "Error", "gone")}
	homeless := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "Insufficient memory"}},
	}}
	o := judgeDeployment(deploymentWith(3, 2, 1), 2, now)
	o.judgePods([]corev1.Pod{ready, leaving, homeless}, now)
	if o.ready != 1 || o.problem != nil || !strings.Contains(o.message, "Insufficient memory") {
		t.Errorf("got %+v", o)
	}
	late := deploymentWith(1, 1, 0, appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse})
	o = judgeDeployment(late, 1, now)
	o.judgePods([]corev1.Pod{homeless}, now)
	if o.problem == nil || o.problem.Reason != v1alpha1.ReasonProgressDeadlineExceeded || !strings.Contains(o.problem.Message, "Insufficient memory") {
		t.Errorf("got %+v", o.problem)
	}
	// A version that was late and is taken back leaves its mark on the Deployment until its pods have gone.
	late.Status.Replicas, late.Status.AvailableReplicas = 2, 1
	o = judgeDeployment(late, 1, now)
	o.judgePods([]corev1.Pod{ready}, now)
	if o.problem != nil || o.overdue || o.complete {
		t.Errorf("taken back: got %+v", o)
	}
}
