package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/api/rest"
)

// fieldsOf are the locations that a problem names, and its code.
func fieldsOf(t *testing.T, err error) (string, []string) {
	t.Helper()
	problem := problemOf(t, err)
	var fields []string
	for _, field := range problem.Errors {
		if field.Message == "" {
			t.Errorf("%s has no message", field.Location)
		}
		fields = append(fields, field.Location)
	}
	slices.Sort(fields)
	return problem.Code, slices.Compact(fields)
}

func TestNamesThatCantBeAreRefusedWithTheRule(t *testing.T) {
	tenant := newTenant(t)
	functions := tenant.Functions(tenant.namespace)
	for _, name := range []string{"a_b", "MyFn", "", "-a", "a.", "1fn", strings.Repeat("a", 64), "a b", "ä", "a/b", "..", "%", "a%2Fb"} {
		_, err := functions.Create(t.Context(), hello(name))
		code, fields := fieldsOf(t, err)
		if problemOf(t, err).Status != 422 || code != rest.CodeInvalid || !slices.Equal(fields, []string{"body.name"}) {
			t.Errorf("create %q: got %v", name, err)
		}
		if name == "" || name == ".." {
			continue // no path has them
		}
		if _, err := functions.Get(t.Context(), name); !rest.IsNotFound(err) {
			t.Errorf("get %q: got %v", name, err)
		}
		_, err = functions.Replace(t.Context(), name, hello(""))
		if problemOf(t, err).Status != 422 {
			t.Errorf("replace %q: got %v", name, err)
		}
		if _, err := tenant.Invoke(t.Context(), tenant.namespace, name, nil); !rest.IsNotFound(err) {
			t.Errorf("invoke %q: got %v", name, err)
		}
	}
	for _, name := range []string{"fn1", "code", "logs", "invoke", strings.Repeat("a", 63)} {
		must[rest.Stored[rest.Function]](t)(functions.Create(t.Context(), hello(name)))
		must[rest.Stored[rest.Function]](t)(functions.Get(t.Context(), name))
	}
	_, err := functions.Create(t.Context(), hello("a_b"))
	if message := problemOf(t, err).Errors[0].Message; !strings.Contains(message, "RFC 1035") && !strings.Contains(message, "RFC 1123") {
		t.Errorf("the rule is not told: %s", message)
	}
}

