//go:build acceptance

package acceptance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/naeel/sless/api/rest"
)

const handler = `import os
def handle(event):
    return {"version": %q, "mode": os.environ.get("MODE"), "secret": os.environ.get("SECRET")}
`

// hello is a function from a folder, with more attributes.
func hello(more ...string) string {
	return "resource \"sless_function\" \"hello\" {\n  name       = \"hello\"\n  runtime    = \"python3.11\"\n  source_dir = \"src\"\n  " +
		strings.Join(more, "\n  ") + "\n}\n"
}

func (w *workspace) code(version string) { w.write("src/handler.py", fmt.Sprintf(handler, version)) }

func (w *workspace) wantVersion(version string) {
	w.t.Helper()
	if got := w.call("hello", "{}"); !strings.Contains(got, fmt.Sprintf("%q", version)) {
		w.t.Errorf("the function answers %s, want version %s", got, version)
	}
}

// TestFunctionFromFolder goes through the life of a function.
func TestFunctionFromFolder(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.code("one")
	w.write("main.tf", hello())
	w.apply()
	w.wantNoChanges()
	w.wantVersion("one")
	for _, name := range []string{"id", "phase", "image", "code_hash", "code_sha256", "last_built_at"} {
		if got, _ := w.attributes("sless_function.hello")[name].(string); got == "" {
			t.Errorf("%s is not known after the apply", name)
		}
	}

	w.code("two")
	w.wantPlanned(map[string]string{"sless_function.hello": "update"})
	w.applyPlanned()
	w.wantVersion("two")
	w.wantNoChanges()

	built := w.function("hello").Status.Image
	w.write("src/.git/config", "not code")
	w.write("src/__pycache__/handler.pyc", "not code")
	w.wantNoChanges()

	// Changed behind its back.
	w.kubectl("-n", w.namespace, "patch", "functions.sless.io", "hello", "--type=merge", "-p", `{"spec":{"timeoutSeconds":7}}`)
	w.wantPlanned(map[string]string{"sless_function.hello": "update"})
	w.applyPlanned()
	if got := *w.function("hello").TimeoutSec; got != 60 {
		t.Errorf("the timeout is %d after the apply, want 60", got)
	}
	if got := w.function("hello").Status.Image; got != built {
		t.Errorf("mending the timeout built %s", got)
	}
	w.wantNoChanges()

	// An autoscaler's figure is left alone.
	w.kubectl("-n", w.namespace, "scale", "functions.sless.io", "hello", "--replicas=2")
	w.wantNoChanges()
	w.write("main.tf", hello("timeout_sec = 30"))
	w.apply()
	if got := *w.function("hello").Replicas; got != 2 {
		t.Errorf("replicas is %d, want 2", got)
	}

	// Other code behind its back, under the same mark.
	w.kubectl("-n", w.namespace, "patch", "functions.sless.io", "hello", "--type=merge", "-p",
		`{"spec":{"source":{"s3":null,"inline":{"handler.py":"def handle(event): return 0"}}}}`)
	w.wantPlanned(map[string]string{"sless_function.hello": "update"})
	w.applyPlanned()
	w.wantVersion("two")
	w.wantNoChanges()

	// Deleted behind its back.
	w.kubectl("-n", w.namespace, "delete", "functions.sless.io", "hello", "--timeout=5m")
	w.wantPlanned(map[string]string{"sless_function.hello": "create"})
	w.applyPlanned()
	w.wantVersion("two")

	// Refreshing and destroying need no code.
	if err := os.RemoveAll(filepath.Join(w.folder, "src")); err != nil {
		t.Fatal(err)
	}
	w.destroy()
	if _, err := w.client.Functions(w.namespace).Get(context.Background(), "hello", rest.Fresh()); !rest.IsNotFound(err) {
		t.Errorf("after destroy: %v, want not found", err)
	}
}

