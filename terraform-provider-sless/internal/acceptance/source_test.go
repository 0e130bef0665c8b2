//go:build acceptance

package acceptance

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serve answers at the node's address, which the platform reaches and the local cluster's configuration allows.
func (w *workspace) serve(handler http.Handler) string {
	w.t.Helper()
	address := w.kubectl("get", "nodes", "-o", `jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		w.t.Skipf("the cluster's node is not this machine: %v", err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	server.Start()
	w.t.Cleanup(server.Close)
	return server.URL
}

// read is a function whose code the platform reads itself.
func read(source string, more ...string) string {
	return "resource \"sless_function\" \"hello\" {\n  name      = \"hello\"\n  runtime   = \"python3.11\"\n  memory_mb = 64\n  " + source + "\n  " + strings.Join(more, "\n  ") + "\n}\n"
}

// wantAsImported holds that a plan after an import is empty.
func (w *workspace) wantAsImported() {
	w.t.Helper()
	for _, args := range [][]string{{"state", "rm", "sless_function.hello"}, {"import", "sless_function.hello", w.namespace + "/hello"}} {
		if out, code := w.run(args...); code != 0 {
			w.t.Fatal(out)
		}
	}
	w.wantNoChanges()
}

// repository is one that git serves to those who know the password.
type repository struct {
	w      *workspace
	folder string
}

func (r repository) git(args ...string) string {
	r.w.t.Helper()
	out, err := exec.Command("git", append([]string{"-C", r.folder, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...).CombinedOutput()
	if err != nil {
		r.w.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit makes a version of the code, and returns what git calls it.
func (r repository) commit(version string) string {
	r.w.t.Helper()
	name := filepath.Join(r.folder, "functions", "hello", "handler.py")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		r.w.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(fmt.Sprintf(handler, version)), 0o644); err != nil {
		r.w.t.Fatal(err)
	}
	r.git("add", "--all")
	r.git("commit", "--quiet", "--message", version)
	return r.git("rev-parse", "HEAD")
}

// TestGit takes a private repository's branch, a new commit of it by another mark, and an earlier commit by name. A branch that has moved
// is no change by itself.
func TestGit(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	root := t.TempDir()
	r := repository{w, filepath.Join(root, "code")}
	if err := os.Mkdir(r.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "--quiet", "--initial-branch=main")
	first := r.commit("first")
	backend := &cgi.Handler{
		Path: filepath.Join(r.git("--exec-path"), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "PATH=" + os.Getenv("PATH")},
	}
	const password = "pa55word-of-git"
	address := w.serve(http.HandlerFunc(func(to http.ResponseWriter, request *http.Request) {
		if user, given, _ := request.BasicAuth(); user != "tenant" || given != password {
			to.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(to, request)
	}))
	w.kubectl("-n", w.namespace, "create", "secret", "generic", "login", "--from-literal=username=tenant", "--from-literal=password="+password)
	from := func(ref string) string {
		return fmt.Sprintf("git = { url = %q, ref = %q, path = \"functions/hello\", secret_name = \"login\" }", address+"/code", ref)
	}
	served := func(version, revision string) {
		t.Helper()
		w.wantVersion(version)
		w.wantNoChanges()
		if got := w.attributes("sless_function.hello")["source_revision"]; got != revision {
			t.Errorf("source_revision is %v, want %s", got, revision)
		}
	}
	w.write("main.tf", read(from("main")))
	w.apply()
	served("first", first)
	second := r.commit("second")
	served("first", first)
	w.write("main.tf", read(from("main"), `code_hash = "2"`))
	w.apply()
	served("second", second)
	w.wantAsImported()
	w.write("main.tf", read(from(first), `code_hash = "2"`))
	w.wantPlanned(map[string]string{"sless_function.hello": "update"})
	w.applyPlanned()
	served("first", first)
	w.write("main.tf", read(from("nowhere"), `code_hash = "2"`))
	if out := w.applyFails(); !strings.Contains(out, "SourceNotFound") || strings.Contains(out, password) {
		t.Errorf("a branch that is not there:\n%s", out)
	}
	w.wantVersion("first")
	w.destroy()
}

// TestAddress takes an archive at an address, and other bytes by their hash.
func TestAddress(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	archives := map[string][]byte{}
	address := w.serve(http.HandlerFunc(func(to http.ResponseWriter, request *http.Request) {
		_, _ = to.Write(archives[request.URL.Path]) // the client notices
	}))
	for _, version := range []string{"one", "two"} {
		archives["/code.zip"] = zipped(t, map[string]string{"handler.py": fmt.Sprintf(handler, version)})
		sum := sha256.Sum256(archives["/code.zip"])
		w.write("main.tf", read(fmt.Sprintf("http = { url = %q, sha256 = %q }", address+"/code.zip", hex.EncodeToString(sum[:]))))
		w.apply()
		w.wantVersion(version)
		w.wantNoChanges()
	}
	w.wantAsImported()
	archives["/code.zip"] = []byte("something else")
	w.write("main.tf", read(fmt.Sprintf("http = { url = %q, sha256 = %q }", address+"/code.zip", strings.Repeat("0", 64))))
	if out := w.applyFails(); !strings.Contains(out, "SourceInvalid") {
		t.Errorf("other bytes than expected:\n%s", out)
	}
	w.wantVersion("two")
	w.destroy()
}

// TestPolledBucket lets the platform find new bytes under a key by itself, which is no change of a plan.
func TestPolledBucket(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	s3 := localS3(t)
	w.kubectl("-n", w.namespace, "create", "secret", "generic", "code-bucket",
		"--from-literal=accessKeyID="+s3.AccessKey, "--from-literal=secretAccessKey="+s3.SecretKey)
	key := "acceptance/" + w.namespace + ".zip"
	put := func(version string) {
		s3.put(t, key, zipped(t, map[string]string{"handler.py": fmt.Sprintf(handler, version)}))
	}
	from := func(more string) string {
		return fmt.Sprintf("s3 = { bucket = \"sless\", key = %q, secret_name = \"code-bucket\"%s }", key, more)
	}
	put("one")
	w.write("main.tf", read(from("")))
	w.apply()
	built := w.function("hello").Status.Image
	w.write("main.tf", read(from(", poll_interval_sec = 10")))
	w.wantPlanned(map[string]string{"sless_function.hello": "update"})
	w.applyPlanned()
	if got := w.function("hello").Status.Image; got != built {
		t.Errorf("polling made another image: %s, before %s", got, built)
	}
	w.wantAsImported()
	generation := w.function("hello").Generation
	put("two")
	for deadline := time.Now().Add(applyPatience); !strings.Contains(w.call("hello", "{}"), `"two"`); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatal("the new bytes are not served")
		}
	}
	w.wantNoChanges()
	if got := w.function("hello").Generation; got != generation {
		t.Errorf("generation %d, before %d", got, generation)
	}
	w.destroy()
}

// TestZip takes an archive from a file: packed anew it is no change, with other bytes it is, and filesha256 as the mark decides alone.
func TestZip(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	pack := func(version string, method uint16, at time.Time) {
		var archive bytes.Buffer
		writer := zip.NewWriter(&archive)
		entry, err := writer.CreateHeader(&zip.FileHeader{Name: "handler.py", Method: method, Modified: at})
		if err == nil {
			_, err = fmt.Fprintf(entry, handler, version)
		}
		if err := errors.Join(err, writer.Close()); err != nil {
			t.Fatal(err)
		}
		w.write("code.zip", archive.String())
	}
	pack("one", zip.Deflate, time.Now())
	w.write("main.tf", read(`filename = "code.zip"`))
	w.apply()
	w.wantVersion("one")
	w.wantNoChanges()
	pack("one", zip.Store, time.Now().Add(-time.Hour))
	w.wantNoChanges()
	pack("two", zip.Store, time.Now())
	w.wantPlanned(map[string]string{"sless_function.hello": "update"})
	w.applyPlanned()
	w.wantVersion("two")
	w.write("main.tf", read(`filename = "code.zip"`, `code_hash = filesha256("code.zip")`))
	w.apply()
	w.wantNoChanges()
	pack("two", zip.Deflate, time.Now())
	w.wantPlanned(map[string]string{"sless_function.hello": "update"})
	w.destroy()
}
