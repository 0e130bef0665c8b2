// Package layout knows what the files of a source mean to its language: where the entrypoint is, and which of them name dependencies.
package layout

import (
	"path"
	"slices"
	"strings"
)

// Language is a programming language that sless knows the files of.
type Language string

// The languages.
const (
	Python Language = "python"
	Node   Language = "node"
)

// Tree is the files of a source.
type Tree interface {
	Has(name string) bool
	HasUnder(folder string) bool
	Paths() []string
	ReadFile(name string, limit int64) ([]byte, error)
}

// Manifest is the files that name a source's dependencies.
type Manifest struct {
	// Files are their paths.
	Files []string
	// AllCode says that installing needs, and its result depends on, all files of the source: a manifest names local paths or
	// runs scripts.
	AllCode bool
	// Build says that the install step makes the code that runs of the source, so that the entrypoint's file may be there only afterwards.
	Build bool
}

// Entrypoints returns the files of which an entrypoint, a module's path, a dot and a function's name, needs one.
func Entrypoints(language Language, entrypoint string) []string {
	module := entrypoint
	if dot := strings.LastIndexByte(entrypoint, '.'); dot >= 0 {
		module = entrypoint[:dot]
	}
	module = path.Clean(strings.ReplaceAll(module, ".", "/"))
	if language == Node {
		return []string{module + ".js", module + ".mjs", module + ".cjs"}
	}
	return []string{module + ".py", module + "/__init__.py"}
}

// FindManifest returns the manifest of a source, or nil when there is nothing to install.
func FindManifest(language Language, tree Tree) (*Manifest, error) {
	if language == Node {
		return findNode(tree)
	}
	return findPython(tree)
}

// largestManifest is the size up to which a manifest is looked into.
const largestManifest = 16 << 20

// rootFiles returns the files at the root of the tree that match one of the patterns.
func rootFiles(tree Tree, patterns []string) []string {
	var found []string
	for _, name := range tree.Paths() {
		if strings.Contains(name, "/") {
			continue
		}
		if slices.ContainsFunc(patterns, func(pattern string) bool { matches, _ := path.Match(pattern, name); return matches }) {
			found = append(found, name)
		}
	}
	return found
}
