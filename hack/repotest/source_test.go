package repotest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// mostLines is how long a Go file may be; a longer one hides a noun that wants a file of its own.
const mostLines = 500

// TestGoFilesAreShort spares tests and generated files.
func TestGoFilesAreShort(t *testing.T) {
	for _, file := range files(t, "*.go") {
		text := read(t, file)
		if lines := bytes.Count(text, []byte("\n")); lines > mostLines && !strings.HasSuffix(file, "_test.go") && !generated(t, file, text) {
			t.Errorf("%s has %d lines; the most is %d", file, lines, mostLines)
		}
	}
}

func generated(t *testing.T, file string, text []byte) bool {
	return ast.IsGenerated(parse(t, file, text))
}

func parse(t *testing.T, file string, text []byte) *ast.File {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.PackageClauseOnly|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// TestEveryPackageHasOneComment holds that a package says in one place, and only there, what it is for. A package of tests alone says
// it in one of them.
func TestEveryPackageHasOneComment(t *testing.T) {
	type key struct{ folder, name string }
	comments := map[key][]string{}
	hasCode := map[key]bool{}
	for _, file := range files(t, "*.go") {
		parsed := parse(t, file, read(t, file))
		p := key{filepath.Dir(file), parsed.Name.Name}
		test := strings.HasSuffix(file, "_test.go")
		if test && strings.HasSuffix(p.name, "_test") {
			continue
		}
		hasCode[p] = hasCode[p] || !test
		docs := comments[p]
		if doc := parsed.Doc.Text(); doc != "" {
			docs = append(docs, doc)
		}
		comments[p] = docs
	}
	for p, docs := range comments {
		want := "Package " + p.name + " "
		if p.name == "main" && hasCode[p] {
			want = "Command "
		}
		switch {
		case len(docs) != 1:
			t.Errorf("package %s in %s has %d package comments", p.name, p.folder, len(docs))
		case !strings.HasPrefix(docs[0], want):
			t.Errorf("the comment of package %s in %s does not begin with %q", p.name, p.folder, want)
		}
	}
}

// TestNoRegistryIsNamed holds that no file says where packages come from: that is each machine's own business. What this machine is
// set up for is what is looked for.
func TestNoRegistryIsNamed(t *testing.T) {
	hosts := registryHosts(t)
	for _, file := range files(t) {
		if strings.HasSuffix(file, ".sum") {
			continue
		}
		text := read(t, file)
		for host, setting := range hosts {
			if bytes.Contains(text, []byte(host)) {
				t.Errorf("%s names the host of %s", file, setting)
			}
		}
	}
}
