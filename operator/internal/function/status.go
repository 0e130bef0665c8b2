package function

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build"
	"github.com/naeel/sless/operator/internal/config"
	"github.com/naeel/sless/operator/internal/reconcile"
)

// setStatus computes the whole status from what the pass has seen. Of the status before it keeps the facts that can't be seen again:
// what was built of what.
func setStatus(s *scope, cfg *config.Config) {
	status := &s.function.Status
	ready := readyCondition(s)
	reconcile.SetConditions(&status.Conditions, ready, builtCondition(s), availableCondition(s))
	status.Phase = phase(s, ready)
	status.ObservedGeneration = s.function.Generation
	status.Selector = labels.SelectorFromSet(names.Selector(Kind, s.function.Namespace, s.function.Name)).String()
	if s.deployed && s.rollout.complete {
		status.CodeHash = s.function.Spec.CodeHash
	}
	setBuild(status, s.builder)
	setUpgrade(s)
	status.Replicas, status.ReadyReplicas = 0, 0
	if s.deployment != nil {
		status.Replicas = s.deployment.Status.Replicas
		status.ReadyReplicas = readyReplicas(s)
	}
	status.URL = ""
	if s.triggers.enabledHTTP && s.replicas() > 0 && s.available() > 0 {
		status.URL = publicURL(cfg, s.function.Namespace, s.function.Name)
	}
}

// readyReplicas counts the pods that answer of the version that is deployed: the one that is wanted, or the one before it as long as that
// goes on serving.
func readyReplicas(s *scope) int32 {
	if s.steady() {
		return min(s.replicas(), s.deployment.Status.ReadyReplicas)
	}
	if s.deployed {
		return s.rollout.ready
	}
	return s.deployment.Status.ReadyReplicas
}

// setBuild tells of the Builder's work when it was asked in this pass. Otherwise the last build stays as it is.
func setBuild(status *v1alpha1.FunctionStatus, state *build.State) {
	if state == nil {
		return
	}
	status.Build = &v1alpha1.BuildStatus{JobName: state.JobName, Position: int32(state.Position)}
	if !state.Started.IsZero() {
		status.Build.StartedAt = new(metav1.NewTime(state.Started).Rfc3339Copy())
	}
	switch state.Phase {
	case build.Building:
		status.Build.Step = string(state.Step)
	default:
		status.Build.Step = string(state.Phase)
	}
	if state.Error != nil {
		status.Build.LogTail = strings.ToValidUTF8(state.Error.LogTail, "�")
	}
}

func builtCondition(s *scope) metav1.Condition {
	switch {
	case s.image != nil:
		return condition(s, v1alpha1.Built, metav1.ConditionTrue, v1alpha1.ReasonBuilt, "the image of the source exists")
	case s.obstacle != nil:
		return obstacleCondition(s, v1alpha1.Built, s.obstacle.Message)
	}
	return condition(s, v1alpha1.Built, metav1.ConditionUnknown, v1alpha1.ReasonPending, "the source was not looked at yet")
}

func availableCondition(s *scope) metav1.Condition {
	wanted, available := s.replicas(), s.available()
	running := int32(0)
	if s.deployment != nil {
		running = s.deployment.Status.Replicas
	}
	switch {
	case wanted == 0 && running == 0:
		return condition(s, v1alpha1.Available, metav1.ConditionTrue, offReason(s), "no pod is wanted and none runs")
	case wanted > 0 && available >= wanted:
		return condition(s, v1alpha1.Available, metav1.ConditionTrue, v1alpha1.ReasonReady, "as many pods as wanted answer")
	case s.obstacle != nil:
		return obstacleCondition(s, v1alpha1.Available, s.obstacle.Message)
	case s.rollout.problem != nil:
		return condition(s, v1alpha1.Available, metav1.ConditionFalse, s.rollout.problem.Reason, s.rollout.problem.Message)
	case s.deployment == nil:
		return condition(s, v1alpha1.Available, metav1.ConditionUnknown, v1alpha1.ReasonPending, "nothing is deployed yet")
	}
	return condition(s, v1alpha1.Available, metav1.ConditionUnknown, v1alpha1.ReasonDeploying, s.rollout.message)
}

