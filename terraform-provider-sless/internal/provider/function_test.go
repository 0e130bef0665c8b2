package provider

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/naeel/sless/api/rest"
)

func hello(more values) values {
	set := values{"name": "hello", "runtime": "python3.11"}
	for name, value := range more {
		set[name] = value
	}
	return set
}

// TestPlanShowsWhatChanges holds that facts are unknown exactly when they may change, and what is written.
func TestPlanShowsWhatChanges(t *testing.T) {
	api := newFakeAPI(t)
	function := newCore(t, api.URL, nil).instance("sless_function")
	folder := codeFolder(t, "one")
	function.must(hello(values{"source_dir": folder, "env": map[string]string{"A": "1", "B": "2"}}))
	if api.uploads != 1 {
		t.Fatalf("%d uploads", api.uploads)
	}
	step := func(what string, set values, changes string, patched ...string) {
		t.Helper()
		if failure := function.read(); failure != "" {
			t.Fatal(failure)
		}
		planned := function.plan(set)
		if got := function.changes(planned); got != changes {
			t.Errorf("%s: the plan changes %q, want %q", what, got, changes)
		}
		before := len(api.patches)
		if failure := function.apply(t.Context(), planned); failure != "" {
			t.Fatalf("%s: %s", what, failure)
		}
		if len(patched) == 0 {
			if len(api.patches) != before {
				t.Errorf("%s: wrote %v", what, api.patches[before:])
			}
			return
		}
		if len(api.patches) != before+1 {
			t.Fatalf("%s: %d writes, want one", what, len(api.patches)-before)
		}
		patch := api.patches[before]
		for _, name := range patched {
			if _, ok := patch[name]; !ok || len(patch) != len(patched) {
				t.Errorf("%s: wrote %v, want %v", what, patch, patched)
			}
		}
	}
	with := func(more values) values {
		set := hello(values{"source_dir": folder, "env": map[string]string{"A": "1"}})
		for name, value := range more {
			set[name] = value
		}
		return set
	}
	step("nothing", hello(values{"source_dir": folder, "env": map[string]string{"A": "1", "B": "2"}}), "")
	step("env", with(nil), "env phase url", "env")
	if env := api.functions["hello"].Env; len(env) != 1 {
		t.Errorf("env is %v", env)
	}
	step("memory", with(values{"memory_mb": 128}), "memory_mb phase url", "memory_mb")
	step("no memory", with(nil), "memory_mb phase url", "memory_mb")
	step("another path of the same code", with(values{"source_dir": codeFolder(t, "one")}), "")
	writeCode(t, folder, "two")
	step("code", with(nil), "code_hash code_sha256 image last_built_at phase source_revision url", "source", "code_hash")
	step("entrypoint", with(values{"entrypoint": "other.handle"}), "code_sha256 entrypoint image last_built_at phase source_revision url", "entrypoint")
	step("entrypoint", with(nil), "code_sha256 entrypoint image last_built_at phase source_revision url", "entrypoint")
	step("runtime", with(values{"runtime": "nodejs20"}), "code_sha256 image last_built_at phase runtime source_revision url", "runtime")
	step("from folder to inline", with(values{"source_dir": nil, "inline": map[string]string{"a.py": "x", "b.py": "y"}}),
		"code_hash code_sha256 image inline last_built_at phase runtime source_dir source_revision url", "source", "code_hash", "runtime")
	step("fewer files", with(values{"source_dir": nil, "inline": map[string]string{"a.py": "x"}}), "code_sha256 image inline last_built_at phase source_revision url", "source", "code_hash")
	if inline := api.functions["hello"].Source.Inline; len(inline) != 1 {
		t.Errorf("inline is %v", inline)
	}
	if planned := function.plan(with(values{"source_dir": nil, "inline": map[string]string{"a.py": "x"}, "namespace": "elsewhere"})); len(planned.replaces) != 1 {
		t.Errorf("another namespace replaces %v", planned.replaces)
	}
}

