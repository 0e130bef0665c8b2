package provider

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/naeel/sless/api/rest"
)

// TestIdentity holds that resources have an identity and can be imported by it or by id, with an empty plan after it.
func TestIdentity(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, api.URL, nil)
	identities, err := c.server.GetResourceIdentitySchemas(t.Context(), &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil || len(identities.IdentitySchemas) != 3 {
		t.Fatalf("identities of %d resources, %v", len(identities.IdentitySchemas), err)
	}
	for kind, set := range map[string]values{
		"sless_function": hello(values{"inline": map[string]string{"handler.py": "x"}}),
		"sless_trigger":  {"name": "hello", "function": "hello", "type": "cron", "schedule": "@daily", "event_json": `{"a": 1}`},
		"sless_job":      {"name": "hello", "function": "hello", "run_id": 1, "event_json": `{"a": 1}`},
	} {
		made := c.instance(kind)
		made.must(set)
		schema := identities.IdentitySchemas[kind].ValueType()
		if got, err := made.identity.IdentityData.Unmarshal(schema); err != nil || !got.Equal(c.object(schema, values{"namespace": "ns", "name": "hello"})) {
			t.Errorf("the identity of %s is %s, %v", kind, got, err)
		}
		for name, imported := range map[string]*instance{
			"id":       c.imported(&tfprotov6.ImportResourceStateRequest{TypeName: kind, ID: "ns/hello"}),
			"identity": c.imported(&tfprotov6.ImportResourceStateRequest{TypeName: kind, Identity: made.identity}),
		} {
			if changes := imported.changes(imported.plan(set)); changes != "" {
				t.Errorf("after the import of %s by %s the plan changes %s", kind, name, changes)
			}
		}
		for _, id := range []string{"", "hello", "a/b/c", "ns/", "/hello", "ns/Hello"} {
			answer, err := c.server.ImportResourceState(t.Context(), &tfprotov6.ImportResourceStateRequest{TypeName: kind, ID: id})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(errorsOf(answer.Diagnostics), "namespace/name") {
				t.Errorf("import of %q: %s", id, errorsOf(answer.Diagnostics))
			}
		}
	}
}

// invoke runs an action and returns its messages and errors.
func (c *core) invoke(kind string, set values) (messages []string, failure string) {
	c.t.Helper()
	server, ok := c.server.(tfprotov6.ActionServer)
	if !ok {
		c.t.Fatal("the provider has no actions")
	}
	config := c.object(c.schema.ActionSchemas[kind].Schema.ValueType(), set)
	stream, err := server.InvokeAction(c.t.Context(), &tfprotov6.InvokeActionRequest{ActionType: kind, Config: c.wire(config)})
	if err != nil {
		c.t.Fatal(err)
	}
	for event := range stream.Events {
		switch event := event.Type.(type) {
		case tfprotov6.ProgressInvokeActionEventType:
			messages = append(messages, event.Message)
		case tfprotov6.CompletedInvokeActionEventType:
			failure = errorsOf(event.Diagnostics)
		}
	}
	return messages, failure
}

// TestActions runs both actions, which this machine's Terraform may not know.
func TestActions(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, api.URL, nil)
	messages, failure := c.invoke("sless_invoke", values{"function": "hello", "event_json": `{"a":1}`})
	if failure != "" || len(messages) != 1 || !strings.Contains(messages[0], `{"called":"hello"}`) {
		t.Errorf("invoke: %q, %s", messages, failure)
	}
	messages, failure = c.invoke("sless_run_job", values{"function": "hello", "namespace": "other"})
	if failure != "" || len(messages) != 2 || !strings.Contains(messages[1], `{"done":true}`) {
		t.Errorf("run_job: %q, %s", messages, failure)
	}
	if api.called("DELETE /v1/namespaces/other/jobs/") != 1 {
		t.Error("the job of an action that ended well stays")
	}
	api.set(func() {
		api.run = func(job *rest.Job) *rest.JobStatus {
			return &rest.JobStatus{Status: rest.Status{Phase: rest.JobFailed, Message: "no such luck", ObservedGeneration: 1}, RunID: 1}
		}
	})
	if _, failure = c.invoke("sless_run_job", values{"function": "hello"}); !strings.Contains(failure, "no such luck") {
		t.Errorf("a run that fails: %s", failure)
	}
}

