package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/naeel/sless/terraform-provider-sless/internal/provider"
)

// pages returns the reference pages by file name, made of the schema as Terraform gets it and of the examples in a folder: those of a
// resource in resources/TYPE, and so on.
func pages(ctx context.Context, examples string) (map[string]string, error) {
	server, err := providerserver.NewProtocol6WithError(provider.New("docs")())()
	if err != nil {
		return nil, err
	}
	schema, err := server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		return nil, err
	}
	for _, diagnostic := range schema.Diagnostics {
		return nil, fmt.Errorf("%s: %s", diagnostic.Summary, diagnostic.Detail)
	}
	writer := pageWriter{examples: examples, pages: map[string]string{}}
	writer.add("index.md", "sless provider", "provider", schema.Provider, "")
	for name, resource := range schema.ResourceSchemas {
		writer.add("resources/"+short(name)+".md", name+" (resource)", "resources/"+name, resource,
			"## Import\n\n```shell\nterraform import "+name+".example namespace/name\n```\n")
	}
	for name, source := range schema.DataSourceSchemas {
		writer.add("data-sources/"+short(name)+".md", name+" (data source)", "data-sources/"+name, source, "")
	}
	for name, action := range schema.ActionSchemas {
		writer.add("actions/"+short(name)+".md", name+" (action)", "actions/"+name, action.Schema, "")
	}
	for name, function := range schema.Functions {
		writer.addFunction(name, function)
	}
	return writer.pages, writer.err
}

func short(name string) string { return strings.TrimPrefix(name, "sless_") }

type pageWriter struct {
	examples string
	pages    map[string]string
	err      error
}

// example is the text of the .tf files of a folder; none when there is no such folder.
func (w *pageWriter) example(folder string) string {
	names, err := filepath.Glob(filepath.Join(w.examples, folder, "*.tf"))
	if err != nil {
		w.err = err
	}
	var text strings.Builder
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.err = err
		}
		fmt.Fprintf(&text, "```terraform\n%s```\n\n", content)
	}
	if text.Len() == 0 {
		return ""
	}
	return "## Example\n\n" + text.String()
}

func (w *pageWriter) add(file, title, examples string, schema *tfprotov6.Schema, more string) {
	var page strings.Builder
	fmt.Fprintf(&page, "# %s\n\n%s\n\n%s", title, schema.Block.Description, w.example(examples))
	writeAttributes(&page, "##", schema.Block.Attributes)
	for _, block := range schema.Block.BlockTypes {
		fmt.Fprintf(&page, "## Block `%s`\n\n", block.TypeName)
		writeList(&page, block.Block.Attributes)
	}
	page.WriteString(more)
	w.pages[file] = strings.TrimRight(page.String(), "\n") + "\n"
}

// writeAttributes writes what the user must set, may set and gets, and then what nested attributes have.
func writeAttributes(page *strings.Builder, level string, attributes []*tfprotov6.SchemaAttribute) {
	groups := []struct {
		title string
		has   func(*tfprotov6.SchemaAttribute) bool
	}{
		{"Required", func(a *tfprotov6.SchemaAttribute) bool { return a.Required }},
		{"Optional", func(a *tfprotov6.SchemaAttribute) bool { return a.Optional }},
		{"Read-only", func(a *tfprotov6.SchemaAttribute) bool { return a.Computed && !a.Optional }},
	}
	for _, group := range groups {
		var members []*tfprotov6.SchemaAttribute
		for _, attribute := range attributes {
			if group.has(attribute) {
				members = append(members, attribute)
			}
		}
		if len(members) > 0 {
			fmt.Fprintf(page, "%s %s\n\n", level, group.title)
			writeList(page, members)
		}
	}
	for _, attribute := range attributes {
		if attribute.NestedType != nil {
			fmt.Fprintf(page, "## Attributes of `%s`\n\n", attribute.Name)
			writeAttributes(page, "###", attribute.NestedType.Attributes)
		}
	}
}

func writeList(page *strings.Builder, attributes []*tfprotov6.SchemaAttribute) {
	for _, attribute := range attributes {
		notes := typeName(attribute)
		if attribute.Sensitive {
			notes += ", sensitive"
		}
		if attribute.WriteOnly {
			notes += ", write-only"
		}
		fmt.Fprintf(page, "- `%s` (%s) %s\n", attribute.Name, notes, attribute.Description)
	}
	page.WriteString("\n")
}

func typeName(attribute *tfprotov6.SchemaAttribute) string {
	if nested := attribute.NestedType; nested != nil {
		switch nested.Nesting {
		case tfprotov6.SchemaObjectNestingModeList:
			return "list of objects"
		case tfprotov6.SchemaObjectNestingModeMap:
			return "map of objects"
		}
		return "object"
	}
	return typeText(attribute.Type)
}

func typeText(of tftypes.Type) string {
	switch of := of.(type) {
	case tftypes.List:
		return "list of " + typeText(of.ElementType)
	case tftypes.Set:
		return "set of " + typeText(of.ElementType)
	case tftypes.Map:
		return "map of " + typeText(of.ElementType)
	}
	for name, known := range map[string]tftypes.Type{"string": tftypes.String, "number": tftypes.Number, "bool": tftypes.Bool} {
		if of.Is(known) {
			return name
		}
	}
	return "object"
}

func (w *pageWriter) addFunction(name string, function *tfprotov6.Function) {
	var page, arguments strings.Builder
	parameters := slices.Clone(function.Parameters)
	names := make([]string, 0, len(parameters)+1)
	for _, parameter := range parameters {
		names = append(names, parameter.Name)
		fmt.Fprintf(&arguments, "- `%s` (%s) %s\n", parameter.Name, typeText(parameter.Type), parameter.Description)
	}
	if variadic := function.VariadicParameter; variadic != nil {
		names = append(names, variadic.Name+"...")
		fmt.Fprintf(&arguments, "- `%s` (any number, %s) %s\n", variadic.Name, typeText(variadic.Type), variadic.Description)
	}
	fmt.Fprintf(&page, "# %s (function)\n\n%s\n\n%s## Signature\n\n```text\nprovider::sless::%s(%s)\n```\n\n%s",
		name, function.Description, w.example("functions/"+name), name, strings.Join(names, ", "), arguments.String())
	w.pages["functions/"+name+".md"] = page.String()
}
