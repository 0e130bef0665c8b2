//go:build acceptance

package acceptance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/naeel/sless/api/rest"
)

// killProvider kills the provider that an apply has started.
func killProvider(apply int) error {
	processes, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	for _, name := range processes {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent group …; names may have spaces
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && fields[2] == strconv.Itoa(apply) && strings.Contains(string(text), "(terraform-provi") {
			return syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return errors.New("no provider runs")
}

// TestKilledCreate kills the provider, or terraform and the provider, while a function and a job are made, when nothing can be written to
// the state any more. The next apply takes over what there is; nothing stays when all is destroyed.
func TestKilledCreate(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(int) error{
		"provider": killProvider,
		"both":     func(apply int) error { return syscall.Kill(-apply, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			w.code("one")
			w.write("main.tf", hello())
			killed := func(ready func() bool) {
				t.Helper()
				if out, err := w.during(ready, kill); err == nil {
					t.Fatalf("the killed apply succeeded:\n%s", out)
				}
			}
			killed(exists(w.client.Functions(w.namespace), "hello"))
			w.code("two") // what was killed is not what is wanted any more
			w.apply()
			w.wantVersion("two")
			w.wantNoChanges()
			w.write("main.tf", hello()+`
resource "sless_function" "slow" {
  name      = "slow"
  runtime   = "python3.11"
  memory_mb = 64
  inline    = { "handler.py" = "import time\ndef handle(event):\n    time.sleep(3)\n    return 'done'" }
}
resource "sless_job" "it" {
  name     = "it"
  function = sless_function.slow.name
  run_id   = 1
}
`)
			killed(exists(w.client.Jobs(w.namespace), "it"))
			w.apply()
			if got := w.attributes("sless_job.it"); got["result"] != `"done"` {
				t.Errorf("the job is %v", got)
			}
			w.wantNoChanges()
			w.destroy()
			left, err := w.client.Functions(w.namespace).All(context.Background(), "")
			runs, jobsErr := w.client.Jobs(w.namespace).All(context.Background(), "")
			if len(left) != 0 || len(runs) != 0 || err != nil || jobsErr != nil {
				t.Errorf("after destroy there are %v and %v: %v, %v", left, runs, err, jobsErr)
			}
		})
	}
}

// TestExpiredToken lets a token run out while a job runs. A new one in token_file goes on; without one the error says what to do, and the
// next apply mends it.
func TestExpiredToken(t *testing.T) {
	t.Parallel()
	for name, renewed := range map[string]bool{"renewed": true, "not renewed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			// A token that ends with a Secret. The platform may remember it for 40 seconds, so that the job takes longer.
			w.kubectl("-n", w.namespace, "create", "secret", "generic", "login")
			old := strings.TrimSpace(w.kubectl("-n", w.namespace, "create", "token", "terraform", "--bound-object-kind=Secret", "--bound-object-name=login"))
			w.write("token", old)
			w.env = []string{"SLESS_TOKEN=", "SLESS_TOKEN_FILE=" + filepath.Join(w.folder, "token")}
			slow := func(more ...string) string {
				return strings.Replace(job(more...), "def handle(event):\n", "def handle(event):\n        __import__(\"time\").sleep(event.get(\"seconds\", 55))\n", 1)
			}
			w.write("main.tf", slow("run_id = 1"))
			out, err := w.during(exists(w.client.Jobs(w.namespace), "it"), func(int) error {
				if renewed {
					w.write("token", w.token)
				}
				w.kubectl("-n", w.namespace, "delete", "secret", "login")
				return nil
			})
			for _, token := range []string{old, w.token} {
				if strings.Contains(out, token) {
					t.Error("the token is in the output")
				}
			}
			client, clientErr := rest.NewClient(rest.Config{Endpoint: endpoint, Token: old})
			if clientErr != nil {
				t.Fatal(clientErr)
			}
			problem := &rest.Problem{}
			if _, err := client.Jobs(w.namespace).Get(context.Background(), "it"); !errors.As(err, &problem) || problem.Status != http.StatusUnauthorized {
				t.Fatalf("the old token is still good after the apply: %v", err)
			}
			if renewed {
				if err != nil {
					t.Errorf("the apply failed:\n%s", out)
				}
				w.wantNoChanges()
				return
			}
			flat := strings.Join(strings.Fields(strings.ReplaceAll(out, "│", " ")), " ")
			if err == nil || !strings.Contains(flat, "The token is not good, or not any more") || !strings.Contains(flat, "Get a new one") {
				t.Errorf("%v:\n%s", err, out)
			}
			w.write("token", w.token)
			w.wantPlanned(map[string]string{"sless_job.it": "delete,create"})
			w.write("main.tf", slow("run_id = 1", `event_json = jsonencode({ seconds = 0 })`))
			w.apply()
			w.wantNoChanges()
			w.destroy()
		})
	}
}

// moody stands in front of the real API. Of each kind of request it refuses the first ones in the ways that say "again", and loses the
// answer of one that the API has carried out.
type moody struct {
	proxy *httputil.ReverseProxy
	mu    sync.Mutex // guards asked
	asked map[string]int
}

// ServeHTTP implements http.Handler.
func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := r.Method + " " + r.URL.Path
	m.mu.Lock()
	m.asked[kind]++
	times := m.asked[kind]
	m.mu.Unlock()
	refuse := func(status int, code string) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"status":%d,"code":%q,"title":"said by the test"}`, status, code)
	}
	switch {
	case times == 1:
		refuse(http.StatusTooManyRequests, rest.CodeRateLimited)
	case times == 2:
		refuse(http.StatusServiceUnavailable, rest.CodeKubernetesUnavailable)
	case times == 3 && (r.Method == http.MethodPatch || r.Method == http.MethodDelete):
		refuse(http.StatusConflict, rest.CodeConflict)
	case times == 3 || times == 4 && r.Method != http.MethodPost:
		m.proxy.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	default:
		m.proxy.ServeHTTP(w, r)
	}
}

// TestRefusals applies, changes and destroys through that.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	api := &moody{asked: map[string]int{}, proxy: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	w.env = []string{"SLESS_ENDPOINT=" + server.URL}
	w.code("one")
	more := trigger("http")[len(base):] + "resource \"sless_job\" \"it\" {\n  name = \"it\"\n  function = sless_function.hello.name\n  run_id = 1\n}\n"
	w.write("main.tf", hello()+more)
	w.apply()
	w.wantNoChanges()
	w.code("two")
	w.write("main.tf", hello("timeout_sec = 30")+more)
	w.apply()
	w.wantVersion("two")
	w.wantNoChanges()
	w.destroy()
	for _, kind := range []string{"POST functions", "POST sources", "GET functions/hello", "PATCH functions/hello", "DELETE functions/hello", "POST triggers", "POST jobs", "GET jobs/it"} {
		method, path, _ := strings.Cut(kind, " ")
		if times := api.asked[method+" /v1/namespaces/"+w.namespace+"/"+path]; times < 4 {
			t.Errorf("%s was asked %d times only", kind, times)
		}
	}
}

// TestServerAway holds that an API that is not there is a clear error.
func TestServerAway(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.code("one")
	w.write("main.tf", hello())
	w.apply()
	w.env = []string{"SLESS_ENDPOINT=http://127.0.0.1:1"} // where nobody ever listens
	out, code := w.run("plan")
	if code != 1 || !strings.Contains(out, "The API can't be reached") || !strings.Contains(out, "connection refused") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	w.env = nil
	w.wantNoChanges()
	w.destroy()
}