func TestErrorsNameTheFieldAndNeverItsValue(t *testing.T) {
	tenant := newTenant(t)
	const secret = "hunter2-hunter2"
	base := "/v1/namespaces/" + tenant.namespace
	source := `"source": {"inline": {"a.py": "x"}}`
	zeros, long := strings.Repeat("0", 64), strings.Repeat("x", 254)
	for name, test := range map[string]struct {
		path, body string
		status     int
		code       string
		fields     []string
	}{
		"timeout":          {"/functions", `{"name": "f", "runtime": "r", ` + source + `, "timeout_sec": 3601}`, 422, rest.CodeInvalid, []string{"body.timeout_sec"}},
		"zero timeout":     {"/functions", `{"name": "f", "runtime": "r", ` + source + `, "timeout_sec": 0}`, 422, rest.CodeInvalid, []string{"body.timeout_sec"}},
		"half a second":    {"/functions", `{"name": "f", "runtime": "r", ` + source + `, "timeout_sec": 0.5}`, 422, rest.CodeInvalid, []string{"body.timeout_sec"}},
		"text":             {"/functions", `{"name": "f", "runtime": "r", ` + source + `, "timeout_sec": "` + secret + `"}`, 422, rest.CodeInvalid, []string{"body.timeout_sec"}},
		"overflow":         {"/functions", `{"name": "f", "runtime": "r", ` + source + `, "timeout_sec": 4294967297}`, 422, rest.CodeInvalid, []string{"body.timeout_sec"}},
		"memory overflow":  {"/functions", `{"name": "f", "runtime": "r", ` + source + `, "memory_mb": 9223372036854775807}`, 422, rest.CodeInvalid, []string{"body.memory_mb"}},
		"memory negative":  {"/functions", `{"name": "f", "runtime": "r", ` + source + `, "memory_mb": -1}`, 422, rest.CodeInvalid, []string{"body.memory_mb"}},
		"unknown field":    {"/functions", `{"name": "f", "runtime": "r", ` + source + `, "memory": 1, "s3": {}}`, 422, rest.CodeInvalid, []string{"body.memory", "body.s3"}},
		"wrong case":       {"/functions", `{"Name": "f", "runtime": "r", ` + source + `}`, 422, rest.CodeInvalid, []string{"body.Name"}},
		"nested unknown":   {"/functions", `{"name": "f", "runtime": "r", "source": {"inline": {"a.py": "x"}, "ftp": {}}}`, 422, rest.CodeInvalid, []string{"body.source.ftp"}},
		"no source":        {"/functions", `{"name": "f", "runtime": "r"}`, 422, rest.CodeInvalid, []string{"body.source"}},
		"two sources":      {"/functions", `{"name": "f", "runtime": "r", "source": {"image": "a/b", "inline": {"a.py": "x"}}}`, 422, rest.CodeInvalid, []string{"body.source"}},
		"no runtime":       {"/functions", `{"name": "f", ` + source + `}`, 422, rest.CodeInvalid, []string{"body"}},
		"runtime":          {"/functions", `{"name": "f", "runtime": "` + secret + `_X", ` + source + `}`, 422, rest.CodeInvalid, []string{"body.runtime"}},
		"env name":         {"/functions", `{"name": "f", "runtime": "r", ` + source + `, "env": {"A": "a", "9": "` + secret + `"}}`, 422, rest.CodeInvalid, []string{"body.env.9"}},
		"env reserved":     {"/functions", `{"name": "f", "runtime": "r", ` + source + `, "env": {"PORT": "` + secret + `"}}`, 422, rest.CodeInvalid, []string{"body.env.PORT"}},
		"env type":         {"/functions", `{"name": "f", "runtime": "r", ` + source + `, "env": {"A": 1}}`, 422, rest.CodeInvalid, []string{"body.env.A"}},
		"env from nothing": {"/functions", `{"name": "f", "runtime": "r", ` + source + `, "env_from": {"A": {"key": "k"}}}`, 422, rest.CodeInvalid, []string{"body.env_from.A"}},
		"secret env name":  {"/functions", `{"name": "f", "runtime": "r", ` + source + `, "secret_env": {"9": "` + secret + `"}}`, 422, rest.CodeInvalid, []string{"body.secret_env.9"}},
		"env twice":        {"/functions", `{"name": "f", "runtime": "r", ` + source + `, "env": {"A": "x"}, "secret_env": {"A": "` + secret + `"}}`, 422, rest.CodeInvalid, []string{"body.secret_env.A"}},
		"label":            {"/functions", `{"name": "f", "runtime": "r", ` + source + `, "labels": {"a b": "c"}}`, 422, rest.CodeInvalid, []string{"body.labels"}},
		"s3 key":           {"/functions", `{"name": "f", "runtime": "r", "source": {"s3": {"key": "/a"}}}`, 422, rest.CodeInvalid, []string{"body.source.s3.key"}},
		"s3 poll":          {"/functions", `{"name": "f", "runtime": "r", "source": {"s3": {"key": "a", "poll_interval_sec": 9}}}`, 422, rest.CodeInvalid, []string{"body.source.s3.poll_interval_sec"}},
		"s3 bucket":        {"/functions", `{"name": "f", "runtime": "r", "source": {"s3": {"key": "a", "bucket": "theirs"}}}`, 422, rest.CodeInvalid, []string{"body.source.s3"}},
		"http url":         {"/functions", `{"name": "f", "runtime": "r", "source": {"http": {"url": "https://` + secret + `@example.org/x.zip", "sha256": "` + zeros + `"}}}`, 422, rest.CodeInvalid, []string{"body.source.http.url"}},
		"http hash":        {"/functions", `{"name": "f", "runtime": "r", "source": {"http": {"url": "https://example.org/x.zip"}}}`, 422, rest.CodeInvalid, []string{"body.source.http.sha256"}},
		"git url":          {"/functions", `{"name": "f", "runtime": "r", "source": {"git": {"url": "ssh://` + secret + `@example.org/x", "ref": "main"}}}`, 422, rest.CodeInvalid, []string{"body.source.git.url"}},
		"git ref":          {"/functions", `{"name": "f", "runtime": "r", "source": {"git": {"url": "https://example.org/x", "ref": "-` + secret + `"}}}`, 422, rest.CodeInvalid, []string{"body.source.git.ref"}},
		"git path":         {"/functions", `{"name": "f", "runtime": "r", "source": {"git": {"url": "https://example.org/x", "ref": "main", "path": "../` + secret + `"}}}`, 422, rest.CodeInvalid, []string{"body.source.git.path"}},
		"git secret":       {"/functions", `{"name": "f", "runtime": "r", "source": {"git": {"url": "https://example.org/x", "ref": "main", "secret_name": "` + long + `"}}}`, 422, rest.CodeInvalid, []string{"body.source.git.secret_name"}},
		"build secret":     {"/functions", `{"name": "f", "runtime": "r", ` + source + `, "build_secret_name": "` + long + `"}`, 422, rest.CodeInvalid, []string{"body.build_secret_name"}},
		"trigger type":     {"/triggers", `{"name": "t", "function": "f", "type": "smoke"}`, 422, rest.CodeInvalid, []string{"body.type"}},
		"trigger schedule": {"/triggers", `{"name": "t", "function": "f", "type": "cron", "schedule": "* * * * * *"}`, 422, rest.CodeInvalid, []string{"body.schedule"}},
		"trigger both":     {"/triggers", `{"name": "t", "function": "f", "type": "http", "schedule": "* * * * *"}`, 422, rest.CodeInvalid, []string{"body"}},
		"job run":          {"/jobs", `{"name": "j", "function": "f", "run_id": -1}`, 422, rest.CodeInvalid, []string{"body.run_id"}},
		"job function":     {"/jobs", `{"name": "j", "function": "F_"}`, 422, rest.CodeInvalid, []string{"body.function"}},
		"namespace":        {"/jobs", `{"name": "j", "function": "f", "namespace": "other"}`, 422, rest.CodeInvalid, []string{"body.namespace"}},
		"no JSON":          {"/jobs", `{"name": "` + secret + `",`, 400, rest.CodeBadRequest, nil},
		"a list":           {"/jobs", `["` + secret + `"]`, 422, rest.CodeInvalid, []string{"body"}},
		"two documents":    {"/jobs", `{} {}`, 400, rest.CodeBadRequest, nil},
		"nothing":          {"/jobs", ``, 400, rest.CodeBadRequest, nil},
		"too large":        {"/jobs", `{"event_json": "` + strings.Repeat("x", 3<<20) + `"}`, 413, rest.CodeBodyTooLarge, nil},
		"event too large":  {"/jobs", `{"name": "j", "function": "f", "event_json": "` + strings.Repeat("x", 98305) + `"}`, 422, rest.CodeInvalid, []string{"body.event_json"}},
	} {
		t.Run(name, func(t *testing.T) {
			response, body := send(t, tenant.token, "POST", base+test.path, strings.NewReader(test.body), "Content-Type", "application/json")
			wantProblem(t, response, body, test.status, test.code)
			if strings.Contains(body, secret) {
				t.Errorf("the answer has the value: %s", body)
			}
			_, fields := fieldsOf(t, problemIn(t, body))
			if diff := cmp.Diff(test.fields, fields); diff != "" {
				t.Errorf("fields: %s\n%s", diff, body)
			}
		})
	}
}

