package e2e

import (
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gitRepository is a Git repository that is served to the cluster by Git's own server.
type gitRepository struct {
	t   *testing.T
	dir string
	url string
}

// newGitRepository makes one without a commit. What wrap returns is asked in place of the server, which it is given.
func newGitRepository(t *testing.T, wrap func(http.Handler) http.Handler) *gitRepository {
	t.Helper()
	root := t.TempDir()
	r := &gitRepository{t: t, dir: filepath.Join(root, "code")}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "--quiet", "--initial-branch=main")
	r.url = serve(t, wrap(&cgi.Handler{
		Path: filepath.Join(r.git("--exec-path"), "git-http-backend"), Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "PATH=" + os.Getenv("PATH")},
	})) + "/code"
	return r
}

// open serves a repository to everybody.
func open(git http.Handler) http.Handler { return git }

func (r *gitRepository) git(args ...string) string {
	r.t.Helper()
	command := exec.Command("git", append([]string{"-C", r.dir, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
	out, err := command.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// write writes a file that the next commit takes up.
func (r *gitRepository) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// commit commits every change and returns the commit's name.
func (r *gitRepository) commit(message string) string {
	r.t.Helper()
	r.git("add", "--all")
	r.git("commit", "--quiet", "--message", message)
	return r.git("rev-parse", "HEAD")
}