// TestEachAttributeAlone changes one attribute after the other and holds what happens: in place or anew, with a build or none.
func TestEachAttributeAlone(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.code("one")
	w.write("src/other.py", "from handler import handle\n")
	w.write("src/README.md", "how to\n")
	w.write("src/handler.js", "exports.handle = async () => ({ version: 'js' })\n")
	w.kubectl("-n", w.namespace, "create", "configmap", "settings", "--from-literal=more=from-a-config-map")
	base := []string{"memory_mb = 128", "cpu = 0.2", "timeout_sec = 30", "concurrency = 4", "replicas = 1", "build_timeout_sec = 250", `env = { MODE = "a" }`}
	w.write("main.tf", hello(base...))
	w.apply()
	w.wantNoChanges()
	for _, test := range []struct {
		name, attribute string
		builds          bool
	}{
		{"memory_mb", "memory_mb = 160", false},
		{"cpu", "cpu = 0.25", false},
		{"timeout_sec", "timeout_sec = 31", false},
		{"concurrency", "concurrency = 5", false},
		{"replicas", "replicas = 0", false},
		{"replicas", "replicas = 1", false},
		{"build_timeout_sec", "build_timeout_sec = 260", false},
		{"env", `env = { MODE = "b", MORE = "c" }`, false},
		{"env", `env = { MORE = "c" }`, false},
		{"env_from", `env_from = { EVEN_MORE = { config_map_name = "settings", key = "more" } }`, false},
		{"secret_env", `secret_env = { SECRET = "s3cr3t" }`, false},
		{"entrypoint", `entrypoint = "other.handle"`, true},
		{"excludes", `excludes = ["*.md"]`, true},
		{"code_hash", `code_hash = "mine-1"`, true},
	} {
		base = replaceAttribute(base, test.name, test.attribute)
		w.write("main.tf", hello(base...))
		before := w.function("hello").Status
		w.wantPlanned(map[string]string{"sless_function.hello": "update"})
		w.applyPlanned()
		after := w.function("hello").Status
		if built := !after.LastBuiltAt.Equal(*before.LastBuiltAt); built != test.builds || after.Image != before.Image && !built {
			t.Errorf("%s: image before %s of %s, after %s of %s", test.attribute, before.Image, before.LastBuiltAt, after.Image, after.LastBuiltAt)
		}
		w.wantNoChanges()
	}
	if got := w.function("hello").Env; len(got) != 1 || got["MORE"] != "c" {
		t.Errorf("env is %v", got)
	}
	// The user's own mark alone decides.
	w.code("unseen")
	w.wantNoChanges()
	base = replaceAttribute(base, "code_hash", `code_hash = "mine-2"`)
	w.write("main.tf", hello(base...))
	w.apply()
	w.wantVersion("unseen")
	if got := w.attributes("sless_function.hello")["code_hash"]; got != "mine-2" {
		t.Errorf("code_hash is %v", got)
	}
	// Another runtime builds, in place.
	built := w.function("hello").Status.Image
	inNode := strings.Replace(hello(replaceAttribute(base, "entrypoint", `entrypoint = "handler.handle"`)...), "python3.11", "nodejs20", 1)
	w.write("main.tf", inNode)
	w.wantPlanned(map[string]string{"sless_function.hello": "update"})
	w.applyPlanned()
	w.wantVersion("js")
	if got := w.function("hello").Status.Image; got == built {
		t.Error("another runtime has built nothing")
	}
	w.wantNoChanges()
	for old, change := range map[string]string{`name       = "hello"`: `name = "renamed"`, `runtime    = `: "namespace = \"other\"\n  runtime = "} {
		w.write("main.tf", strings.Replace(inNode, old, change, 1))
		w.wantPlanned(map[string]string{"sless_function.hello": "delete,create"})
	}
	w.write("main.tf", inNode)
	w.destroy()
}

func replaceAttribute(all []string, name, attribute string) []string {
	kept := []string{attribute}
	for _, other := range all {
		if !strings.HasPrefix(other, name+" ") {
			kept = append(kept, other)
		}
	}
	return kept
}

// TestFailedBuild holds that a failed build fails at once with its reason, is still to do afterwards, and heals by good code.
func TestFailedBuild(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.code("one")
	w.write("main.tf", hello())
	w.apply()
	w.write("src/handler.py", "def other(event): return 1\n")
	w.write("src/requirements.txt", "this-package-is-not-there-4711==9.9.9\n")
	for range 2 { // the second apply finds the same change to do
		out := w.applyFails()
		if !strings.Contains(out, "DependenciesFailed") || !strings.Contains(out, "this-package-is-not-there-4711") {
			t.Errorf("the reason is not in the output:\n%s", out)
		}
		w.wantPlanned(map[string]string{"sless_function.hello": "update"})
	}
	w.wantVersion("one")
	w.write("src/requirements.txt", "\n")
	w.code("three")
	w.apply()
	w.wantVersion("three")
	w.wantNoChanges()
}

// TestFailedCreate holds that a function whose first build fails is in the state, to be replaced.
func TestFailedCreate(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.code("bad")
	w.write("src/requirements.txt", "this-package-is-not-there-4711==9.9.9\n")
	w.write("main.tf", hello())
	if out := w.applyFails(); !strings.Contains(out, "does not serve") {
		t.Errorf("the output does not say what is wrong:\n%s", out)
	}
	w.write("src/requirements.txt", "\n")
	w.wantPlanned(map[string]string{"sless_function.hello": "delete,create"})
	w.code("good")
	w.apply()
	w.wantVersion("good")
	w.wantNoChanges()
}