// readyCondition sums up: what is in the way, what is still going on, or that what the spec asks for is what serves.
func readyCondition(s *scope) metav1.Condition {
	const kind = v1alpha1.Ready
	switch {
	case s.obstacle != nil:
		return obstacleCondition(s, kind, withOld(s, s.obstacle.Message))
	case s.image == nil:
		return condition(s, kind, metav1.ConditionUnknown, v1alpha1.ReasonPending, "the source was not looked at yet")
	case s.steady():
		return servingCondition(s)
	case !s.deployed:
		return condition(s, kind, metav1.ConditionUnknown, v1alpha1.ReasonDeploying, "the version is about to be deployed")
	case s.rollout.problem != nil:
		return condition(s, kind, metav1.ConditionFalse, s.rollout.problem.Reason, withOld(s, s.rollout.problem.Message))
	case !s.rollout.complete:
		return condition(s, kind, metav1.ConditionUnknown, v1alpha1.ReasonDeploying, s.rollout.message)
	case !s.routing.Complete:
		return condition(s, kind, metav1.ConditionUnknown, v1alpha1.ReasonRouting, s.routing.Message)
	}
	return servingCondition(s)
}

func servingCondition(s *scope) metav1.Condition {
	if s.replicas() == 0 {
		return condition(s, v1alpha1.Ready, metav1.ConditionTrue, offReason(s), offMessage(s)+upgradeNote(s))
	}
	return condition(s, v1alpha1.Ready, metav1.ConditionTrue, v1alpha1.ReasonReady, "the version that the spec asks for serves"+upgradeNote(s))
}

// withOld says that calls are still answered although the version that the spec asks for does not serve.
func withOld(s *scope, message string) string {
	if !s.oldServes() {
		return message
	}
	return message + "; the version before it goes on serving"
}

func offReason(s *scope) string {
	if s.disabled() {
		return v1alpha1.ReasonDisabled
	}
	return v1alpha1.ReasonScaledToZero
}

func offMessage(s *scope) string {
	if s.disabled() {
		return "every Trigger of the Function is disabled, so that nothing runs"
	}
	return "replicas is 0, so that nothing runs"
}

// obstacleCondition is False for what only a change by somebody mends, and Unknown for what passes.
func obstacleCondition(s *scope, kind, message string) metav1.Condition {
	status := metav1.ConditionUnknown
	if s.obstacle.Terminal {
		status = metav1.ConditionFalse
	}
	return condition(s, kind, status, s.obstacle.Reason, message)
}

func condition(s *scope, kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return reconcile.Condition(kind, status, reason, cmp.Or(message, reason), s.function.Generation)
}

// phase is one word for the Ready condition that was just computed.
func phase(s *scope, ready metav1.Condition) v1alpha1.FunctionPhase {
	switch {
	case ready.Status == metav1.ConditionTrue:
		return v1alpha1.FunctionReady
	case ready.Status == metav1.ConditionFalse:
		return v1alpha1.FunctionFailed
	case s.image != nil:
		return v1alpha1.FunctionDeploying
	case s.builder != nil:
		return v1alpha1.FunctionBuilding
	}
	return v1alpha1.FunctionPending
}

// publicURL returns the public address of a function, or "" when the platform has neither an external URL nor a domain.
func publicURL(cfg *config.Config, namespace, name string) string {
	switch {
	case cfg.ExternalURL != "":
		return cfg.ExternalURL + names.FunctionPath(namespace, name)
	case cfg.Domain == "":
		return ""
	}
	scheme := "http"
	if cfg.Ingress.TLSSecretName != "" {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s", scheme, names.IngressHost(namespace, name, cfg.Domain))
}
