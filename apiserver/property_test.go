package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/ledger/ledgertest"
)

// hostile are values for any field and parameter, as JSON.
var hostile = []string{
	`null`, `true`, `0`, `1`, `-1`, `0.5`, `1e300`, `9007199254740993`, `9223372036854775808`, `""`, `" "`, `"a"`, `"../x"`, `"%00"`, `"\u0000"`, `"ä\ud83d\ude00"`,
	`"9999-99-99"`, `[]`, `["a"]`, `[null]`, `{}`, `{"a": "b"}`, `{"a": null}`, `{"": ""}`, `{"a": {"b": []}}`, `"` + strings.Repeat("x", 70000) + `"`,
}

// prober sends requests to one operation of the document and checks that what comes back is what it says.
type prober struct {
	*testing.T
	tenant    *tenant
	operation *huma.Operation
	requests  int
	// statuses are those that were answered.
	statuses map[int]bool
}

// TestWhateverIsSentHasADocumentedAnswer goes through every operation of the document with every field, parameter and header set to every
// hostile value, and bodies of every kind: there is no 5xx, no answer that the document does not know, every error is a problem, and every
// JSON is of its schema.
func TestWhateverIsSentHasADocumentedAnswer(t *testing.T) {
	tenant := newTenant(t)
	ledgertest.WriteDSN(t, sharedLedger, startLedger(t).DSN(ledgertest.Reader, "sless"))
	t.Cleanup(func() { _ = os.Remove(sharedLedger) })
	requests := 0
	for _, operation := range allOperations() {
		must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Replace(t.Context(), "echo", hello("")))
		must[rest.Stored[rest.Trigger]](t)(tenant.Triggers(tenant.namespace).Replace(t.Context(), "echo", rest.Trigger{Function: "echo", Type: rest.TriggerHTTP}))
		must[rest.Stored[rest.Job]](t)(tenant.Jobs(tenant.namespace).Replace(t.Context(), "echo", rest.Job{Function: "echo"}))
		if operation.OperationID == "get-code" {
			tenant.deploy(t, "echo", "v1")
		}
		p := &prober{T: t, tenant: tenant, operation: operation, statuses: map[int]bool{}}
		p.good()
		p.parameters()
		p.bodies()
		succeeded := slices.ContainsFunc([]int{200, 201, 204}, func(status int) bool { return p.statuses[status] })
		if !succeeded || !p.statuses[404] && operation.OperationID != "upload-source" && !strings.HasPrefix(operation.OperationID, "list") && !strings.HasPrefix(operation.OperationID, "summarize") && !strings.HasPrefix(operation.OperationID, "update") && operation.Method != "POST" {
			t.Errorf("%s was only answered %v: nothing is known of it", operation.OperationID, p.statuses)
		}
		requests += p.requests
	}
	t.Logf("%d operations, %d requests", len(allOperations()), requests)
	if requests < 5000 {
		t.Errorf("only %d requests", requests)
	}
}

// allOperations are those of the document, by path.
func allOperations() []*huma.Operation {
	var all []*huma.Operation
	for _, item := range shared.service.api.OpenAPI().Paths {
		for _, operation := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if operation != nil {
				all = append(all, operation)
			}
		}
	}
	slices.SortFunc(all, func(a, b *huma.Operation) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	return all
}

func (p *prober) path(name string) string {
	return strings.NewReplacer("{namespace}", p.tenant.namespace, "{name}", name).Replace(p.operation.Path)
}

// try sends a request and checks the answer.
func (p *prober) try(path, body string, header ...string) {
	p.Helper()
	p.requests++
	response, answer := send(p.T, p.tenant.token, p.operation.Method, path, strings.NewReader(body), header...)
	p.statuses[response.StatusCode] = true
	about := fmt.Sprintf("%s %.200s %.100s %.100s: %d %.300s", p.operation.Method, path, body, header, response.StatusCode, answer)
	known := p.operation.Responses[fmt.Sprint(response.StatusCode)]
	if known == nil || response.StatusCode >= 500 {
		p.Errorf("not documented: %s", about)
		return
	}
	if len(known.Content) == 0 {
		return
	}
	media, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	content := known.Content[media]
	if content == nil {
		p.Errorf("is %s: %s", media, about)
		return
	}
	if !strings.HasSuffix(media, "json") {
		return
	}
	var value any
	if err := json.Unmarshal([]byte(answer), &value); err != nil {
		p.Errorf("%v: %s", err, about)
		return
	}
	result := &huma.ValidateResult{}
	huma.Validate(shared.service.api.OpenAPI().Components.Schemas, content.Schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, result)
	if len(result.Errors) > 0 {
		p.Errorf("%v: %s", result.Errors, about)
	}
}

// media is the type of the bodies that the operation takes; empty for none.
func (p *prober) media() string {
	if p.operation.RequestBody == nil {
		return ""
	}
	for media := range p.operation.RequestBody.Content {
		return media
	}
	return ""
}

// good is a request that there is nothing to say against.
func (p *prober) good() {
	p.try(p.path("echo"), string(p.goodBody()))
}

