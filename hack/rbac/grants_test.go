package rbac

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/naeel/sless/api/names"
)

var accounts = []string{"operator", "gateway", "apiserver"}

// Places that are no name of a namespace.
const (
	everywhere = "everywhere"
	tenants    = names.FunctionNamespacePrefix + "*"
)

// grant is one verb on one resource, in one place, of one account.
type grant struct{ account, place, group, resource, verb string }

func (g grant) String() string {
	resource := g.resource
	if g.group != "" {
		resource += "." + g.group
	}
	return fmt.Sprintf("{%s %s: %s %s}", g.account, g.place, g.verb, resource)
}

type grants []grant

// find returns the grant that a request needed: that of its own namespace before one for everywhere.
func (g grants) find(r *request, verb string) (grant, bool) {
	for _, where := range []string{place(r.ObjectRef.Namespace), everywhere} {
		wanted := grant{r.account(), where, r.ObjectRef.APIGroup, r.resource(), verb}
		if slices.Contains(g, wanted) {
			return wanted, true
		}
	}
	return grant{}, false
}

func place(namespace string) string {
	if strings.HasPrefix(namespace, names.FunctionNamespacePrefix) {
		return tenants
	}
	return namespace
}

// readGrants reads the roles that the install binds to the accounts: a ClusterRole everywhere, but one called -tenant in sless-fn-*, and a
// Role in its namespace.
func readGrants(t *testing.T) grants {
	t.Helper()
	var found grants
	for _, account := range accounts {
		files, err := filepath.Glob(filepath.Join(root, "config", "rbac", account, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no roles of %s: %v", account, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
				var role rbacv1.ClusterRole
				if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				found = append(found, grantsOf(account, &role)...)
			}
		}
	}
	return found
}

func grantsOf(account string, role *rbacv1.ClusterRole) (found grants) {
	where := everywhere
	switch {
	case role.Kind == "Role":
		where = role.Namespace
	case role.Kind != "ClusterRole":
		return nil
	case strings.HasSuffix(role.Name, "-tenant"):
		where = tenants
	}
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					found = append(found, grant{account, where, group, resource, verb})
				}
			}
		}
	}
	return found
}
