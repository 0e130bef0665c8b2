package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/naeel/sless/api/rest"
)

// documented is what the document says of one operation.
type documented struct {
	OperationID string `json:"operationId"`
	Parameters  []struct {
		Name, In string
	} `json:"parameters"`
	RequestBody *struct {
		Content map[string]json.RawMessage `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Content map[string]json.RawMessage `json:"content"`
	} `json:"responses"`
}

// hostile are values for any field and parameter, as JSON.
var hostile = []string{
	`null`, `true`, `0`, `1`, `-1`, `0.5`, `1e300`, `9007199254740993`, `9223372036854775808`, `""`, `" "`, `"a"`, `"../x"`, `"%00"`, `"\u0000"`, `"ä\ud83d\ude00"`,
	`"9999-99-99"`, `[]`, `["a"]`, `[null]`, `{}`, `{"a": "b"}`, `{"a": null}`, `{"": ""}`, `{"a": {"b": []}}`, `"` + strings.Repeat("x", 70000) + `"`,
}

// TestWhateverIsSentHasADocumentedAnswer goes through every operation of the document with every field and parameter set to every hostile
// value: there is no 5xx, no answer that the document does not know, and every error is a problem.
func TestWhateverIsSentHasADocumentedAnswer(t *testing.T) {
	tenant := newTenant(t)
	restore := func() {
		t.Helper()
		must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Replace(t.Context(), "echo", hello("")))
		must[rest.Stored[rest.Trigger]](t)(tenant.Triggers(tenant.namespace).Replace(t.Context(), "echo", rest.Trigger{Function: "echo", Type: rest.TriggerHTTP}))
		must[rest.Stored[rest.Job]](t)(tenant.Jobs(tenant.namespace).Replace(t.Context(), "echo", rest.Job{Function: "echo"}))
	}
	var document struct {
		Paths      map[string]map[string]documented `json:"paths"`
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	_, text := send(t, "", "GET", "/v1/openapi.json", nil)
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	requests := 0
	try := func(operation documented, method, path, media, body string) {
		t.Helper()
		requests++
		header := []string{}
		if media != "" {
			header = []string{"Content-Type", media}
		}
		response, answer := send(t, tenant.token, strings.ToUpper(method), path, strings.NewReader(body), header...)
		known, ok := operation.Responses[fmt.Sprint(response.StatusCode)]
		if !ok || response.StatusCode >= 500 {
			t.Errorf("%s %s %.100s: %d %.300s", method, path, body, response.StatusCode, answer)
		}
		if media := response.Header.Get("Content-Type"); len(known.Content) > 0 && !slices.Contains(slices.Collect(maps.Keys(known.Content)), strings.Split(media, ";")[0]) {
			t.Errorf("%s %s: %d is %s", method, path, response.StatusCode, media)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(document.Paths[path])) {
			operation := document.Paths[path][method]
			restore()
			fill := strings.NewReplacer("{namespace}", tenant.namespace, "{name}", "echo")
			for _, value := range hostile {
				plain := strings.Trim(value, `"`)
				if escaped := url.PathEscape(plain); len(plain) < 100 && escaped != "" && !strings.HasPrefix(plain, "..") && strings.Contains(path, "{name}") {
					try(operation, method, strings.NewReplacer("{namespace}", tenant.namespace, "{name}", escaped).Replace(path), "", "{}")
				}
				for _, parameter := range operation.Parameters {
					if parameter.In == "query" && parameter.Name != "wait" && parameter.Name != "follow" && len(plain) < 10000 {
						try(operation, method, fill.Replace(path)+"?"+parameter.Name+"="+url.QueryEscape(plain), "", "{}")
					}
				}
			}
			if operation.RequestBody == nil {
				continue
			}
			media := slices.Sorted(maps.Keys(operation.RequestBody.Content))[0]
			for _, value := range append(slices.Clone(hostile), "", "{", "nothing") {
				try(operation, method, fill.Replace(path), media, value)
			}
			schema := map[string]string{"functions": "Function", "triggers": "Trigger", "jobs": "Job"}[strings.Split(path, "/")[4]]
			if schema == "" || !strings.HasSuffix(media, "json") || strings.HasSuffix(path, "/invoke") {
				continue
			}
			for _, field := range slices.Sorted(maps.Keys(document.Components.Schemas[schema].Properties)) {
				for _, value := range hostile {
					try(operation, method, fill.Replace(path), media, fmt.Sprintf(`{%q: %s}`, field, value))
				}
			}
		}
	}
	if requests < 2000 {
		t.Errorf("only %d requests", requests)
	}
}
