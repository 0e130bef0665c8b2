package server

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

const (
	openAPIPath = "/v1/openapi.json"
	docsPath    = "/v1/docs"
)

//go:embed docs.html
var docsHTML string

// Document returns the OpenAPI document of an API.
func Document(api huma.API) ([]byte, error) {
	compact, err := json.Marshal(api.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("encode OpenAPI document: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, compact, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// ServeDocs adds the OpenAPI document and a page that shows it to people. Neither needs a token: they tell nothing about anybody.
func ServeDocs(mux *http.ServeMux, api huma.API) error {
	document, err := Document(api)
	if err != nil {
		return err
	}
	page, err := docsPage(api.OpenAPI())
	if err != nil {
		return err
	}
	serve := func(media string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			_, _ = w.Write(body) // the caller is gone if this fails
		}
	}
	mux.HandleFunc("GET "+openAPIPath, serve("application/openapi+json", document))
	mux.HandleFunc("GET "+docsPath, serve("text/html; charset=utf-8", page))
	return nil
}

// docsPage renders the document as one page without scripts.
func docsPage(document *huma.OpenAPI) ([]byte, error) {
	functions := template.FuncMap{
		"type": func(schema *huma.Schema) template.HTML { return typeLink(schema) },
		"keys": func(responses map[string]*huma.Response) []string { return slices.Sorted(maps.Keys(responses)) },
		"media": func(body *huma.RequestBody) string {
			return strings.Join(slices.Sorted(maps.Keys(body.Content)), ", ")
		},
	}
	page, err := template.New("docs").Funcs(functions).Parse(docsHTML)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = page.Execute(&out, map[string]any{
		"Info": document.Info, "Operations": operations(document), "Schemas": document.Components.Schemas.Map(),
	})
	return out.Bytes(), err
}

// operations lists all of them by path.
func operations(document *huma.OpenAPI) []*huma.Operation {
	var all []*huma.Operation
	for _, route := range slices.Sorted(maps.Keys(document.Paths)) {
		item := document.Paths[route]
		for _, operation := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if operation != nil {
				all = append(all, operation)
			}
		}
	}
	return all
}

// typeLink is a schema in a few words, linked to its own section if it has one.
func typeLink(schema *huma.Schema) template.HTML {
	switch {
	case schema == nil:
		return ""
	case schema.Ref != "":
		name := template.HTMLEscapeString(schema.Ref[strings.LastIndex(schema.Ref, "/")+1:])
		return template.HTML(`<a href="#` + name + `">` + name + `</a>`)
	case schema.Type == huma.TypeArray:
		return "list of " + typeLink(schema.Items)
	}
	if values, ok := schema.AdditionalProperties.(*huma.Schema); ok {
		return "map of " + typeLink(values)
	}
	return template.HTML(template.HTMLEscapeString(schema.Type))
}