func (p *prober) goodBody() []byte {
	switch {
	case p.media() == "":
		return nil
	case p.media() == "application/zip":
		return archiveOf(p.T, map[string]string{"handler.py": "def handle(event): return 1"})
	case p.operation.Method == http.MethodPost && p.operation.OperationID != "invoke":
		body := map[string]any{"name": "another", "function": "echo"}
		switch p.operation.OperationID {
		case "create-trigger":
			body["type"] = "http"
		case "create-function":
			body = map[string]any{"name": "another", "runtime": "python3.11", "source": map[string]any{"inline": map[string]any{"handler.py": ""}}}
		}
		text, _ := json.Marshal(body) // maps of text always encode
		return text
	case p.operation.Method == http.MethodPut:
		return map[string][]byte{
			"update-function": []byte(`{"runtime": "python3.11", "source": {"inline": {"handler.py": ""}}}`),
			"update-trigger":  []byte(`{"function": "echo", "type": "http"}`), "update-job": []byte(`{"function": "echo"}`),
		}[p.operation.OperationID]
	}
	return []byte("{}")
}

// parameters sets every parameter to every value.
func (p *prober) parameters() {
	body := string(p.goodBody())
	for _, value := range hostile {
		plain := strings.Trim(value, `"`)
		escaped := url.PathEscape(plain)
		if len(plain) < 100 && escaped != "" && !strings.HasPrefix(plain, "..") && strings.Contains(p.operation.Path, "{name}") {
			p.try(p.path(escaped), body)
		}
		if len(plain) < 100 && escaped != "" && !strings.HasPrefix(plain, "..") {
			p.try(strings.Replace(p.path("echo"), p.tenant.namespace, escaped, 1), body)
		}
		for _, parameter := range p.operation.Parameters {
			switch {
			case parameter.In == "query" && parameter.Name != "follow" && len(plain) < 10000:
				p.try(p.path("echo")+"?"+parameter.Name+"="+url.QueryEscape(plain), body)
			case parameter.In == "header" && !strings.ContainsAny(plain, "\x00") && len(plain) < 10000:
				p.try(p.path("echo"), body, parameter.Name, plain)
			}
		}
	}
	p.try(p.path("echo")+"?unheard_of=1", body)
}

// bodies sends bodies of every kind.
func (p *prober) bodies() {
	media := p.media()
	if media == "" {
		return
	}
	for _, value := range append(slices.Clone(hostile), "", "{", "nothing", strings.Repeat("[", 20000), strings.Repeat("x", 3<<20)) {
		p.try(p.path("echo"), value, "Content-Type", media)
		p.try(p.path("echo"), value, "Content-Type", "text/plain")
	}
	if media == "application/zip" {
		good := string(p.goodBody())
		for _, archive := range []string{good[:len(good)-1], good[:len(good)/2], good[1:], good + "x", good + good, "PK\x05\x06" + strings.Repeat("\x00", 18), strings.Repeat("PK\x05\x06", 1000)} {
			p.try(p.path("echo"), archive, "Content-Type", media)
		}
		return
	}
	schema := p.operation.RequestBody.Content[media].Schema
	if p.operation.Method == http.MethodPatch {
		schema = shared.service.api.OpenAPI().Paths[p.operation.Path].Put.RequestBody.Content["application/json"].Schema
	}
	for _, at := range fieldsIn(schema, 3) {
		for _, value := range hostile {
			body := bytes.Clone(p.goodBody())
			document := map[string]any{}
			if err := json.Unmarshal(body, &document); err != nil {
				p.Fatal(err)
			}
			if len(at) > 1 {
				delete(document, at[0]) // one source takes the other's place
			}
			set(document, at, json.RawMessage(value))
			text, err := json.Marshal(document)
			if err != nil {
				p.Fatal(err)
			}
			p.try(p.path("echo"), string(text), "Content-Type", media)
		}
	}
}

// fieldsIn are the paths of all fields of a schema, of maps one entry.
func fieldsIn(schema *huma.Schema, depth int) [][]string {
	if schema.Ref != "" {
		schema = shared.service.api.OpenAPI().Components.Schemas.SchemaFromRef(schema.Ref)
	}
	if depth == 0 {
		return nil
	}
	var found [][]string
	below := func(name string, field *huma.Schema) {
		found = append(found, []string{name})
		for _, path := range fieldsIn(field, depth-1) {
			found = append(found, append([]string{name}, path...))
		}
	}
	for name, field := range schema.Properties {
		if !field.ReadOnly {
			below(name, field)
		}
	}
	if values, ok := schema.AdditionalProperties.(*huma.Schema); ok {
		below("A", values)
	}
	slices.SortFunc(found, slices.Compare)
	return found
}

func set(document map[string]any, at []string, value json.RawMessage) {
	if len(at) == 1 {
		document[at[0]] = value
		return
	}
	inner, ok := document[at[0]].(map[string]any)
	if !ok {
		inner = map[string]any{}
		document[at[0]] = inner
	}
	set(inner, at[1:], value)
}
