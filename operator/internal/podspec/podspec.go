// Package podspec says what a pod that runs a function's code looks like, for the Deployment that serves it and for the Job that
// runs it once. It is pure: the same input gives the same pod.
package podspec

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
)

const (
	// Container is the name of the one container.
	Container = "function"
	// User is the uid and gid of everything in it.
	User = 65532

	tmpVolume = "tmp"
	// preStopSeconds is how long a pod that is to go serves on before it is told, so that every gateway has noticed.
	preStopSeconds = 2
	// graceSeconds is what a stopping pod gets beyond the time-out of a call that came at the last moment: preStopSeconds, the
	// runtime's own drain, and some for a slow machine.
	graceSeconds = 10
)

// Pod is what the pods of a function are made of.
type Pod struct {
	// Function is whose code runs.
	Function *v1alpha1.Function
	// Image is the image, by digest.
	Image string
	// EnvSecret is the Secret that has the handler's environment; empty for none.
	EnvSecret string
	// Revision is what the runtime calls itself; empty leaves it out.
	Revision string
	// PullSecret is the Secret to pull the image with.
	PullSecret string
	// Defaults are the platform's.
	Defaults config.Function
}

// Base returns what serving pods and pods of Jobs have in common: one container, named Container, and a writable /tmp.
func (p Pod) Base() *corev1ac.PodSpecApplyConfiguration {
	container := corev1ac.Container().
		WithName(Container).
		WithImage(p.Image).
		WithImagePullPolicy(corev1.PullIfNotPresent).
		WithEnv(p.environment()...).
		WithResources(p.resources()).
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithReadOnlyRootFilesystem(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))).
		WithVolumeMounts(corev1ac.VolumeMount().WithName(tmpVolume).WithMountPath("/tmp"))
	if p.EnvSecret != "" {
		container.WithEnvFrom(corev1ac.EnvFromSource().WithSecretRef(corev1ac.SecretEnvSource().WithName(p.EnvSecret)))
	}
	pod := corev1ac.PodSpec().
		WithContainers(container).
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithRunAsNonRoot(true).WithRunAsUser(User).WithRunAsGroup(User).WithFSGroup(User).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithVolumes(corev1ac.Volume().WithName(tmpVolume).
			WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithSizeLimit(quantity(p.Defaults.TmpSize))))
	if p.PullSecret != "" {
		pod.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(p.PullSecret))
	}
	return pod
}

// Serve returns the spec of a pod that serves calls.
func (p Pod) Serve() *corev1ac.PodSpecApplyConfiguration {
	pod := p.Base().WithTerminationGracePeriodSeconds(int64(p.timeout()) + graceSeconds)
	pod.Containers[0].
		WithPorts(corev1ac.ContainerPort().WithName(names.PortName).WithContainerPort(names.Port).WithProtocol(corev1.ProtocolTCP)).
		WithReadinessProbe(corev1ac.Probe().
			WithHTTPGet(corev1ac.HTTPGetAction().WithPath(names.HealthPath).WithPort(intstr.FromString(names.PortName))).
			WithPeriodSeconds(1).
			WithTimeoutSeconds(3).
			WithFailureThreshold(3)).
		WithLifecycle(corev1ac.Lifecycle().WithPreStop(corev1ac.LifecycleHandler().
			WithSleep(corev1ac.SleepAction().WithSeconds(preStopSeconds))))
	return pod
}

// environment is what the platform tells the runtime. It wins over the handler's own environment.
func (p Pod) environment() []*corev1ac.EnvVarApplyConfiguration {
	variables := []*corev1ac.EnvVarApplyConfiguration{
		variable("HOME", "/tmp"),
		variable("PORT", strconv.Itoa(names.Port)),
		variable("SLESS_NAMESPACE", p.Function.Namespace),
		variable("SLESS_FUNCTION", p.Function.Name),
		variable("SLESS_ENTRYPOINT", p.entrypoint()),
		variable("SLESS_TIMEOUT_SECONDS", strconv.Itoa(int(p.timeout()))),
	}
	if limit := p.Function.Spec.Concurrency; limit != nil {
		variables = append(variables, variable("SLESS_CONCURRENCY", strconv.Itoa(int(*limit))))
	}
	if p.Revision != "" {
		variables = append(variables, variable("SLESS_REVISION", p.Revision))
	}
	return variables
}

func variable(name, value string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).WithValue(value)
}

// entrypoint and timeout have the CRD's defaults for objects that did not pass the API server.
func (p Pod) entrypoint() string {
	if p.Function.Spec.Entrypoint == "" {
		return "handler.handle"
	}
	return p.Function.Spec.Entrypoint
}

func (p Pod) timeout() int32 {
	if p.Function.Spec.TimeoutSeconds == 0 {
		return 60
	}
	return p.Function.Spec.TimeoutSeconds
}

// quantity parses what config has validated.
func quantity(text string) resource.Quantity {
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}
	}
	return parsed
}
