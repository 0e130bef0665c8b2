package main

import (
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/apiserver/internal/server"
)

var update = flag.Bool("update", false, "write openapi.json anew")

func TestTheDocumentIsTheOneThatIsCommitted(t *testing.T) {
	document, err := server.Document(shared.service.api)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("openapi.json", document, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(committed), string(document)); diff != "" {
		t.Errorf("run the test with -update and look at the change:\n%s", diff)
	}
	response, served := send(t, "", "GET", "/v1/openapi.json", nil)
	if response.StatusCode != 200 || served != string(document) {
		t.Errorf("served: %d, %d bytes", response.StatusCode, len(served))
	}
}

func TestTheDocumentCoversEveryOperation(t *testing.T) {
	var document struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]struct {
			OperationID string                     `json:"operationId"`
			RequestBody json.RawMessage            `json:"requestBody"`
			Responses   map[string]json.RawMessage `json:"responses"`
		} `json:"paths"`
	}
	_, served := send(t, "", "GET", "/v1/openapi.json", nil)
	if err := json.Unmarshal([]byte(served), &document); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(document.OpenAPI, "3.1") {
		t.Errorf("OpenAPI %s", document.OpenAPI)
	}
	for _, operation := range everyOperation("{namespace}") {
		method, path := strings.ToLower(operation[0]), strings.Replace(operation[1], "/hello", "/{name}", 1)
		found, ok := document.Paths[path][method]
		if !ok {
			t.Errorf("%s %s is not in the document", method, path)
			continue
		}
		if hasBody := method == "put" || method == "post" || method == "patch"; hasBody != (found.RequestBody != nil) {
			t.Errorf("%s: body %s", found.OperationID, found.RequestBody)
		}
		for _, status := range []string{"401", "403", "429", "503"} {
			if found.Responses[status] == nil {
				t.Errorf("%s has no answer %s", found.OperationID, status)
			}
		}
	}
}

func TestThePageForPeopleNeedsNothingFromElsewhere(t *testing.T) {
	response, page := send(t, "", "GET", "/v1/docs", nil)
	if response.StatusCode != 200 || !strings.Contains(page, "put-code") || !strings.Contains(page, "memory_mb") {
		t.Errorf("%d: %.200s", response.StatusCode, page)
	}
	if found := regexp.MustCompile(`(?i)(src|href)="?(https?:)?//|<script|@import|url\(`).FindString(page); found != "" {
		t.Errorf("the page has %q", found)
	}
	if !strings.HasPrefix(response.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Error("no policy")
	}
}
