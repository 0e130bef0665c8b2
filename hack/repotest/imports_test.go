package repotest

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const sless = "github.com/naeel/sless/"

// outside are the modules that the workspace leaves out, because their requirements would bind the others.
var outside = []string{"hack/cluster", "hack/cluster/kube", "hack/release", "hack/tools"}

// rule says what the packages below a path may import: of sless only what is listed and what lies below the path's own module, of
// others what allows returns true for (nil: anything).
type rule struct {
	path   string
	sless  []string
	allows func(imported string) bool
	// deep holds for what is imported indirectly too.
	deep bool
}

var rules = []rule{
	{path: "api/v1alpha1", sless: []string{"api/"}, allows: kubernetesTypes},
	{path: "api/names", sless: []string{"api/"}, allows: kubernetesTypes},
	{path: "api/rest", sless: []string{"api/rest"}, allows: func(imported string) bool { return !strings.Contains(imported, "k8s.io/") }, deep: true},
	{path: "operator", sless: []string{"api/", "ledger", "operator"}},
	{path: "gateway", sless: []string{"api/", "ledger", "gateway"}},
	{path: "apiserver", sless: []string{"api/", "ledger", "apiserver"}},
	{path: "terraform-provider-sless", sless: []string{"api/rest", "terraform-provider-sless"}},
	{path: "ledger", sless: []string{"ledger"}},
	{path: "hack", sless: []string{"api/", "ledger", "hack"}},
}

// kubernetesTypes allows the standard library and the types of Kubernetes.
func kubernetesTypes(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".") || strings.HasPrefix(imported, "k8s.io/api/") || strings.HasPrefix(imported, "k8s.io/apimachinery/")
}

type listed struct {
	ImportPath, ForTest                      string
	Imports, TestImports, XTestImports, Deps []string
}

// TestImports holds who may import whom.
func TestImports(t *testing.T) {
	for _, module := range modules(t) {
		packages := list(t, module)
		if len(packages) == 0 {
			t.Errorf("module %s has no package", module)
		}
		for _, p := range packages {
			at := strings.TrimPrefix(p.ImportPath, sless)
			i := slices.IndexFunc(rules, func(r rule) bool { return at == r.path || strings.HasPrefix(at, r.path+"/") })
			if i < 0 {
				t.Errorf("no rule says what %s may import", at)
				continue
			}
			for _, imported := range rules[i].imports(p) {
				if !rules[i].permits(imported) {
					t.Errorf("%s imports %s", at, imported)
				}
			}
		}
	}
}

func (r rule) imports(p listed) []string {
	all := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
	if r.deep {
		all = append(all, p.Deps...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (r rule) permits(imported string) bool {
	if own, ok := strings.CutPrefix(imported, sless); ok {
		return slices.ContainsFunc(r.sless, func(allowed string) bool {
			return own == allowed || strings.HasPrefix(own, strings.TrimSuffix(allowed, "/")+"/")
		})
	}
	return r.allows == nil || r.allows(imported)
}

// list asks the go command about the packages of a module.
func list(t *testing.T, module string) []listed {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(output(t, "go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", "./"+module+"/...")))
	var packages []listed
	for decoder.More() {
		var p listed
		if err := decoder.Decode(&p); err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	return packages
}

// modules returns the folders of the workspace's modules.
func modules(t *testing.T) []string {
	t.Helper()
	var work struct{ Use []struct{ DiskPath string } }
	if err := json.Unmarshal([]byte(output(t, "go", "work", "edit", "-json")), &work); err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, use := range work.Use {
		folders = append(folders, filepath.Clean(use.DiskPath))
	}
	return folders
}

// TestEveryModuleHasItsPlace holds that no module is forgotten by the workspace, and so by make.
func TestEveryModuleHasItsPlace(t *testing.T) {
	known := append(modules(t), outside...)
	for _, file := range files(t, "*go.mod") {
		if folder := filepath.Dir(file); !slices.Contains(known, folder) {
			t.Errorf("module %s is neither in go.work nor one of %v", folder, outside)
		}
	}
}
