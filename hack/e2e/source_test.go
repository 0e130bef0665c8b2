package e2e

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

// serve answers at the node's address, which pods reach and the local cluster's configuration allows.
func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	nodes := &corev1.NodeList{}
	if err := kube.List(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(nodes.Items[0].Status.Addresses[0].Address, "0"))
	if err != nil {
		t.Skipf("the cluster's node is not this machine: %v", err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// fromSource is a Function with this source and mark, and a Trigger for it.
func fromSource(name, source, codeHash string) string {
	return fmt.Sprintf("apiVersion: sless.io/v1alpha1\nkind: Function\nmetadata: {name: %s}\nspec: {runtime: python3.11, source: {%s}, codeHash: %q}\n", name, source, codeHash) + httpTrigger(name)
}

func says(word string) string {
	return fmt.Sprintf("def handle(event):\n    return '%s'\n", word)
}

// A private repository is read at its branch, then at a new commit, and at an earlier one by name.
func TestGitSource(t *testing.T) {
	t.Parallel()
	code := newGitRepository(t, func(git http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "tenant" || password != "s3cr3t-of-git" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			git.ServeHTTP(w, r)
		})
	})
	commit := func(word string) string {
		code.write("functions/hello/handler.py", says(word))
		return code.commit(word)
	}
	first := commit("first")

	namespace := newNamespace(t)
	at := func(ref, more string) string {
		return fmt.Sprintf("git: {url: %s, ref: %q, path: functions/hello%s}", code.url, ref, more)
	}
	apply(t, namespace, fromSource("public", at("main", ""), "1"))
	apply(t, namespace, fromSource("hello", at("main", ", secretName: login"), "1"))
	kubectl(t, "", "create", "secret", "generic", "login", "-n", namespace, "--from-literal=username=tenant", "--from-literal=password=s3cr3t-of-git")
	f := waitFunction(t, namespace, "public", "False", v1alpha1.ReasonSourceNotFound)
	if ready, _ := condition(f.Status.Conditions, f.Generation); !strings.Contains(ready.Message, "secretName") {
		t.Errorf("message %q", ready.Message)
	}
	served := func(word, revision string) {
		t.Helper()
		f := waitFunction(t, namespace, "hello", "True", v1alpha1.ReasonReady)
		if got := mustCall(t, "GET", namespace, "hello", "", "", 200); got.body != word || f.Status.SourceRevision != revision {
			t.Errorf("it says %q at %s, want %q at %s", got.body, f.Status.SourceRevision, word, revision)
		}
	}
	served("first", first)
	second := commit("second")
	apply(t, namespace, fromSource("hello", at("main", ", secretName: login"), "2"))
	served("second", second)
	apply(t, namespace, fromSource("hello", at(first, ", secretName: login"), "2"))
	served("first", first)
	apply(t, namespace, fromSource("hello", at("absent", ", secretName: login"), "2"))
	waitFunction(t, namespace, "hello", "False", v1alpha1.ReasonSourceNotFound)
	if got := mustCall(t, "GET", namespace, "hello", "", "", 200); got.body != "first" {
		t.Errorf("it says %q", got.body)
	}
	shown := map[string]string{
		"the Functions":      kubectl(t, "", "get", "functions", "-n", namespace, "-o", "yaml"),
		"the events":         kubectl(t, "", "get", "events", "-A", "-o", "yaml"),
		"the operator's log": programLogs(t, "operator"),
	}
	for where, text := range shown {
		if strings.Contains(text, "s3cr3t-of-git") {
			t.Errorf("the password is in %s", where)
		}
	}
}

// An archive at an address is taken when it is the one expected, and no address leads inside.
func TestHTTPSource(t *testing.T) {
	t.Parallel()
	code := archive(t, entry{name: "handler.py", text: says("fetched")})
	digest := fmt.Sprintf("%x", sha256.Sum256(code))
	mux := http.NewServeMux()
	mux.HandleFunc("/code.zip", func(w http.ResponseWriter, _ *http.Request) { w.Write(code) }) //nolint:errcheck // the client notices
	mux.Handle("/moved", http.RedirectHandler("/code.zip", http.StatusFound))
	mux.Handle("/metadata", http.RedirectHandler("http://169.254.169.254/latest/meta-data/", http.StatusFound))
	mux.Handle("/loopback", http.RedirectHandler("http://[::ffff:127.0.0.1]:9090/metrics", http.StatusFound))
	url := serve(t, mux)
	namespace := newNamespace(t)
	from := func(address, digest string) string {
		return fmt.Sprintf("http: {url: %q, sha256: %q}", address, digest)
	}
	apply(t, namespace, fromSource("hello", from(url+"/moved", digest), ""))
	refused := map[string]struct{ address, reason, says string }{
		"metadata":  {url + "/metadata", v1alpha1.ReasonSourceInvalid, "169.254.169.254"},
		"loopback":  {url + "/loopback", v1alpha1.ReasonSourceInvalid, "127.0.0.1"},
		"apiserver": {"https://kubernetes.default.svc/", v1alpha1.ReasonSourceInvalid, "functions may not name"},
		"gateway":   {"http://gateway-internal.sless-system.svc:8082/", v1alpha1.ReasonSourceInvalid, "functions may not name"},
		"absent":    {url + "/absent", v1alpha1.ReasonSourceNotFound, "404"},
		"other":     {url + "/code.zip", v1alpha1.ReasonSourceInvalid, digest},
	}
	for name, test := range refused {
		apply(t, namespace, fromSource(name, from(test.address, strings.Repeat("0", 63)+"1"), ""))
	}
	for name, test := range refused {
		f := waitFunction(t, namespace, name, "False", test.reason)
		if ready, _ := condition(f.Status.Conditions, f.Generation); !strings.Contains(ready.Message, test.says) {
			t.Errorf("%s: the message does not say %q: %s", name, test.says, ready.Message)
		}
	}
	waitFunction(t, namespace, "hello", "True", v1alpha1.ReasonReady)
	if got := mustCall(t, "GET", namespace, "hello", "", "", 200); got.body != "fetched" {
		t.Errorf("got %q", got.body)
	}
}

// An object that is overwritten under its key is served without a change of the Function. A bad one leaves the old code serving.
func TestPolledObject(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	upload(t, namespace, "code.zip", archive(t, entry{name: "handler.py", text: says("first")}))
	apply(t, namespace, fromSource("hello", "s3: {key: code.zip, pollIntervalSeconds: 10}", "1"))
	before := waitFunction(t, namespace, "hello", "True", v1alpha1.ReasonReady)
	served := func(word string) {
		t.Helper()
		eventually(t, "it says "+word, func() error {
			got, err := call(t, "GET", namespace, "hello", "", "")
			if err == nil && (got.status != 200 || got.body != word) {
				return fmt.Errorf("it answers %d %s", got.status, got.body)
			}
			return err
		})
	}
	served("first")
	upload(t, namespace, "code.zip", archive(t, entry{name: "handler.py", text: says("second")}))
	served("second")
	upload(t, namespace, "code.zip", []byte("no zip"))
	waitFunction(t, namespace, "hello", "False", v1alpha1.ReasonSourceInvalid)
	served("second")
	upload(t, namespace, "code.zip", archive(t, entry{name: "handler.py", text: says("third")}))
	served("third")
	after := waitFunction(t, namespace, "hello", "True", v1alpha1.ReasonReady)
	if after.Generation != before.Generation || after.Status.SourceRevision == before.Status.SourceRevision {
		t.Errorf("generation %d, then %d; revision %s, then %s", before.Generation, after.Generation, before.Status.SourceRevision, after.Status.SourceRevision)
	}
}