func TestNullIsAbsent(t *testing.T) {
	tenant := newTenant(t)
	base := "/v1/namespaces/" + tenant.namespace
	for path, body := range map[string]string{
		"/functions": `{"name": "f", "runtime": "r", "source": {"inline": {"a.py": "x", "b.py": null}, "s3": null, "http": null, "git": null, "image": null}, "labels": null,
			"entrypoint": null, "code_hash": null, "env": null, "env_from": null, "secret_env": null, "memory_mb": null, "cpu": null,
			"memory_request_mb": null, "cpu_request": null, "timeout_sec": null, "concurrency": null, "replicas": null, "build_timeout_sec": null, "build_secret_name": null,
			"restarted_at": null, "namespace": null, "uid": null, "status": null}`,
		"/triggers": `{"name": "t", "function": "f", "type": "http", "labels": null, "enabled": null, "methods": null, "payload": null, "schedule": null,
			"time_zone": null, "event_json": null, "concurrency_policy": null, "starting_deadline_sec": null}`,
		"/jobs": `{"name": "j", "function": "f", "labels": null, "event_json": null, "run_id": null, "timeout_sec": null, "backoff_limit": null,
			"ttl_sec_after_finished": null}`,
	} {
		if response, answer := send(t, tenant.token, "POST", base+path, strings.NewReader(body), "Content-Type", "application/json"); response.StatusCode != 201 {
			t.Errorf("%s: %d %s", path, response.StatusCode, answer)
		}
	}
}

