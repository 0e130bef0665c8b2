package trigger

import (
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
)

const (
	kind = "Trigger"
	// gatewayService is the gateway's public Service in sless-system.
	gatewayService = "gateway"
	gatewayPort    = 8080
)

// address is where the gateway offers a Function to the outside.
type address struct {
	// url is empty when the platform has no address.
	url string
	// host is the Function's own, for which an Ingress is needed; empty when the platform has no domain.
	host string
}

// addressOf returns the address of a Trigger's Function. With both an external URL and a domain it has two, and its URL is the path below the
// external URL.
func addressOf(platform *config.Config, trigger *v1alpha1.Trigger) address {
	namespace, function := trigger.Namespace, trigger.Spec.FunctionRef.Name
	a := address{}
	if platform.Domain != "" {
		a.host = names.IngressHost(namespace, function, platform.Domain)
		a.url = "http://" + a.host
		if platform.Ingress.TLSSecretName != "" {
			a.url = "https://" + a.host
		}
	}
	if platform.ExternalURL != "" {
		a.url = platform.ExternalURL + names.FunctionPath(namespace, function)
	}
	return a
}

// ingressName returns the name of a Trigger's Ingress, which stands beside those of all namespaces.
func ingressName(trigger *v1alpha1.Trigger) string {
	return names.Child(trigger.Name, names.Hash(trigger.Namespace, trigger.Name)[:16])
}

// buildIngress leads a Function's host to the gateway, which knows the Function by the host.
func buildIngress(shape config.Ingress, trigger *v1alpha1.Trigger, host string) *networkingv1ac.IngressApplyConfiguration {
	backend := networkingv1ac.IngressBackend().WithService(networkingv1ac.IngressServiceBackend().
		WithName(gatewayService).
		WithPort(networkingv1ac.ServiceBackendPort().WithNumber(gatewayPort)))
	spec := networkingv1ac.IngressSpec().WithRules(networkingv1ac.IngressRule().
		WithHost(host).
		WithHTTP(networkingv1ac.HTTPIngressRuleValue().WithPaths(networkingv1ac.HTTPIngressPath().
			WithPath("/").
			WithPathType(networkingv1.PathTypePrefix).
			WithBackend(backend))))
	if shape.ClassName != "" {
		spec.WithIngressClassName(shape.ClassName)
	}
	if shape.TLSSecretName != "" {
		spec.WithTLS(networkingv1ac.IngressTLS().WithHosts(host).WithSecretName(shape.TLSSecretName))
	}
	return networkingv1ac.Ingress(ingressName(trigger), names.SystemNamespace).
		WithLabels(names.Labels(kind, trigger.Namespace, trigger.Name, trigger.UID)).
		WithSpec(spec)
}
