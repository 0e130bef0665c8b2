package source

import (
	"context"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// testRepository is a repository that Git itself made.
type testRepository struct {
	t      *testing.T
	folder string
}

// newRepository makes one below root, which a server serves.
func newRepository(t *testing.T, root, name string) *testRepository {
	t.Helper()
	r := &testRepository{t: t, folder: filepath.Join(root, name)}
	if err := os.MkdirAll(r.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "--quiet", "--initial-branch=main")
	return r
}

func gitEnvironment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
		"GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z",
	}
}

func (r *testRepository) git(args ...string) string {
	r.t.Helper()
	command := exec.Command("git", args...)
	command.Dir, command.Env = r.folder, gitEnvironment()
	out, err := command.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *testRepository) write(name, text string, mode os.FileMode) {
	r.t.Helper()
	path := filepath.Join(r.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		r.t.Fatal(err)
	}
}

// commit commits everything and returns the commit.
func (r *testRepository) commit() string {
	r.t.Helper()
	r.git("add", "--all", "--force")
	r.git("commit", "--quiet", "--allow-empty", "--message=x")
	return r.git("rev-parse", "HEAD")
}

// gitHTTP is Git's own server for the repositories below root. Below /private it wants a password.
func gitHTTP(t *testing.T, root string) http.Handler {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	path, err := exec.CommandContext(context.Background(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"), Stderr: io.Discard,
		Env: append(gitEnvironment(), "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if strings.HasPrefix(r.URL.Path, "/private/") && (user != "tenant" || password != "s3cr3t") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if !strings.HasPrefix(r.URL.Path, "/private/") && r.Header.Get("Authorization") != "" {
			t.Errorf("%s is asked with credentials", r.URL.Path)
		}
		backend.ServeHTTP(w, r)
	})
}

func newGitServer(t *testing.T, root string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(gitHTTP(t, root))
	t.Cleanup(server.Close)
	return server
}
