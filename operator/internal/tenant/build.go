package tenant

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/operator/internal/config"
)

// Names in and around a tenant's namespace.
const (
	// PullSecret is the Secret with which a tenant's pods pull their images.
	PullSecret = "sless-pull"
	// Role is the ClusterRole that says what the operator may do in a tenant's namespace.
	Role = "sless-operator-tenant"
	// Account is the operator's ServiceAccount in sless-system.
	Account = "operator"
	// APIServerRole is the ClusterRole that says what the apiserver may read there: pods and their logs.
	APIServerRole = "sless-apiserver-tenant"
	// APIServerAccount is the apiserver's ServiceAccount in sless-system.
	APIServerAccount = "apiserver"

	roleBinding   = "sless-operator"
	logsBinding   = "sless-apiserver"
	networkPolicy = "sless-default"
	// gatewayLabel is on the gateway's pods.
	gatewayLabel = "app.kubernetes.io/name"
	gatewayName  = "gateway"
)

// closedIPv4 and closedIPv6 are ranges that no function calls unless the configuration allows it: this network's own, the cluster's, and
// the link's, where clouds keep their metadata.
var (
	closedIPv4 = []string{"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4"}
	closedIPv6 = []string{"::/127", "64:ff9b::/96", "fc00::/7", "fe80::/10", "ff00::/8"}
)

// nodeLocalDNS is the address at which Kubernetes' own DNS cache listens on a node, where there is one.
const nodeLocalDNS = "169.254.20.10/32"

func namespaceLabels(user, uid string) map[string]string {
	labels := map[string]string{
		names.ManagedByLabel: names.ManagedBy,
		names.NamespaceLabel: user,
		names.UIDLabel:       uid,
	}
	for _, mode := range []string{"enforce", "audit", "warn"} {
		labels["pod-security.kubernetes.io/"+mode] = "restricted"
	}
	return labels
}

// newNamespace has its labels from the first moment: the admission policy lets the operator into namespaces that it labelled itself.
func newNamespace(user *corev1.Namespace) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   names.FunctionNamespace(user.Name),
		Labels: namespaceLabels(user.Name, string(user.UID)),
	}}
}

// buildBoundaries returns what bounds the namespace made for a user's namespace, in the order in which it has to be written: the
// operator's rights come first.
func buildBoundaries(user, made, uid string, pullConfig []byte, network config.Network) []runtime.ApplyConfiguration {
	return []runtime.ApplyConfiguration{
		corev1ac.Namespace(made).WithLabels(namespaceLabels(user, uid)),
		buildRoleBinding(made, roleBinding, Role, Account),
		buildRoleBinding(made, logsBinding, APIServerRole, APIServerAccount),
		buildNetworkPolicy(user, made, network),
		corev1ac.Secret(PullSecret, made).
			WithLabels(ownLabels()).
			WithType(corev1.SecretTypeDockerConfigJson).
			WithData(map[string][]byte{corev1.DockerConfigJsonKey: pullConfig}),
	}
}

func ownLabels() map[string]string {
	return map[string]string{names.ManagedByLabel: names.ManagedBy}
}

func buildRoleBinding(made, name, role, account string) *rbacv1ac.RoleBindingApplyConfiguration {
	return rbacv1ac.RoleBinding(name, made).
		WithLabels(ownLabels()).
		WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(role)).
		WithSubjects(rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).WithNamespace(names.SystemNamespace).WithName(account))
}

// buildNetworkPolicy lets the gateway and the tenant's own two namespaces in, and out what DESIGN calls the outside.
func buildNetworkPolicy(user, made string, network config.Network) *networkingv1ac.NetworkPolicyApplyConfiguration {
	own := []*networkingv1ac.NetworkPolicyPeerApplyConfiguration{inNamespace(user), inNamespace(made)}
	gateway := inNamespace(names.SystemNamespace).
		WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{gatewayLabel: gatewayName}))
	var outside []*networkingv1ac.NetworkPolicyPeerApplyConfiguration
	open := func(cidr string, closed ...string) {
		denied, all := within(cidr, network.DeniedCIDRs)
		if !all {
			outside = append(outside, addresses(cidr, append(slices.Clone(closed), denied...)...))
		}
	}
	open("0.0.0.0/0", closedIPv4...)
	open("::/0", closedIPv6...)
	for _, cidr := range network.AllowedCIDRs {
		open(cidr)
	}
	return networkingv1ac.NetworkPolicy(networkPolicy, made).
		WithLabels(ownLabels()).
		WithSpec(networkingv1ac.NetworkPolicySpec().
			WithPodSelector(metav1ac.LabelSelector()).
			WithPolicyTypes(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress).
			WithIngress(networkingv1ac.NetworkPolicyIngressRule().
				WithFrom(gateway).WithFrom(own...).
				WithPorts(port(corev1.ProtocolTCP, names.Port))).
			WithEgress(
				networkingv1ac.NetworkPolicyEgressRule().
					WithTo(inNamespace(metav1.NamespaceSystem), addresses(nodeLocalDNS)).
					WithPorts(port(corev1.ProtocolUDP, 53), port(corev1.ProtocolTCP, 53)),
				networkingv1ac.NetworkPolicyEgressRule().WithTo(own...),
				networkingv1ac.NetworkPolicyEgressRule().WithTo(outside...),
			))
}

func inNamespace(name string) *networkingv1ac.NetworkPolicyPeerApplyConfiguration {
	return networkingv1ac.NetworkPolicyPeer().WithNamespaceSelector(
		metav1ac.LabelSelector().WithMatchLabels(map[string]string{corev1.LabelMetadataName: name}))
}

func addresses(cidr string, except ...string) *networkingv1ac.NetworkPolicyPeerApplyConfiguration {
	return networkingv1ac.NetworkPolicyPeer().WithIPBlock(networkingv1ac.IPBlock().WithCIDR(cidr).WithExcept(except...))
}

// within returns the denied ranges that lie in a range, and whether one of them is all of it. The configuration has none that is no range.
func within(cidr string, denied []string) (parts []string, all bool) {
	whole, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil, true
	}
	for _, text := range denied {
		part, err := netip.ParsePrefix(text)
		if err != nil || !part.Overlaps(whole) {
			continue
		}
		if part.Bits() <= whole.Bits() {
			return nil, true
		}
		parts = append(parts, part.Masked().String())
	}
	return parts, false
}

func port(protocol corev1.Protocol, number int32) *networkingv1ac.NetworkPolicyPortApplyConfiguration {
	return networkingv1ac.NetworkPolicyPort().WithProtocol(protocol).WithPort(intstr.FromInt32(number))
}

// readPullConfig returns the pull credentials. They are read each time: whoever changes them changes the file.
func readPullConfig(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read pull credentials: %w", err)
	}
	if !json.Valid(text) {
		return nil, fmt.Errorf("read pull credentials: %s is not JSON", path)
	}
	return text, nil
}

// digestOf stands for the objects' whole content.
func digestOf(objects []runtime.ApplyConfiguration) (string, error) {
	text, err := json.Marshal(objects)
	if err != nil {
		return "", fmt.Errorf("encode boundaries: %w", err)
	}
	return names.Hash(string(text)), nil
}
