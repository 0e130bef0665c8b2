package layout

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

var nodeManifests = []string{"package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", ".npmrc", ".yarnrc", ".yarnrc.yml", "pnpm-workspace.yaml", ".pnpmfile.cjs"}

// packageJSON is what of a package.json decides about installing.
type packageJSON struct {
	Dependencies         map[string]string `json:"dependencies"`
	OptionalDependencies map[string]string `json:"optionalDependencies"`
	Scripts              map[string]string `json:"scripts"`
	Workspaces           json.RawMessage   `json:"workspaces"`
}

// installScripts are the scripts of the root package that an installation runs.
var installScripts = []string{"preinstall", "install", "postinstall"}

func findNode(tree Tree) (*Manifest, error) {
	if !tree.Has("package.json") {
		return nil, nil
	}
	text, err := tree.ReadFile("package.json", largestManifest)
	if err != nil {
		return nil, err
	}
	var parsed packageJSON
	if err := json.Unmarshal([]byte(strings.TrimPrefix(string(text), "\ufeff")), &parsed); err != nil {
		return nil, fault.Terminal(v1alpha1.ReasonSourceInvalid, "package.json can't be read: %v; mend the file", err)
	}
	// A source that brings its packages is whole: it was built where they were installed.
	build := parsed.Scripts["build"] != "" && !(parsed.satisfied(tree) && tree.HasUnder("node_modules"))
	if parsed.satisfied(tree) && !build {
		return nil, nil
	}
	return &Manifest{Files: rootFiles(tree, nodeManifests), AllCode: build || parsed.needsCode(tree) || namesFiles(string(text)), Build: build}, nil
}

// satisfied says whether every dependency comes with the source. Optional ones may be absent when others are there.
func (p *packageJSON) satisfied(tree Tree) bool {
	for name := range p.Dependencies {
		if !tree.HasUnder("node_modules/"+name) && !tree.Has("node_modules/"+name) {
			return false
		}
	}
	return len(p.OptionalDependencies) == 0 || tree.HasUnder("node_modules")
}

func (p *packageJSON) needsCode(tree Tree) bool {
	if len(p.Workspaces) > 0 || slices.ContainsFunc([]string{"binding.gyp", "pnpm-workspace.yaml", ".pnpmfile.cjs"}, tree.Has) || tree.HasUnder(".yarn") {
		return true
	}
	for _, script := range installScripts {
		if p.Scripts[script] != "" {
			return true
		}
	}
	for _, dependencies := range []map[string]string{p.Dependencies, p.OptionalDependencies} {
		for _, version := range dependencies {
			if isLocal(version) {
				return true
			}
		}
	}
	return false
}

// namesFiles finds local dependencies and patches wherever they are named: overrides nest.
func namesFiles(text string) bool {
	return slices.ContainsFunc([]string{`"file:`, `"link:`, `"portal:`, `"patch:`, `"patchedDependencies"`}, func(mark string) bool { return strings.Contains(text, mark) })
}

func isLocal(version string) bool {
	for _, prefix := range []string{".", "/", "~/"} {
		if strings.HasPrefix(version, prefix) {
			return true
		}
	}
	return strings.HasSuffix(version, ".tgz") && !strings.Contains(version, "://")
}
