package functionjob

import (
	"encoding/json"
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
	"github.com/naeel/sless/operator/internal/podspec"
	"github.com/naeel/sless/operator/internal/tenant"
	"github.com/naeel/sless/operator/internal/tracing"
)

const (
	kind = "FunctionJob"

	// What a run started with, on its Kubernetes Job.
	runIDAnnotation       = "sless.io/run-id"
	functionAnnotation    = "sless.io/function"
	functionUIDAnnotation = "sless.io/function-uid"
	eventAnnotation       = "sless.io/event"
	timeToLiveAnnotation  = "sless.io/ttl-seconds-after-finished"

	eventVolume    = "event"
	eventDirectory = "/var/run/sless"
	eventFile      = "event.json"
	// graceSeconds is how long a pod that is stopped may take to end.
	graceSeconds = 5
	// defaultTimeToLive is the CRD's default of ttlSecondsAfterFinished.
	defaultTimeToLive = 3600
)

// parts are what a run is made of.
type parts struct {
	job                    *v1alpha1.FunctionJob
	function               *v1alpha1.Function
	namespace              string
	envSecret, eventSecret string
	defaults               config.Function
}

// suffix tells the runs of a FunctionJob apart, and those of a FunctionJob that had the same name before.
func suffix(job *v1alpha1.FunctionJob) string {
	return strconv.FormatInt(job.Spec.RunID, 10) + "-" + names.Hash(string(job.UID))[:8]
}

// eventOf returns the event as it is given to the handler.
func eventOf(job *v1alpha1.FunctionJob) string {
	if job.Spec.EventJSON == "" {
		return "{}"
	}
	return job.Spec.EventJSON
}

// buildEvent returns the Secret with the event of the run that is wanted. It is named by its content, so that one that was made for a Job
// that came to nothing is used again only for the same event.
func buildEvent(job *v1alpha1.FunctionJob, namespace string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:      names.Child(job.Name, suffix(job)+"-"+names.Hash(eventOf(job))[:8]),
			Namespace: namespace,
			Labels:    names.Labels(kind, job.Namespace, job.Name, job.UID),
		},
		Immutable: new(true),
		Data:      map[string][]byte{eventFile: []byte(eventOf(job))},
	}
}

// buildJob returns the Kubernetes Job of the run that is wanted: the Function's own image and environment, the event in a file.
func buildJob(p parts) (*batchv1.Job, error) {
	job, labels := p.job, names.Labels(kind, p.job.Namespace, p.job.Name, p.job.UID)
	function := p.function.DeepCopy()
	function.Spec.TimeoutSeconds = job.Spec.TimeoutSeconds // the time of one call is the run's
	pod := podspec.Pod{
		Function: function, Image: p.function.Status.Image, EnvSecret: p.envSecret, PullSecret: tenant.PullSecret, Defaults: p.defaults,
	}.Base()
	pod.WithRestartPolicy(corev1.RestartPolicyNever).
		WithTerminationGracePeriodSeconds(graceSeconds).
		WithVolumes(corev1ac.Volume().WithName(eventVolume).WithSecret(corev1ac.SecretVolumeSource().
			WithSecretName(p.eventSecret).
			WithDefaultMode(0o440)))
	pod.Containers[0].
		WithEnv(
			corev1ac.EnvVar().WithName("SLESS_EVENT_FILE").WithValue(eventDirectory+"/"+eventFile),
			corev1ac.EnvVar().WithName("SLESS_REQUEST_ID").WithValue(names.RunID(job.UID, job.Spec.RunID)), // what its lines in the log are found by
			corev1ac.EnvVar().WithName("TRACEPARENT").WithValue(tracing.Parent(names.Hash(string(job.UID), strconv.FormatInt(job.Spec.RunID, 10))[:32])),
		).
		WithVolumeMounts(corev1ac.VolumeMount().WithName(eventVolume).WithMountPath(eventDirectory).WithReadOnly(true)).
		// What the runtime writes is the result; the log's end is not, and would get into the status.
		WithTerminationMessagePolicy(corev1.TerminationMessageReadFile)

	ttl := int32(defaultTimeToLive)
	if job.Spec.TTLSecondsAfterFinished != nil {
		ttl = *job.Spec.TTLSecondsAfterFinished
	}
	built := batchv1ac.Job(names.Child(job.Name, suffix(job)), p.namespace).
		WithLabels(labels).
		WithAnnotations(map[string]string{
			runIDAnnotation:       strconv.FormatInt(job.Spec.RunID, 10),
			functionAnnotation:    p.function.Name,
			functionUIDAnnotation: string(p.function.UID),
			eventAnnotation:       p.eventSecret,
			timeToLiveAnnotation:  strconv.Itoa(int(ttl)),
		}).
		WithSpec(batchv1ac.JobSpec().
			WithBackoffLimit(job.Spec.BackoffLimit).
			WithActiveDeadlineSeconds(int64(job.Spec.TimeoutSeconds)).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(pod)))
	text, err := json.Marshal(built)
	if err != nil {
		return nil, fmt.Errorf("encode Job: %w", err)
	}
	made := &batchv1.Job{}
	if err := json.Unmarshal(text, made); err != nil {
		return nil, fmt.Errorf("decode Job: %w", err)
	}
	return made, nil
}

// runIDOf returns the run that a Kubernetes Job is; 0 when it does not say.
func runIDOf(run *batchv1.Job) int64 {
	id, err := strconv.ParseInt(run.Annotations[runIDAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return id
}

// timeToLive returns how long the Kubernetes Job of a run stays after its end.
func timeToLive(run *batchv1.Job) int32 {
	seconds, err := strconv.ParseInt(run.Annotations[timeToLiveAnnotation], 10, 32)
	if err != nil {
		return defaultTimeToLive
	}
	return int32(seconds)
}