// TestSecretsStayOut holds that write-only values reach the API and nothing else, and that what was removed is removed.
func TestSecretsStayOut(t *testing.T) {
	api := newFakeAPI(t)
	function := newCore(t, api.URL, nil).instance("sless_function")
	inline := map[string]string{"handler.py": "x"}
	function.must(hello(values{"inline": inline, "secret_env_wo": map[string]string{"A": "s3cr3t", "B": "s3cr3t"}, "secret_env_wo_version": 1}))
	if got := api.functions["hello"].SecretEnv; got["A"] != "s3cr3t" {
		t.Errorf("the API got %v", got)
	}
	if strings.Contains(function.state.String(), "s3cr3t") {
		t.Error("the state has the secret")
	}
	function.must(hello(values{"inline": inline, "secret_env_wo": map[string]string{"A": "n3w"}, "secret_env_wo_version": 2}))
	if got := api.functions["hello"].SecretEnv; len(got) != 1 || got["A"] != "n3w" {
		t.Errorf("the API got %v", got)
	}
	refused := function.plan(hello(values{"inline": inline, "env": map[string]string{"A": "1"}, "secret_env_wo": map[string]string{"A": "n3w"}, "secret_env_wo_version": 2}))
	if !strings.Contains(refused.errors, "set twice") || strings.Contains(refused.errors, "n3w") {
		t.Errorf("a clash: %s", refused.errors)
	}
	api.set(func() {
		api.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPatch {
				return false
			}
			problem(w, http.StatusUnprocessableEntity, rest.CodeInvalid, rest.FieldError{Location: "body.secret_env.A", Message: "is too long"})
			return true
		}
	})
	failure := function.apply(t.Context(), function.plan(hello(values{"inline": inline, "secret_env_wo": map[string]string{"A": "s3cr3t"}, "secret_env_wo_version": 3})))
	if !strings.Contains(failure, `secret_env`) || !strings.Contains(failure, "is too long") || strings.Contains(failure, "s3cr3t") {
		t.Errorf("the refusal is %s", failure)
	}
}

// TestStaleStatusIsNoEnd holds that a status of the version before, and a function that is not to be seen yet, are waited out.
func TestStaleStatusIsNoEnd(t *testing.T) {
	api := newFakeAPI(t)
	looks := 0
	api.before = func(w http.ResponseWriter, r *http.Request) bool {
		if looks++; r.Method == http.MethodGet && looks < 4 {
			problem(w, http.StatusNotFound, rest.CodeNotFound)
			return true
		}
		return false
	}
	stale := 3
	api.status = func(fn *rest.Function) *rest.FunctionStatus {
		status := readyStatus(fn)
		if stale--; stale >= 0 {
			status.ObservedGeneration, status.Image = fn.Generation-1, "stale"
		}
		return status
	}
	function := newCore(t, api.URL, nil).instance("sless_function")
	function.must(hello(values{"source_dir": codeFolder(t, "one")}))
	api.set(func() { stale = 3 })
	function.must(hello(values{"source_dir": codeFolder(t, "two")}))
	if got := function.text("image"); got == "stale" {
		t.Error("the status of the version before was taken")
	}
}

// TestFailureIsStillToDo holds that after a failure the plan shows the change that has not come through, and an apply looks again.
func TestFailureIsStillToDo(t *testing.T) {
	api := newFakeAPI(t)
	function := newCore(t, api.URL, nil).instance("sless_function")
	folder := codeFolder(t, "one")
	function.must(hello(values{"source_dir": folder}))
	first := function.text("code_hash")
	api.set(func() {
		api.status = func(fn *rest.Function) *rest.FunctionStatus {
			status := readyStatus(fn)
			status.Phase, status.Reason, status.Message, status.CodeHash = rest.FunctionFailed, "DependenciesFailed", "pip ended with 1", first
			status.Build = &rest.BuildStatus{LogTail: "line 1\nno such package\n"}
			return status
		}
	})
	writeCode(t, folder, "two")
	for range 2 {
		failure := function.apply(t.Context(), function.plan(hello(values{"source_dir": folder})))
		if !strings.Contains(failure, "DependenciesFailed") || !strings.Contains(failure, "no such package") {
			t.Errorf("the failure is %s", failure)
		}
		if function.text("code_hash") != first {
			t.Error("the state has the hash of code that is not deployed")
		}
		if failure := function.read(); failure != "" {
			t.Fatal(failure)
		}
		if changes := function.changes(function.plan(hello(values{"source_dir": folder}))); !strings.Contains(changes, "code_hash") {
			t.Errorf("the next plan changes %q", changes)
		}
	}
	api.set(func() { api.status = nil })
	function.must(hello(values{"source_dir": folder}))
	if function.text("code_hash") == first || function.text("phase") != rest.FunctionReady {
		t.Errorf("after it healed the state has %s, %s", function.text("code_hash"), function.text("phase"))
	}
}

