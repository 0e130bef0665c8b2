package source

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/archive"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/config"
)

var treeLimits = archive.Limits{Files: 1000, Bytes: 10 << 20}

func testGit(t *testing.T, network config.Network) *Git {
	t.Helper()
	return newGit(newTestGuard(t, network), t.TempDir(), gitLimits{network: 10 << 20, objects: 10000, unpacked: 10 << 20})
}

// read fetches a repository, reads its tree to the end and checks that nothing is left on the disk.
func (g *Git) read(t *testing.T, repository Repository, limits archive.Limits) (tar []byte, paths []string, commit string, err error) {
	t.Helper()
	checkout, err := g.Fetch(t.Context(), repository)
	if left, readErr := os.ReadDir(g.spoolDir); readErr != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, readErr)
	}
	if err != nil {
		return nil, nil, "", err
	}
	defer checkout.Close()
	tree, err := archive.FromEntries(checkout.Files(), limits, []string{"handler.py"})
	if err != nil {
		return nil, nil, "", err
	}
	var out bytes.Buffer
	err = tree.WriteTar(&out, "")
	return out.Bytes(), tree.Paths(), checkout.Commit, err
}

func TestFetchGit(t *testing.T) {
	root := t.TempDir()
	server := newGitServer(t, root)
	r := newRepository(t, root, "code")
	r.write("handler.py", "1", 0o644)
	first := r.commit()
	r.git("tag", "v1")
	r.git("tag", "--annotate", "--message=x", "v1-annotated")
	r.git("tag", "--annotate", "--message=x", "v1-twice", "v1-annotated")
	r.write("handler.py", "2", 0o644)
	second := r.commit()
	r.write("handler.py", "3", 0o644)
	r.write("functions/hello/handler.py", "hello", 0o644)
	r.write("functions/hello/lib/a.py", "a", 0o644)
	r.write("functions/.env", "TOKEN=1", 0o644)
	third := r.commit()
	r.git("branch", "feature/x", first)
	r.git("branch", "both", first)
	r.git("tag", "both", second)
	newRepository(t, root, "empty")
	private := newRepository(t, root, "private/code")
	private.write("handler.py", "private", 0o644)
	private.commit()
	open := newRepository(t, root, "open")
	open.git("config", "uploadpack.allowReachableSHA1InWant", "true")
	open.write("handler.py", "1", 0o644)
	openFirst := open.commit()
	open.write("handler.py", "2", 0o644)
	open.commit()
	top := []string{"functions/hello/handler.py", "functions/hello/lib/a.py", "handler.py"}
	absent := strings.Repeat("0a", 20)

	for name, test := range map[string]struct {
		Repository
		commit       string
		paths        []string
		reason, says string
	}{
		"branch":                   {Repository: Repository{URL: "/code", Ref: "main"}, commit: third, paths: top},
		"branch with a slash":      {Repository: Repository{URL: "/code", Ref: "feature/x"}, commit: first},
		"address with a slash":     {Repository: Repository{URL: "/code/", Ref: "main"}, commit: third, paths: top},
		"full reference":           {Repository: Repository{URL: "/code", Ref: "refs/heads/main"}, commit: third},
		"head":                     {Repository: Repository{URL: "/code", Ref: "HEAD"}, commit: third},
		"part of a reference":      {Repository: Repository{URL: "/code", Ref: "heads/both"}, commit: first},
		"tag":                      {Repository: Repository{URL: "/code", Ref: "v1"}, commit: first, paths: []string{"handler.py"}},
		"annotated tag":            {Repository: Repository{URL: "/code", Ref: "v1-annotated"}, commit: first},
		"tag of a tag":             {Repository: Repository{URL: "/code", Ref: "v1-twice"}, commit: first},
		"tag before branch":        {Repository: Repository{URL: "/code", Ref: "both"}, commit: second},
		"commit at a branch":       {Repository: Repository{URL: "/code", Ref: third}, commit: third},
		"commit below a branch":    {Repository: Repository{URL: "/code", Ref: second}, commit: second},
		"commit a server gives":    {Repository: Repository{URL: "/open", Ref: openFirst}, commit: openFirst},
		"folder":                   {Repository: Repository{URL: "/code", Ref: "main", Path: "functions/hello"}, commit: third, paths: []string{"handler.py", "lib/a.py"}},
		"one folder, unwrapped":    {Repository: Repository{URL: "/code", Ref: "main", Path: "functions"}, commit: third, paths: []string{"handler.py", "lib/a.py"}},
		"with a password":          {Repository: Repository{URL: "/private/code", Ref: "main", Username: "tenant", Password: "s3cr3t"}},
		"no reference":             {Repository: Repository{URL: "/code", Ref: "absent"}, reason: v1alpha1.ReasonSourceNotFound, says: `no branch or tag "absent"`},
		"no commit":                {Repository: Repository{URL: "/code", Ref: absent}, reason: v1alpha1.ReasonSourceNotFound, says: absent},
		"no commit that is given":  {Repository: Repository{URL: "/open", Ref: absent}, reason: v1alpha1.ReasonSourceNotFound, says: absent},
		"no folder":                {Repository: Repository{URL: "/code", Ref: "main", Path: "functions/absent"}, reason: v1alpha1.ReasonSourceNotFound, says: "source.git.path"},
		"file for a folder":        {Repository: Repository{URL: "/code", Ref: "main", Path: "handler.py"}, reason: v1alpha1.ReasonSourceNotFound, says: "source.git.path"},
		"no repository":            {Repository: Repository{URL: "/absent", Ref: "main"}, reason: v1alpha1.ReasonSourceNotFound, says: "source.git.url"},
		"empty repository":         {Repository: Repository{URL: "/empty", Ref: "main"}, reason: v1alpha1.ReasonSourceNotFound, says: "source.git.ref"},
		"private, no password":     {Repository: Repository{URL: "/private/code", Ref: "main"}, reason: v1alpha1.ReasonSourceNotFound, says: "source.git.secretName"},
		"private, wrong password":  {Repository: Repository{URL: "/private/code", Ref: "main", Username: "tenant", Password: "wrong-s3cr3t"}, reason: v1alpha1.ReasonSourceNotFound, says: "Secret"},
		"branch named like an oid": {Repository: Repository{URL: "/code", Ref: "refs/heads/" + absent}, reason: v1alpha1.ReasonSourceNotFound, says: "refs/heads"},
	} {
		t.Run(name, func(t *testing.T) {
			test.URL = server.URL + test.URL
			_, paths, commit, err := testGit(t, loopback).read(t, test.Repository, treeLimits)
			checkFault(t, err, test.reason, true, test.says)
			if test.commit != "" && commit != test.commit {
				t.Errorf("commit %q, want %q", commit, test.commit)
			}
			if diff := cmp.Diff(test.paths, paths); test.paths != nil && diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Some servers give only commits that a reference names. Then it is looked for below the branches.
func TestCommitOfAServerThatGivesNone(t *testing.T) {
	root := t.TempDir()
	backend := gitHTTP(t, root)
	r := newRepository(t, root, "code")
	r.write("handler.py", "1", 0o644)
	wanted := r.commit()
	for i := range 5 {
		r.write("handler.py", fmt.Sprint(i), 0o644)
		r.commit()
	}
	absent := strings.Repeat("0a", 20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		if bytes.Contains(body, []byte("want "+wanted)) || bytes.Contains(body, []byte("want "+absent)) {
			lines := pktline.NewEncoder(w)
			if err := lines.EncodeString("ERR upload-pack: not our ref"); err != nil {
				t.Error(err)
			}
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		backend.ServeHTTP(w, req)
	}))
	defer server.Close()
	_, _, commit, err := testGit(t, loopback).read(t, Repository{URL: server.URL + "/code", Ref: wanted}, treeLimits)
	if err != nil || commit != wanted {
		t.Errorf("got %q, %v", commit, err)
	}
	_, _, _, err = testGit(t, loopback).read(t, Repository{URL: server.URL + "/code", Ref: absent}, treeLimits)
	checkFault(t, err, v1alpha1.ReasonSourceNotFound, true, "1000 commits")
}

// checkFault holds an error against a reason; none means that there must be no error.
func checkFault(t *testing.T, err error, reason string, terminal bool, says string) {
	t.Helper()
	if reason == "" {
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	known, ok := errors.AsType[*fault.Error](err)
	if !ok || known.Reason != reason || known.Terminal != terminal || !strings.Contains(known.Message, says) {
		t.Errorf("got %v, want %s that says %q", err, reason, says)
	}
	if strings.Contains(fmt.Sprint(err), "s3cr3t") {
		t.Errorf("a secret is in the message %q", err)
	}
}

// A tree is the same whether it comes by git or as the zip that git makes of it.
func TestGitAndZipAreOneTree(t *testing.T) {
	root := t.TempDir()
	server := newGitServer(t, root)
	r := newRepository(t, root, "code")
	text := strings.Repeat("the same words over and over, so that Git stores one file as a difference to another\n", 2000)
	r.write("handler.py", text, 0o644)
	r.write("lib/other.py", text+"and a little more\n", 0o644)
	r.write("bin/tool", "#!/bin/sh\n", 0o755)
	r.write("__pycache__/handler.pyc", "x", 0o644)
	r.write("a-b", "", 0o644)
	if err := os.Symlink("../handler.py", filepath.Join(r.folder, "lib", "link.py")); err != nil {
		t.Fatal(err)
	}
	r.commit()
	r.git("gc", "--quiet", "--aggressive")
	zipped := filepath.Join(t.TempDir(), "code.zip")
	r.git("archive", "--format=zip", "--output="+zipped, "HEAD")
	data, err := os.ReadFile(zipped)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := archive.FromZip(bytes.NewReader(data), int64(len(data)), treeLimits, []string{"handler.py"})
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := tree.WriteTar(&want, ""); err != nil {
		t.Fatal(err)
	}
	got, paths, _, err := testGit(t, loopback).read(t, Repository{URL: server.URL + "/code", Ref: "main"}, treeLimits)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) || len(paths) != 5 {
		t.Errorf("%d bytes with %q by git, %d bytes by zip", len(got), paths, want.Len())
	}
}

func TestTreesThatAreRefused(t *testing.T) {
	root := t.TempDir()
	server := newGitServer(t, root)
	for name, test := range map[string]struct {
		make func(*testRepository)
		says string
	}{
		"submodule": {func(r *testRepository) {
			r.git("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("0a", 20)+",vendor/lib")
			r.git("commit", "--quiet", "--message=x")
		}, `"vendor/lib" is a submodule`},
		"pointer of LFS": {func(r *testRepository) {
			r.write("model.bin", pointerMark+"oid sha256:0\nsize 1\n", 0o644)
			r.commit()
		}, `"model.bin" is a pointer to a file in Git LFS`},
		"link out of the folder": {func(r *testRepository) {
			if err := os.Symlink("../../etc/passwd", filepath.Join(r.folder, "link")); err != nil {
				t.Fatal(err)
			}
			r.commit()
		}, `"link"`},
		"absolute link": {func(r *testRepository) {
			if err := os.Symlink("/etc/passwd", filepath.Join(r.folder, "link")); err != nil {
				t.Fatal(err)
			}
			r.commit()
		}, "/etc/passwd"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t, root, strings.ReplaceAll(name, " ", "-"))
			r.write("handler.py", "", 0o644)
			r.commit()
			test.make(r)
			_, _, _, err := testGit(t, loopback).read(t, Repository{URL: server.URL + "/" + filepath.Base(r.folder), Ref: "main"}, treeLimits)
			checkFault(t, err, v1alpha1.ReasonSourceInvalid, true, test.says)
		})
	}
}

func TestGitReachesNothingInside(t *testing.T) {
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request got inside") }))
	defer inside.Close()
	address, err := url.Parse(inside.URL)
	if err != nil {
		t.Fatal(err)
	}
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		http.Redirect(w, r, "http://"+to+":"+address.Port()+"/code/info/refs", http.StatusMovedPermanently)
	}))
	defer outside.Close()
	outsideAddress, err := url.Parse(outside.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range insideForms {
		_, err := testGit(t, config.Network{}).Fetch(t.Context(), Repository{URL: "http://" + host + ":" + address.Port() + "/code", Ref: "main"})
		checkFault(t, err, v1alpha1.ReasonSourceInvalid, true, "functions may not name")
		if host == "localhost" {
			continue // the outside's name in what follows
		}
		_, err = testGit(t, config.Network{AllowedHosts: []string{"localhost"}}).Fetch(t.Context(), Repository{URL: "http://localhost:" + outsideAddress.Port() + "/" + host, Ref: "main"})
		checkFault(t, err, v1alpha1.ReasonSourceInvalid, true, "functions may not name")
	}
}

