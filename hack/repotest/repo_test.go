// Package repotest holds the repository's own rules: who imports whom, what every package and page has, what no file names.
package repotest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the repository's.
const root = "../.."

// files lists what git has or would add, relative to the root.
func files(t *testing.T, patterns ...string) []string {
	t.Helper()
	args := append([]string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"}, patterns...)
	var found []string
	for name := range strings.SplitSeq(output(t, "git", args...), "\x00") {
		_, err := os.Stat(filepath.Join(root, name))
		if name != "" && !errors.Is(err, fs.ErrNotExist) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if len(found) == 0 {
		t.Fatalf("no file matches %v", patterns)
	}
	return found
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// output runs a program at the root and returns what it prints.
func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	command := exec.Command(program, args...)
	command.Dir = root
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", program, args, err, &stderr)
	}
	return string(out)
}