// TestLostAnswer holds that a create whose answer was lost makes one function, and that another's is not taken.
func TestLostAnswer(t *testing.T) {
	api := newFakeAPI(t)
	lost := false
	api.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || lost {
			return false
		}
		lost = true
		api.functions["hello"] = &rest.Function{Name: "hello", Namespace: "ns", UID: "u", Generation: 1, Runtime: "python3.11", Source: &rest.Source{Inline: map[string]string{"handler.py": "x"}}}
		panic(http.ErrAbortHandler)
	}
	set := hello(values{"inline": map[string]string{"handler.py": "x"}})
	newCore(t, api.URL, nil).instance("sless_function").must(set)
	other := newCore(t, api.URL, nil).instance("sless_function")
	if failure := other.apply(t.Context(), other.plan(set)); !strings.Contains(failure, rest.CodeAlreadyExists) || !other.state.IsNull() {
		t.Errorf("a function that was there is taken: %s", failure)
	}
}

// TestKilledCreate holds that what an apply left unfinished when it was killed is taken over and made what is wanted now, and that a job
// is only when its run is the one that is wanted.
func TestKilledCreate(t *testing.T) {
	api := newFakeAPI(t)
	// Nothing comes after the call that creates, and what came of it is forgotten.
	kill := func(kind string, set values) {
		t.Helper()
		api.set(func() {
			api.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPatch {
					problem(w, http.StatusForbidden, rest.CodeForbidden)
				}
				return r.Method == http.MethodPatch
			}
		})
		newCore(t, api.URL, nil).instance(kind).must(set)
		api.set(func() { api.before = nil })
	}
	code := func(text string) values {
		return hello(values{"inline": map[string]string{"handler.py": text}, "env": map[string]string{"A": text}})
	}
	kill("sless_function", code("one"))
	if got := api.functions["hello"].Labels[unfinished]; got != "true" {
		t.Fatalf("the label is %q", got)
	}
	function := newCore(t, api.URL, nil).instance("sless_function")
	function.must(code("two"))
	if got := api.functions["hello"]; got.Env["A"] != "two" || got.Source.Inline["handler.py"] != "two" || len(got.Labels) != 0 {
		t.Errorf("the API has %+v", got)
	}
	other := newCore(t, api.URL, nil).instance("sless_function")
	if failure := other.apply(t.Context(), other.plan(code("two"))); !strings.Contains(failure, rest.CodeAlreadyExists) {
		t.Errorf("a finished function is taken: %s", failure)
	}
	kill("sless_job", values{"name": "it", "function": "hello", "run_id": 7})
	job := newCore(t, api.URL, nil).instance("sless_job")
	if failure := job.apply(t.Context(), job.plan(values{"name": "it", "function": "hello", "run_id": 8})); !strings.Contains(failure, rest.CodeAlreadyExists) {
		t.Errorf("a job with another run is taken: %s", failure)
	}
	job.must(values{"name": "it", "function": "hello", "run_id": 7})
	if got := api.jobs["it"]; len(got.Labels) != 0 || got.UID != "uid-it" {
		t.Errorf("the API has %+v", got)
	}
}

