package e2e

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// edition is a version of sless that can be installed.
type edition struct {
	name string
	// install returns when all of it runs.
	install func(t *testing.T)
}

// editions are the one to upgrade to and the one before, to go back to. They are installed by the commands of SLESS_TEST_UPGRADE and
// SLESS_TEST_DOWNGRADE, as hack/upgrade.sh gives them; else both are the code that runs, under a mark and without it.
func editions() []edition {
	if upgrade, downgrade := os.Getenv("SLESS_TEST_UPGRADE"), os.Getenv("SLESS_TEST_DOWNGRADE"); upgrade != "" && downgrade != "" {
		return []edition{
			{"next", func(t *testing.T) { shell(t, ".", upgrade) }},
			{"previous", func(t *testing.T) { shell(t, ".", downgrade) }},
		}
	}
	return []edition{
		{"marked", func(t *testing.T) { markPrograms(t, `"next"`) }},
		{"unmarked", func(t *testing.T) { markPrograms(t, "null") }},
	}
}

// markPrograms gives every program other pods, all at once, and waits until no apiserver of before is left.
func markPrograms(t *testing.T, mark string) {
	t.Helper()
	replacing.Lock()
	defer replacing.Unlock()
	for _, program := range programs {
		kubectl(t, "", "patch", "deployment", program, "-n", names.SystemNamespace, "--type=merge", "-p",
			fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"sless.io/test-version":%s}}}}}`, mark))
	}
	for _, program := range programs {
		rolledOut(t, program)
	}
	oldPodsGone(t, "apiserver")
}

// Functions and the API are served while another version is installed, and while the one before is again.
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
	for _, edition := range editions() {
		began := time.Now()
		edition.install(t)
		t.Logf("the %s version runs after %s", edition.name, time.Since(began).Round(time.Second))
		// The new operator works, and the new gateways are told.
		apply(t, namespace, python("after", fmt.Sprintf("def handle(event):\n    return 'built under %s'\n", edition.name))+httpTrigger("after"))
		waitFunction(t, namespace, "after", "True", v1alpha1.ReasonReady)
		if got := mustCall(t, "GET", namespace, "after", "", "", 200).body; got != "built under "+edition.name {
			t.Errorf("the function answers %q", got)
		}
		waitFunction(t, namespace, "steady", "True", v1alpha1.ReasonReady)
	}
	for _, load := range loads {
		load.judge(t)
	}
}
