package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// probe answers whether a TCP connection to each address of the event can be made, and what credentials it finds.
const probe = `import os, socket
def handle(event):
    found = [p for p in ('/var/run/secrets/kubernetes.io', '/kaniko', '/root/.docker') if os.path.exists(p)]
    found += [k for k in os.environ if 'TOKEN' in k or 'PASSWORD' in k or 'SECRET' in k]
    reached = []
    for address in event.get('addresses', []):
        host, port = address.rsplit(':', 1)
        try:
            socket.create_connection((host, int(port)), 3).close()
            reached.append(address)
        except OSError:
            pass
    return {'found': found, 'reached': reached, 'uid': os.getuid(), 'writable': [p for p in ('/', '/function/code', '/tmp') if os.access(p, os.W_OK)]}
`

// A function can reach neither the API server, nor the node, nor another tenant, nor the platform's stores; it finds no credential,
// and writes to /tmp alone.
func TestTenantsAreConfined(t *testing.T) {
	t.Parallel()
	namespace, other := newNamespace(t), newNamespace(t)
	apply(t, namespace, python("probe", probe)+httpTriggerFor("probe", "probe", "http: {payload: body}"))
	apply(t, namespace, python("sister", goodHandler))
	apply(t, other, python("stranger", goodHandler))
	waitFunction(t, namespace, "probe", "True", v1alpha1.ReasonReady)
	waitFunction(t, namespace, "sister", "True", v1alpha1.ReasonReady)
	waitFunction(t, other, "stranger", "True", v1alpha1.ReasonReady)

	service := func(namespace, name string) string {
		object := &corev1.Service{}
		if err := get(t, namespace, name, object); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s:%d", object.Spec.ClusterIP, object.Spec.Ports[0].Port)
	}
	apiServer, stranger, sister := service("default", "kubernetes"), service(names.FunctionNamespace(other), "stranger"), service(names.FunctionNamespace(namespace), "sister")
	nodes := &corev1.NodeList{}
	if err := kube.List(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	kubelet := nodes.Items[0].Status.Addresses[0].Address + ":10250"
	event := fmt.Sprintf(`{"addresses": [%q, %q, %q, %q, "169.254.169.254:80"]}`, apiServer, stranger, sister, kubelet)
	// A moment after pods have started, the network policies know all of them, and from then on it stays so.
	want, got := fmt.Sprintf(`"reached":[%q]`, sister), ""
	look := func() error {
		got = strings.ReplaceAll(mustCall(t, "POST", namespace, "probe", "", event, 200).body, " ", "")
		if !strings.Contains(got, want) {
			return fmt.Errorf("the probe says %s, want %s (the tenant's own function alone)", got, want)
		}
		return nil
	}
	eventually(t, "the network policies hold", look)
	consistently(t, 3*time.Second, look)
	if !strings.Contains(got, `"found":[]`) || !strings.Contains(got, `"uid":65532`) || !strings.Contains(got, `"writable":["/tmp"]`) {
		t.Errorf("the probe says %s", got)
	}
}
