//go:build acceptance

package acceptance

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestPage runs the commands of docs/terraform.md, as a newcomer would, in a namespace of its own.
func TestPage(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("none", "")
	w.kubectl("delete", "namespace", w.namespace, "--timeout=5m") // the page makes it
	text, err := os.ReadFile(filepath.Join(moduleRoot, "..", "docs", "terraform.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "## From an empty folder to a URL")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := shellBlock.FindAllStringSubmatch(section, -1)
	if !found || len(blocks) != 4 {
		t.Fatalf("the page has %d blocks of commands, want 4", len(blocks))
	}
	script := "set -euo pipefail\n"
	for _, block := range blocks {
		script += block[1]
	}
	script = regexp.MustCompile(`\bdemo\b`).ReplaceAllString(script, w.namespace)
	programs := t.TempDir()
	for name, program := range map[string]string{"terraform": terraform, "kubectl": kubectl} {
		absolute, err := filepath.Abs(program)
		if err == nil {
			err = os.Symlink(absolute, filepath.Join(programs, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), applyPatience)
	defer cancel()
	bash := exec.CommandContext(ctx, "bash", "-c", script)
	bash.Dir = filepath.Join(moduleRoot, "..")
	bash.Env = append(os.Environ(), "HOME="+w.folder, "PATH="+programs+":"+os.Getenv("PATH"), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "CHECKPOINT_DISABLE=1",
		"GOPATH="+goEnv(t, "GOPATH"), "GOCACHE="+goEnv(t, "GOCACHE"), "TF_CLI_CONFIG_FILE="+filepath.Join(w.folder, "none"), "TF_CLI_ARGS_apply=-auto-approve", "TF_CLI_ARGS_destroy=-auto-approve")
	out, err := bash.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Hello, you!") || !strings.Contains(string(out), "Good morning, you!") {
		t.Errorf("%v\n%s", err, out)
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	value, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(value))
}