// TestInterruptedCreateIsKnown holds that the state has a function whose creation was interrupted, without a hash.
func TestInterruptedCreateIsKnown(t *testing.T) {
	api := newFakeAPI(t)
	ctx, interrupt := context.WithCancel(t.Context())
	api.status = func(fn *rest.Function) *rest.FunctionStatus {
		interrupt()
		return &rest.FunctionStatus{Status: rest.Status{Phase: rest.FunctionBuilding, ObservedGeneration: fn.Generation}}
	}
	function := newCore(t, api.URL, nil).instance("sless_function")
	failure := function.apply(ctx, function.plan(hello(values{"source_dir": codeFolder(t, "one")})))
	if failure == "" || function.text("id") != "ns/hello" || function.text("code_hash") != "" {
		t.Errorf("state %s after %s", function.state, failure)
	}
}

// TestCodeThatChangedIsNotUploaded holds that what is uploaded is what was planned.
func TestCodeThatChangedIsNotUploaded(t *testing.T) {
	api := newFakeAPI(t)
	function := newCore(t, api.URL, nil).instance("sless_function")
	folder := codeFolder(t, "one")
	planned := function.plan(hello(values{"source_dir": folder}))
	writeCode(t, folder, "two")
	if failure := function.apply(t.Context(), planned); !strings.Contains(failure, "changed since the plan") || api.uploads != 0 {
		t.Errorf("%d uploads: %s", api.uploads, failure)
	}
}

// TestAbsentCode holds that a function whose code is gone can be destroyed and not changed.
func TestAbsentCode(t *testing.T) {
	api := newFakeAPI(t)
	function := newCore(t, api.URL, nil).instance("sless_function")
	folder := codeFolder(t, "one")
	absent := hello(values{"source_dir": filepath.Join(folder, "nowhere")})
	if planned := function.plan(absent); !strings.Contains(planned.errors, "does not exist") {
		t.Errorf("an absent folder: %s", planned.errors)
	}
	function.must(hello(values{"source_dir": folder}))
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	planned := function.plan(hello(values{"source_dir": folder}))
	if planned.errors != "" || planned.warnings == 0 {
		t.Fatalf("%d warnings, %s", planned.warnings, planned.errors)
	}
	if failure := function.apply(t.Context(), planned); !strings.Contains(failure, "does not exist") {
		t.Errorf("a change without code: %s", failure)
	}
	if failure := function.destroy(); failure != "" {
		t.Error(failure)
	}
	if len(api.functions) != 0 {
		t.Error("the function is still there")
	}
}

// TestUnknownsAreAllowed holds that values which come from other resources break no plan, and that nothing is called for one.
func TestUnknownsAreAllowed(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, unknown, values{"token": unknown, "namespace": unknown})
	for name, set := range map[string]values{
		"folder":    {"source_dir": unknown},
		"hash":      {"filename": "built-later.zip", "code_hash": unknown},
		"inline":    {"inline": unknown},
		"s3":        {"s3": unknown},
		"env":       {"image": "a/b", "env": unknown, "secret_env": unknown, "env_from": unknown},
		"namespace": {"image": unknown, "namespace": unknown},
		"numbers":   {"image": "a/b", "memory_mb": unknown, "cpu": unknown, "replicas": unknown, "timeout_sec": unknown},
	} {
		if planned := c.instance("sless_function").plan(hello(set)); planned.errors != "" {
			t.Errorf("%s: %s", name, planned.errors)
		}
	}
	known := newCore(t, api.URL, nil).instance("sless_function")
	known.must(hello(values{"source_dir": codeFolder(t, "one")}))
	calls := api.called("")
	later := c.instance("sless_function")
	later.state, later.private, later.identity = known.state, known.private, known.identity
	if failure := later.read(); failure != "" || !later.state.Equal(known.state) || api.called("") != calls {
		t.Errorf("a refresh without a known provider: %d calls, %s", api.called("")-calls, failure)
	}
	if failure := later.destroy(); !strings.Contains(failure, "not known yet") {
		t.Errorf("a destroy without a known provider: %s", failure)
	}
}