func TestRequestsThatCantBeServed(t *testing.T) {
	tenant := newTenant(t)
	must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), hello("hello")))
	base := "/v1/namespaces/" + tenant.namespace
	for name, test := range map[string]struct {
		method, path, media, body string
		status                    int
		code                      string
	}{
		"no such path":     {"GET", "/v1/nothing", "", "", 404, rest.CodeNotFound},
		"outside":          {"GET", "/metrics", "", "", 404, rest.CodeNotFound},
		"dots":             {"GET", base + "/functions/../functions", "", "", 404, rest.CodeNotFound},
		"slash":            {"GET", base + "/functions/", "", "", 404, rest.CodeNotFound},
		"method":           {"DELETE", base + "/functions", "", "", 405, rest.CodeMethodNotAllowed},
		"media":            {"POST", base + "/functions", "text/plain", "{}", 415, rest.CodeUnsupportedMediaType},
		"patch media":      {"PATCH", base + "/functions/hello", "application/json-patch+json", "[]", 415, rest.CodeUnsupportedMediaType},
		"patch list":       {"PATCH", base + "/functions/hello", "application/merge-patch+json", "[]", 422, rest.CodeInvalid},
		"patch unknown":    {"PATCH", base + "/functions/hello", "application/merge-patch+json", `{"memory": 1}`, 422, rest.CodeInvalid},
		"patch absent":     {"PATCH", base + "/functions/absent", "application/merge-patch+json", `{}`, 404, rest.CodeNotFound},
		"patch name":       {"PATCH", base + "/functions/hello", "application/merge-patch+json", `{"name": "other"}`, 422, rest.CodeInvalid},
		"put other name":   {"PUT", base + "/functions/hello", "application/json", `{"name": "other"}`, 422, rest.CodeInvalid},
		"limit":            {"GET", base + "/functions?limit=0", "", "", 422, rest.CodeInvalid},
		"limit empty":      {"GET", base + "/functions?limit=", "", "", 422, rest.CodeInvalid},
		"limit word":       {"GET", base + "/functions?limit=many", "", "", 422, rest.CodeInvalid},
		"selector":         {"GET", base + "/functions?label_selector=a%3D%3D%3Db", "", "", 422, rest.CodeInvalid},
		"continue":         {"GET", base + "/functions?continue=xyz", "", "", 422, rest.CodeInvalid},
		"unknown query":    {"GET", base + "/functions?labels=a", "", "", 422, rest.CodeInvalid},
		"unknown wait":     {"PUT", base + "/functions/hello?wait=long", "application/json", `{}`, 422, rest.CodeInvalid},
		"namespace":        {"GET", "/v1/namespaces/a%2Fb/functions", "", "", 403, rest.CodeForbidden},
		"namespace letter": {"GET", "/v1/namespaces/%25/functions", "", "", 403, rest.CodeForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			var header []string
			if test.media != "" {
				header = []string{"Content-Type", test.media}
			}
			response, body := send(t, tenant.token, test.method, test.path, strings.NewReader(test.body), header...)
			wantProblem(t, response, body, test.status, test.code)
		})
	}
	// What is no JSON fails as that, whatever it depends on.
	for _, method := range []string{"PUT", "PATCH"} {
		response, body := send(t, tenant.token, method, base+"/functions/hello", strings.NewReader("{"), "If-Match", `"another"`)
		wantProblem(t, response, body, 400, rest.CodeBadRequest)
	}
}

func TestAClusterWideUserLearnsThatANamespaceIsAbsent(t *testing.T) {
	admin := newClient(t, adminToken(t))
	_, err := admin.Functions("absent").List(t.Context(), rest.ListOptions{})
	wantCode(t, err, 404, rest.CodeNamespaceNotFound)
	_, err = admin.Functions("absent").Create(t.Context(), hello("hello"))
	wantCode(t, err, 404, rest.CodeNamespaceNotFound)
	_, err = admin.Functions("a_b").Create(t.Context(), hello("hello"))
	wantCode(t, err, 404, rest.CodeNamespaceNotFound)
	_, err = admin.Functions("absent").Get(t.Context(), "hello")
	wantCode(t, err, 404, rest.CodeNotFound)
	_, err = admin.Upload(t.Context(), "absent", strings.NewReader("x"))
	wantCode(t, err, 404, rest.CodeNamespaceNotFound)
}

func TestABodyThatBreaksOffIsTheCallersFault(t *testing.T) {
	tenant := newTenant(t)
	request := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/namespaces/"+tenant.namespace+"/functions", brokenBody{})
	request.Header.Set("Authorization", "Bearer "+tenant.token)
	answer := httptest.NewRecorder()
	shared.service.server.Public().ServeHTTP(answer, request)
	wantProblem(t, answer.Result(), answer.Body.String(), http.StatusBadRequest, rest.CodeIncompleteBody)
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("unexpected EOF") }