// A repository may move, but what opens it goes to the host that the tenant named and to no other.
func TestGitCredentialsStayAtTheirOrigin(t *testing.T) {
	root := t.TempDir()
	backend := gitHTTP(t, root)
	r := newRepository(t, root, "code")
	r.write("handler.py", "", 0o644)
	r.commit()
	elsewhere := httptest.NewServer(backend) // complains of credentials outside of /private
	defer elsewhere.Close()
	var asked int
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, password, _ := req.BasicAuth(); password != "s3cr3t" {
			t.Error("the origin is asked without credentials")
		}
		asked++
		to := elsewhere.URL
		if asked == 2 {
			to = "http://127.0.0.1:1" // a POST is not redirected
		}
		http.Redirect(w, req, to+"/code"+strings.TrimPrefix(req.URL.Path, "/old")+"?"+req.URL.RawQuery, http.StatusTemporaryRedirect)
	}))
	defer origin.Close()
	_, paths, _, err := testGit(t, loopback).read(t, Repository{URL: origin.URL + "/old", Ref: "main", Username: "tenant", Password: "s3cr3t"}, treeLimits)
	checkFault(t, err, "", false, "")
	if asked != 1 || len(paths) != 1 {
		t.Errorf("asked %d times, got %q", asked, paths)
	}
}

func TestGitByHTTPS(t *testing.T) {
	root := t.TempDir()
	r := newRepository(t, root, "code")
	r.write("handler.py", "", 0o644)
	r.commit()
	server := httptest.NewTLSServer(gitHTTP(t, root))
	defer server.Close()
	repository := Repository{URL: server.URL + "/code", Ref: "main"}
	_, err := testGit(t, loopback).Fetch(t.Context(), repository)
	checkFault(t, err, v1alpha1.ReasonSourceInvalid, true, "network.caFile")
	trusting := loopback
	trusting.CAFile = filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(trusting.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, paths, _, err := testGit(t, trusting).read(t, repository, treeLimits); err != nil || len(paths) != 1 {
		t.Errorf("got %q, %v", paths, err)
	}
	downgrade := httptest.NewTLSServer(http.RedirectHandler("http://127.0.0.1/code/info/refs", http.StatusFound))
	defer downgrade.Close()
	_, err = testGit(t, trusting).Fetch(t.Context(), Repository{URL: downgrade.URL + "/code", Ref: "main"})
	checkFault(t, err, v1alpha1.ReasonSourceInvalid, true, "from https to http")
}
