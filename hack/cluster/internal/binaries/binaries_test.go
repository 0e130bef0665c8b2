package binaries

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/naeel/sless/hack/cluster/internal/plan"
)

func TestDropLocalReplaces(t *testing.T) {
	const mod = `module example.org/m

require example.org/a v1.0.0

replace example.org/a => ../a

replace (
	example.org/b => ./b
	example.org/c => example.org/d v1.2.3
)
`
	const want = `module example.org/m

require example.org/a v1.0.0


replace (
	example.org/c => example.org/d v1.2.3
)
`
	if got := string(dropLocalReplaces([]byte(mod))); got != want {
		t.Errorf("got:\n%s", got)
	}
}

func TestTheHashFollowsTheInputs(t *testing.T) {
	repo := t.TempDir()
	program := Program{Name: "p", Dir: "m", Package: "."}
	builder := Builder{Place: plan.Place{Repo: repo}}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(repo, "m", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	hash := func() string {
		t.Helper()
		hash, err := builder.hash(program)
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	write("go.mod", "module m\n")
	write("go.sum", "")
	write("main.go", "package main\n")
	first := hash()
	write("README.md", "not compiled\n")
	if hash() != first {
		t.Error("a file that is not compiled counts")
	}
	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		before := hash()
		write(name, "changed\n")
		if hash() == before {
			t.Errorf("a change of %s does not count", name)
		}
	}
	before := hash()
	program.LDFlags = "-X main.version=v2"
	if hash() == before {
		t.Error("a flag does not count")
	}
}
