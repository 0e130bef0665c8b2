package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// An install of another version gives every program other pods, all at once; so does going back. Functions and the API are served all the while. The
// other version is the same code under another mark: what a version may change beside that has tests of its own.
func TestUpgradeAndBack(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	token := programToken(t, namespace, "sless-viewer")
	waitForRights(t, namespace, token)
	apply(t, namespace, python("steady", "def handle(event):\n    return event['body'] or 'fine'\n", "concurrency: 40")+httpTrigger("steady"))
	waitFunction(t, namespace, "steady", "True", v1alpha1.ReasonReady)
	steady := gateway + names.FunctionPath(namespace, "steady")
	loads := loads{
		startRequests(t, &requests{name: "GET of a function", method: http.MethodGet, url: steady}, 10),
		startRequests(t, &requests{name: "POST to a function", method: http.MethodPost, url: steady}, 10),
		startRequests(t, &requests{name: "GET of the API", method: http.MethodGet, url: apiserver() + "/v1/namespaces/" + namespace + "/functions/steady", token: token}, 5),
	}
	for _, version := range []string{`"next"`, "null"} {
		began := time.Now()
		for _, program := range programs {
			kubectl(t, "", "patch", "deployment", program, "-n", names.SystemNamespace, "--type=merge", "-p",
				fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"sless.io/test-version":%s}}}}}`, version))
		}
		for _, program := range programs {
			kubectl(t, "", "rollout", "status", "deployment/"+program, "-n", names.SystemNamespace, "--timeout=5m")
		}
		t.Logf("version %s runs after %s", version, time.Since(began).Round(time.Second))
		// The new operator works, and the new gateways are told.
		apply(t, namespace, python("after", fmt.Sprintf("def handle(event):\n    return 'built under %%s' %% %q\n", version))+httpTrigger("after"))
		waitFunction(t, namespace, "after", "True", v1alpha1.ReasonReady)
		mustCall(t, "GET", namespace, "after", "", "", 200)
	}
	for _, load := range loads {
		load.judge(t)
	}
}
