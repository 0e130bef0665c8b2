// Package rbac compares what the accounts of operator, gateway and apiserver did during the end-to-end tests, as the local cluster's audit
// log has it, with what their roles grant: nothing is granted that nobody needs, and nobody asks for what is not granted.
package rbac

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// TestEveryGrantIsUsed holds that the roles grant what was used, and nothing else but what needless says why.
func TestEveryGrantIsUsed(t *testing.T) {
	granted, used, strange := readGrants(t), map[grant]int{}, map[string]bool{}
	read(t, func(r *request) {
		if r.forbidden() {
			return
		}
		for _, verb := range r.verbs() {
			if g, ok := granted.find(r, verb); ok {
				used[g]++
			} else {
				strange[fmt.Sprintf("%s: %s %s in %q: %s", r.account(), verb, r.resource(), r.ObjectRef.Namespace, r.Annotations["authorization.k8s.io/reason"])] = true
			}
		}
	})
	for _, line := range slices.Sorted(maps.Keys(strange)) {
		t.Errorf("allowed by something that is not in config/rbac: %s", line)
	}
	for _, g := range granted {
		_, excused := needless[g]
		switch n := used[g]; {
		case n > 0 && n < 4 && !excused:
			t.Logf("%s was used %d times only", g, n)
		case n == 0 && !excused:
			t.Errorf("%s is granted and was not used: take it out of the role, or say in needless why it stays", g)
		}
	}
	for g := range needless {
		if !slices.Contains(granted, g) {
			t.Errorf("needless speaks of %s, which no role grants", g)
		}
	}
}

// TestNothingIsForbidden holds that nobody asked for what no role grants, or an admission policy refuses. SLESS_TEST_SINCE, a time as in RFC 3339, leaves
// out what was before it.
func TestNothingIsForbidden(t *testing.T) {
	var since time.Time
	if text := os.Getenv("SLESS_TEST_SINCE"); text != "" {
		var err error
		if since, err = time.Parse(time.RFC3339, text); err != nil {
			t.Fatalf("SLESS_TEST_SINCE: %v", err)
		}
	}
	refused := map[string]int{}
	read(t, func(r *request) {
		confined := strings.Contains(r.ResponseStatus.Message, "ValidatingAdmissionPolicy 'sless-")
		if (r.forbidden() || confined) && r.RequestReceivedTimestamp.After(since) && !expected(r) {
			refused[fmt.Sprintf("%s: %s %s in %q: %s", r.account(), r.Verb, r.resource(), place(r.ObjectRef.Namespace), reason(r))]++
		}
	})
	for _, line := range slices.Sorted(maps.Keys(refused)) {
		t.Errorf("refused %d times: %s", refused[line], line)
	}
}

func reason(r *request) string {
	if r.forbidden() {
		return "no role grants it"
	}
	return r.ResponseStatus.Message
}

// read gives see what the accounts did, and asks that there is something of each.
func read(t *testing.T, see func(*request)) {
	t.Helper()
	seen := map[string]int{}
	err := readLog(filepath.Join(root, ".dev", "log", "audit*.log"), func(r *request) {
		seen[r.account()]++
		see(r)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, account := range accounts {
		if seen[account] == 0 {
			t.Errorf("the audit log has nothing of %s", account)
		}
	}
	t.Logf("requests: %v", seen)
}