// TestJobEnds holds what comes of each way in which a run can end.
func TestJobEnds(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, api.URL, nil)
	status := func(phase string, runID int64) func(*rest.Job) *rest.JobStatus {
		return func(job *rest.Job) *rest.JobStatus {
			return &rest.JobStatus{Status: rest.Status{Phase: phase, Message: "said by the test", ObservedGeneration: job.Generation}, RunID: runID}
		}
	}
	for name, test := range map[string]struct {
		run     func(*rest.Job) *rest.JobStatus
		set     values
		failure string
		phase   string
	}{
		"succeeds":        {nil, values{"run_id": 1}, "", rest.JobSucceeded},
		"skipped":         {status(rest.JobPending, 0), values{}, "", rest.JobSkipped},
		"fails":           {status(rest.JobFailed, 1), values{"run_id": 1}, "said by the test", rest.JobFailed},
		"failure is fine": {status(rest.JobFailed, 1), values{"run_id": 1, "fail_on_error": false}, "", rest.JobFailed},
		"takes too long":  {status(rest.JobRunning, 1), values{"run_id": 1, "wait_timeout_sec": 1}, "no end after", rest.JobRunning},
		"is not awaited":  {status(rest.JobRunning, 1), values{"run_id": 1, "wait_timeout_sec": 0}, "", ""},
		"vanishes": {func(job *rest.Job) *rest.JobStatus {
			delete(api.jobs, job.Name)
			return status(rest.JobRunning, 1)(job)
		}, values{"run_id": 1}, "deleted by somebody else", rest.JobRunning},
	} {
		api.set(func() { api.run = test.run; clear(api.jobs) })
		job := c.instance("sless_job")
		set := values{"name": "it", "function": "hello"}
		for name, value := range test.set {
			set[name] = value
		}
		failure := job.apply(t.Context(), job.plan(set))
		if (test.failure == "") != (failure == "") || !strings.Contains(failure, test.failure) {
			t.Errorf("%s: got %q, want %q", name, failure, test.failure)
		}
		if got := job.text("phase"); got != test.phase {
			t.Errorf("%s: phase %q, want %q", name, got, test.phase)
		}
	}
}

// TestRunIDReplaces holds what runs a job again, and that JSON is compared as such.
func TestRunIDReplaces(t *testing.T) {
	api := newFakeAPI(t)
	job := newCore(t, api.URL, nil).instance("sless_job")
	job.must(values{"name": "it", "function": "hello", "run_id": 1, "event_json": `{"a":1}`})
	if planned := job.plan(values{"name": "it", "function": "hello", "run_id": 1, "event_json": "{ \"a\" : 1 }"}); job.changes(planned) != "" {
		t.Errorf("spacing changes %s", job.changes(planned))
	}
	if planned := job.plan(values{"name": "it", "function": "hello", "run_id": 1, "event_json": `{"a":2}`}); len(planned.replaces) != 0 || !strings.Contains(job.changes(planned), "result") {
		t.Errorf("another event replaces %v and changes %s", planned.replaces, job.changes(planned))
	}
	if planned := job.plan(values{"name": "it", "function": "hello", "run_id": 2}); len(planned.replaces) != 1 {
		t.Errorf("another run_id replaces %v", planned.replaces)
	}
	if planned := job.plan(values{"name": "it", "function": "hello", "run_id": unknown, "event_json": unknown}); planned.errors != "" {
		t.Error(planned.errors)
	}
}

