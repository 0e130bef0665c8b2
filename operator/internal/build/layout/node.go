package layout

import (
	"encoding/json"
	"strings"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

var nodeManifests = []string{"package.json", "package-lock.json", "npm-shrinkwrap.json", ".npmrc", "yarn.lock", "pnpm-lock.yaml"}

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
	if parsed.satisfied(tree) {
		return nil, nil
	}
	return &Manifest{Files: rootFiles(tree, nodeManifests), AllCode: parsed.needsCode(tree) || namesFiles(string(text))}, nil
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
	if len(p.Workspaces) > 0 || tree.Has("binding.gyp") {
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

// namesFiles finds local dependencies wherever they are named: overrides nest.
func namesFiles(text string) bool {
	return strings.Contains(text, `"file:`) || strings.Contains(text, `"link:`)
}

func isLocal(version string) bool {
	for _, prefix := range []string{".", "/", "~/"} {
		if strings.HasPrefix(version, prefix) {
			return true
		}
	}
	return strings.HasSuffix(version, ".tgz") && !strings.Contains(version, "://")
}
