package function

import (
	"encoding/json"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
	"github.com/naeel/sless/operator/internal/podspec"
	"github.com/naeel/sless/operator/internal/tenant"
)

const (
	// revisionLabel is on the pods of a Function and says which version they are.
	revisionLabel = names.RevisionLabel
	// inputsAnnotation is on the Deployment of a Function and stands for what of its pods is the tenant's choice.
	inputsAnnotation = "sless.io/inputs"
	// restartedAt is the annotation of kubectl rollout restart.
	restartedAt = "kubectl.kubernetes.io/restartedAt"
)

// buildDeployment returns the Deployment of the version that the spec asks for, and that version's revision. Its pod template depends
// on the spec, the image, the environment and restartedAt, and on nothing else: scaling never replaces a pod.
func buildDeployment(s *scope, cfg *config.Config) (*appsv1ac.DeploymentApplyConfiguration, string) {
	function := s.function
	selector := names.Selector(Kind, function.Namespace, function.Name)
	template, revision := buildTemplate(s, cfg)
	deployment := appsv1ac.Deployment(function.Name, s.tenant).
		WithLabels(names.Labels(Kind, function.Namespace, function.Name, function.UID)).
		WithAnnotations(map[string]string{inputsAnnotation: inputs(s)}).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(s.replicas()).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector)).
			WithStrategy(appsv1ac.DeploymentStrategy().
				WithType(appsv1.RollingUpdateDeploymentStrategyType).
				WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
					WithMaxSurge(intstr.FromInt32(1)).
					WithMaxUnavailable(intstr.FromInt32(0)))).
			WithProgressDeadlineSeconds(cfg.Function.ProgressDeadlineSeconds).
			// A version that is gone is made again from its Function, never from an old ReplicaSet.
			WithRevisionHistoryLimit(0).
			WithTemplate(template))
	return deployment, revision
}

// inputs is a hash of what the tenant says about pods. When the template differs and it does not, it is sless that has changed.
func inputs(s *scope) string {
	spec := &s.function.Spec
	text, _ := json.Marshal([]any{ // such values always encode
		s.image.sourceDigest, s.envSecret, spec.Runtime, spec.Entrypoint, spec.TimeoutSeconds, spec.Concurrency, spec.Resources,
		s.function.Annotations[v1alpha1.RestartedAtAnnotation],
	})
	return names.Hash(string(text))[:12]
}

// waitsForTurn says that a Deployment would get other pods of the same image although the tenant has changed nothing. Pods that do not
// become ready are no loss, and another image is gone to only in turn, and gone back from at once.
func waitsForTurn(current *appsv1.Deployment, desired *appsv1ac.DeploymentApplyConfiguration, now time.Time) bool {
	return current != nil && current.Spec.Template.Labels[revisionLabel] != "" &&
		current.Spec.Template.Labels[revisionLabel] != desired.Spec.Template.Labels[revisionLabel] &&
		!changedByTenant(current, desired) &&
		current.Spec.Template.Spec.Containers[0].Image == *desired.Spec.Template.Spec.Containers[0].Image &&
		!judgeDeployment(current, *desired.Spec.Replicas, now).overdue
}

// changedByTenant says that a Deployment would get what the tenant has changed.
func changedByTenant(current *appsv1.Deployment, desired *appsv1ac.DeploymentApplyConfiguration) bool {
	return current != nil && current.Annotations[inputsAnnotation] != desired.Annotations[inputsAnnotation]
}

func buildTemplate(s *scope, cfg *config.Config) (*corev1ac.PodTemplateSpecApplyConfiguration, string) {
	function := s.function
	pod := podspec.Pod{
		Function: function, Image: s.image.reference, EnvSecret: s.envSecret,
		PullSecret: tenant.PullSecret, Defaults: cfg.Function,
	}
	build := func(revision string) *corev1ac.PodTemplateSpecApplyConfiguration {
		pod.Revision = revision
		template := corev1ac.PodTemplateSpec().
			WithLabels(names.Labels(Kind, function.Namespace, function.Name, function.UID)).
			WithSpec(pod.Serve())
		if at := function.Annotations[v1alpha1.RestartedAtAnnotation]; at != "" {
			template.WithAnnotations(map[string]string{restartedAt: at})
		}
		return template
	}
	// The revision is the hash of a template that has none, and then becomes a part of it.
	text, _ := json.Marshal(build("")) // an apply configuration always encodes
	revision := names.Hash(string(text))[:12]
	template := build(revision)
	template.WithLabels(map[string]string{revisionLabel: revision})
	return template, revision
}

// buildService returns the Service by which the gateway and the tenant's own pods find those of a Function. Its label goes on to the
// EndpointSlices, and tells the gateway which of the pods there are of the version that is wanted now.
func buildService(s *scope) *corev1ac.ServiceApplyConfiguration {
	function := s.function
	return corev1ac.Service(function.Name, s.tenant).
		WithLabels(names.Labels(Kind, function.Namespace, function.Name, function.UID)).
		WithLabels(map[string]string{revisionLabel: s.revision}).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithSelector(names.Selector(Kind, function.Namespace, function.Name)).
			WithPorts(corev1ac.ServicePort().
				WithName(names.PortName).
				WithProtocol(corev1.ProtocolTCP).
				WithPort(names.Port).
				WithTargetPort(intstr.FromString(names.PortName))))
}