// TestDirHash holds that the function gives what a plan does.
func TestDirHash(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, api.URL, nil)
	folder := codeFolder(t, "one")
	function := c.instance("sless_function")
	function.must(hello(values{"source_dir": folder}))
	call := func(arguments ...string) *tfprotov6.CallFunctionResponse {
		t.Helper()
		request := &tfprotov6.CallFunctionRequest{Name: "dir_hash"}
		for _, argument := range arguments {
			request.Arguments = append(request.Arguments, c.wire(tftypes.NewValue(tftypes.String, argument)))
		}
		answer, err := c.server.CallFunction(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	answer := call(folder, "*.md")
	if answer.Error != nil {
		t.Fatal(answer.Error.Text)
	}
	hash, err := answer.Result.Unmarshal(tftypes.String)
	if err != nil || !hash.Equal(function.attribute("code_hash")) {
		t.Errorf("dir_hash is %s, code_hash %s, %v", hash, function.attribute("code_hash"), err)
	}
	if answer := call(folder + "/nowhere"); answer.Error == nil || !strings.Contains(answer.Error.Text, "does not exist") {
		t.Errorf("an absent folder: %v", answer.Error)
	}
	if answer := call(folder, "[a"); answer.Error == nil || *answer.Error.FunctionArgument != 1 {
		t.Errorf("a bad pattern: %v", answer.Error)
	}
}

// TestSchedules holds that plans take what the platform takes.
func TestSchedules(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, api.URL, nil)
	for schedule, good := range map[string]bool{
		"*/5 * * * *": true, "0 8 * * MON-FRI": true, "@daily": true, "0 0 1,15 * *": true, "59 23 31 12 6": true,
		"": false, "* * * *": false, "0 0 3 * * *": false, "60 * * * *": false, "@every 5m": false, "@reboot": false, "TZ=UTC * * * *": false, "* * * * 7": false, "*/0 * * * *": false,
	} {
		planned := c.instance("sless_trigger").plan(values{"name": "it", "function": "hello", "type": "cron", "schedule": schedule})
		if (planned.errors == "") != good {
			t.Errorf("schedule %q: %s", schedule, planned.errors)
		}
	}
}

// TestProviderSettings holds where settings come from and what is said of bad ones.
func TestProviderSettings(t *testing.T) {
	api := newFakeAPI(t)
	t.Setenv("SLESS_ENDPOINT", api.URL)
	t.Setenv("SLESS_TOKEN", "from-environment")
	t.Setenv("SLESS_NAMESPACE", "from-environment")
	c := newCore(t, nil, values{"token": nil, "namespace": nil})
	function := c.instance("sless_function")
	function.must(hello(values{"inline": map[string]string{"handler.py": "x"}}))
	if got := function.text("namespace"); got != "from-environment" {
		t.Errorf("namespace %q", got)
	}
	secure := httptest.NewTLSServer(api)
	t.Cleanup(secure.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	token := filepath.Join(t.TempDir(), "token")
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := errors.Join(os.WriteFile(authority, encoded, 0o600), os.WriteFile(token, []byte("from-file\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLESS_ENDPOINT", secure.URL)
	t.Setenv("SLESS_TOKEN", "")
	t.Setenv("SLESS_TOKEN_FILE", token)
	for variable, value := range map[string]string{"SLESS_CA_CERT_FILE": authority, "SLESS_INSECURE": "true"} {
		os.Setenv(variable, value)
		function := newCore(t, nil, values{"token": nil, "namespace": nil}).instance("sless_function")
		function.state = c.object(c.kind("sless_function"), values{"namespace": "from-environment", "name": "hello"})
		seen := ""
		api.set(func() {
			api.before = func(_ http.ResponseWriter, r *http.Request) bool { seen = r.Header.Get("Authorization"); return false }
		})
		if failure := function.read(); failure != "" || seen != "Bearer from-file" {
			t.Errorf("%s: the server saw %q, %s", variable, seen, failure)
		}
		os.Unsetenv(variable)
	}
	for _, test := range []struct {
		set  values
		want string
	}{
		{values{"endpoint": "nowhere"}, "http"},
		{values{"ca_cert_file": "/nowhere.pem"}, "can't be read"},
		{values{"token_file": "/nowhere"}, "token"},
		{values{"token_file": "/nowhere", "namespace": "kube-system"}, "system's own"},
	} {
		config := c.object(c.schema.Provider.ValueType(), test.set)
		valid, err := c.server.ValidateProviderConfig(t.Context(), &tfprotov6.ValidateProviderConfigRequest{Config: c.wire(config)})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(errorsOf(valid.Diagnostics), test.want) {
			continue
		}
		answer, err := c.server.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{Config: c.wire(config)})
		if err != nil {
			t.Fatal(err)
		}
		if failure := errorsOf(answer.Diagnostics); !strings.Contains(failure, test.want) {
			t.Errorf("%v: %s", test.set, failure)
		}
	}
}
