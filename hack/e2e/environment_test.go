package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/naeel/sless/api/v1alpha1"
)

const environmentHandler = `import os


def handle(event):
    print("called")
    return os.environ["PASSWORD"] + " " + os.environ["COLOR"] + " " + os.environ["PLAIN"]
`

// Another value of a Secret or a ConfigMap comes to the pods by itself, with a roll-out during which every call is answered; and neither
// values nor what calls carry is in a log of the platform.
func TestEnvironmentIsFollowed(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	values := func(password, color string) {
		t.Helper()
		apply(t, namespace, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {password: %s}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {color: %s}\n", password, color))
	}
	before, after, sent := "old-word-of-"+namespace, "new-word-of-"+namespace, "body-of-"+namespace
	values(before, "blue")
	apply(t, namespace, python("f", environmentHandler,
		"env: [{name: PLAIN, value: x}, {name: PASSWORD, valueFrom: {secretKeyRef: {name: db, key: password}}}, {name: COLOR, valueFrom: {configMapKeyRef: {name: settings, key: color}}}]")+httpTrigger("f"))
	waitTrigger(t, namespace, "f", "True", v1alpha1.ReasonReady)
	ask := func() string {
		t.Helper()
		return mustCall(t, "POST", namespace, "f", "?word="+sent, sent, 200).body
	}
	if got := ask(); got != before+" blue x" {
		t.Fatalf("got %q", got)
	}
	values(after, "green")
	eventually(t, "the new values", func() error {
		if got := ask(); got != after+" green x" {
			return fmt.Errorf("got %q", got)
		}
		return nil
	})
	logs := map[string]string{"operator": programLogs(t, "operator"), "apiserver": programLogs(t, "apiserver")}
	eventually(t, "the log of the gateway has a line of a call", func() error {
		ask() // again, as the gateway that had the others may be gone
		if logs["gateway"] = programLogs(t, "gateway"); !strings.Contains(logs["gateway"], namespace) {
			return fmt.Errorf("%d bytes have none", len(logs["gateway"]))
		}
		return nil
	})
	for program, log := range logs {
		for _, word := range []string{before, after, sent} {
			if at := strings.Index(log, word); at >= 0 {
				t.Errorf("the log of the %s has %q: …%s", program, word, log[max(0, at-200):at+len(word)])
			}
		}
	}
}