// TestImport holds what a plan shows after an import.
func TestImport(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.code("one")
	w.write("main.tf", hello("replicas = 1", `env = { MODE = "a" }`)+`
resource "sless_function" "inline" {
  name    = "inline"
  runtime = "python3.11"
  inline  = { "handler.py" = "def handle(event): return 1" }
}
resource "sless_trigger" "hello" {
  name     = "hello"
  function = sless_function.hello.name
  type     = "http"
  methods  = ["GET", "POST"]
}
resource "sless_trigger" "nightly" {
  name       = "nightly"
  function   = sless_function.hello.name
  type       = "cron"
  schedule   = "0 3 * * *"
  time_zone  = "Europe/Berlin"
  event_json = jsonencode({ a = [1, 2] })
}
resource "sless_job" "once" {
  name     = "once"
  function = sless_function.hello.name
  run_id   = 1
}
`)
	w.apply()
	generation := w.function("hello").Generation
	for address, name := range map[string]string{
		"sless_function.hello": "hello", "sless_function.inline": "inline", "sless_trigger.hello": "hello", "sless_trigger.nightly": "nightly", "sless_job.once": "once",
	} {
		if out, code := w.run("state", "rm", address); code != 0 {
			t.Fatal(out)
		}
		if out, code := w.run("import", address, w.namespace+"/"+name); code != 0 {
			t.Fatal(out)
		}
	}
	// That source_dir comes back can't be hidden, see DESIGN; everything else is as before.
	w.wantPlanned(map[string]string{"sless_function.hello": "update"})
	w.applyPlanned()
	w.wantNoChanges()
	if got := w.function("hello").Generation; got != generation {
		t.Errorf("the apply after the import wrote the function: generation %d, before %d", got, generation)
	}
	w.destroy()
}

// TestParallelCreate makes ten functions at once.
func TestParallelCreate(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("main.tf", `
resource "sless_function" "many" {
  count     = 10
  name      = "many-${count.index}"
  runtime   = "python3.11"
  memory_mb = 64
  inline    = { "handler.py" = "def handle(event): return ${count.index}" }
}
`)
	w.apply("-parallelism=10")
	w.wantNoChanges()
	for i := range 10 {
		if got := w.call(fmt.Sprintf("many-%d", i), "{}"); got != fmt.Sprint(i) {
			t.Errorf("many-%d answers %s", i, got)
		}
	}
	w.destroy()
}

// TestInterruptedCreate holds that an interrupted apply leaves nothing that terraform does not know of.
func TestInterruptedCreate(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.code("one")
	w.write("main.tf", hello())
	out, err := w.during(exists(w.client.Functions(w.namespace), "hello"), func(apply int) error { return syscall.Kill(-apply, syscall.SIGINT) })
	if err == nil {
		t.Fatalf("the interrupted apply succeeded:\n%s", out)
	}
	if resources := w.resources(); len(resources) != 1 || resources[0].Instances[0].Status != "tainted" {
		t.Errorf("the state has %v, want the function, tainted", resources)
	}
	w.apply()
	w.wantVersion("one")
	w.wantNoChanges()
	w.destroy()
}

// TestSecrets holds that secrets reach the function, are written when they change, and are in no output.
func TestSecrets(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.code("one")
	const secret, other, written = "s3cr3t-one", "s3cr3t-two", "s3cr3t-three"
	quiet := func(out string) {
		t.Helper()
		for _, value := range []string{secret, other, written} {
			if strings.Contains(out, value) {
				t.Errorf("%s is in the output:\n%s", value, out)
			}
		}
	}
	want := func(value string) {
		t.Helper()
		if got := w.call("hello", "{}"); !strings.Contains(got, value) {
			t.Errorf("the function does not see its secret: %s", got)
		}
		w.wantNoChanges()
	}
	w.write("main.tf", hello(fmt.Sprintf(`secret_env = { SECRET = %q, GONE = "x" }`, secret), `env = { MODE = "a" }`))
	w.env = []string{"TF_LOG_PROVIDER=TRACE"}
	traced := w.apply()
	if quiet(traced); !strings.Contains(traced, "provider.terraform-provider-sless") {
		t.Error("the output has no log of the provider")
	}
	w.env = nil
	want(secret)
	w.write("main.tf", hello(fmt.Sprintf(`secret_env = { SECRET = %q }`, other), `env = { MODE = "a" }`))
	quiet(w.apply())
	want(other)
	if keys := w.function("hello").SecretKeys; len(keys) != 1 || keys[0] != "SECRET" {
		t.Errorf("secret variables are %v", keys)
	}
	w.write("main.tf", hello(fmt.Sprintf(`secret_env_wo = { SECRET = %q }`, written), "secret_env_wo_version = 1", `env = { MODE = "a" }`))
	quiet(w.apply())
	want(written)
	if got := fmt.Sprint(w.attributes("sless_function.hello")); strings.Contains(got, written) {
		t.Error("the write-only value is in the state")
	}
	w.write("main.tf", hello(`env = { MODE = "a" }`))
	w.apply()
	want("one")
	if keys := w.function("hello").SecretKeys; len(keys) != 0 {
		t.Errorf("secret variables are %v", keys)
	}
	w.write("main.tf", hello(`env = { SECRET = "a" }`, fmt.Sprintf(`secret_env = { SECRET = %q }`, secret)))
	if out := w.applyFails(); !strings.Contains(out, "set twice") {
		t.Errorf("the clash is not refused:\n%s", out)
	}
}