// TestGoneIsGone holds that an object deleted by others is made again, and that its deletion is no error.
func TestGoneIsGone(t *testing.T) {
	api := newFakeAPI(t)
	function := newCore(t, api.URL, nil).instance("sless_function")
	function.must(hello(values{"inline": map[string]string{"handler.py": "x"}}))
	api.set(func() { delete(api.functions, "hello") })
	if failure := function.destroy(); failure != "" {
		t.Errorf("destroy: %s", failure)
	}
	function.must(hello(values{"inline": map[string]string{"handler.py": "x"}}))
	api.set(func() { delete(api.functions, "hello") })
	function.identity = nil // as from a Terraform that knows no identities
	if failure := function.read(); failure != "" || !function.state.IsNull() {
		t.Errorf("refresh: %s, state %s", failure, function.state)
	}
}

// TestErrorsAreClear holds what users read when the API refuses.
func TestErrorsAreClear(t *testing.T) {
	for want, answer := range map[string]func(http.ResponseWriter){
		"Get a new one":       func(w http.ResponseWriter) { problem(w, http.StatusUnauthorized, rest.CodeUnauthenticated) },
		"no right to do this": func(w http.ResponseWriter) { problem(w, http.StatusForbidden, rest.CodeForbidden) },
		`"memory_mb"`: func(w http.ResponseWriter) {
			problem(w, 422, rest.CodeInvalid, rest.FieldError{Location: "body.memory_mb", Message: "too much"})
		},
		`AttributeName("inline`: func(w http.ResponseWriter) {
			problem(w, 422, rest.CodeInvalid, rest.FieldError{Location: "body.source.inline.a", Message: "bad"})
		},
		"or something before it": func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) },
	} {
		api := newFakeAPI(t)
		api.before = func(w http.ResponseWriter, _ *http.Request) bool { answer(w); return true }
		function := newCore(t, api.URL, nil).instance("sless_function")
		failure := function.apply(t.Context(), function.plan(hello(values{"inline": map[string]string{"handler.py": "x"}})))
		if !strings.Contains(failure, want) || strings.Contains(failure, "the-token") || !function.state.IsNull() {
			t.Errorf("got %s, want %q", failure, want)
		}
	}
}

// TestOtherCodeUnderTheSameMark holds that code which somebody else put there is seen whatever its mark.
func TestOtherCodeUnderTheSameMark(t *testing.T) {
	api := newFakeAPI(t)
	function := newCore(t, api.URL, nil).instance("sless_function")
	folder := codeFolder(t, "one")
	function.must(hello(values{"source_dir": folder, "code_hash": "mine"}))
	api.set(func() { api.functions["hello"].Source.S3.Key = "sources/other.zip" })
	if failure := function.read(); failure != "" {
		t.Fatal(failure)
	}
	function.must(hello(values{"source_dir": folder, "code_hash": "mine"}))
	if api.uploads != 2 || function.text("code_hash") != "mine" {
		t.Errorf("%d uploads, code_hash %q", api.uploads, function.text("code_hash"))
	}
}

// TestMinimalS3 holds that absent parts of the block are absent for the API too.
func TestMinimalS3(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, api.URL, nil)
	kind := c.kind("sless_function").(tftypes.Object).AttributeTypes["s3"]
	function := c.instance("sless_function")
	function.must(hello(values{"s3": c.object(kind, values{"key": "k"})}))
	function.must(hello(values{"s3": c.object(kind, values{"key": "k", "version_id": "2"})}))
	if failure := function.read(); failure != "" {
		t.Fatal(failure)
	}
	if planned := function.plan(hello(values{"s3": c.object(kind, values{"key": "k", "version_id": "2"})})); function.changes(planned) != "" {
		t.Errorf("the second plan changes %s", function.changes(planned))
	}
	if got := *api.functions["hello"].Source.S3; got != (rest.S3Source{Key: "k", VersionID: "2"}) {
		t.Errorf("the API got %+v", got)
	}
	if refused := function.plan(hello(values{"s3": c.object(kind, values{"key": "k", "bucket": "b"})})); !strings.Contains(refused.errors, "needs secret_name") {
		t.Errorf("a bucket without secret_name: %s", refused.errors)
	}
}
