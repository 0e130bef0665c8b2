// Command configdoc writes docs/configuration.md: every field of the platform's configuration file and every flag of the programs, as
// the sources have them.
package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/naeel/sless/"

const head = `# Configuration

<!-- Made by make generate from the sources. Change those. -->

Everything that can be set: the fields of the platform's configuration file, and the flags of the three programs. [Installing](install.md) shows
a whole file; what each program does with it is on the pages of [the operator](operator.md), [the gateway](gateway.md) and
[the apiserver](apiserver.md).

## config.yaml

One file for operator and apiserver, read at the start. A wrong value keeps a program from starting, and its log names every wrong field
at once. Files that it names are read when they are needed. ` + "`[]`" + ` is a list.

`

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: configdoc REPOSITORY FILE")
		os.Exit(2)
	}
	page, err := write(os.Args[1])
	if err == nil {
		err = os.WriteFile(os.Args[2], []byte(page), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "configdoc:", err)
		os.Exit(1)
	}
}

// write returns the page of the repository at root.
func write(root string) (string, error) {
	programs := []string{"operator", "gateway", "apiserver"}
	var patterns []string
	for _, program := range programs {
		patterns = append(patterns, module+program)
	}
	patterns = append(patterns, module+"operator/internal/config", module+"apiserver/internal/config")
	mode := packages.NeedName | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports
	// This module is outside of the workspace, and is run with GOWORK=off.
	loaded, err := packages.Load(&packages.Config{Mode: mode, Dir: root, Env: append(os.Environ(), "GOWORK=")}, patterns...)
	if err != nil {
		return "", err
	}
	byPath := map[string]*packages.Package{}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return "", p.Errors[0]
		}
		byPath[strings.TrimPrefix(p.PkgPath, module)] = p
	}
	var fields []field
	for _, program := range []string{"operator", "apiserver"} {
		read, err := fieldsOf(byPath[program+"/internal/config"])
		if err != nil {
			return "", fmt.Errorf("configuration of the %s: %w", program, err)
		}
		fields = merge(fields, read, program)
	}
	var page strings.Builder
	page.WriteString(head)
	writeFields(&page, fields)
	for _, program := range programs {
		if err := writeFlags(&page, program, byPath[program]); err != nil {
			return "", fmt.Errorf("flags of the %s: %w", program, err)
		}
	}
	return page.String(), nil
}

// merge adds what a program reads. What others read as well has their description.
func merge(fields, more []field, program string) []field {
	for _, f := range more {
		known := slices.IndexFunc(fields, func(other field) bool { return other.path == f.path })
		if known < 0 {
			fields = append(fields, f)
			known = len(fields) - 1
		}
		fields[known].readers = append(fields[known].readers, program)
	}
	return fields
}

func writeFields(page *strings.Builder, fields []field) {
	// Fields of one section together, in the order of the sources.
	var sections []string
	for _, f := range fields {
		if !slices.Contains(sections, f.section()) {
			sections = append(sections, f.section())
		}
	}
	slices.SortStableFunc(fields, func(a, b field) int {
		return cmp.Compare(slices.Index(sections, a.section()), slices.Index(sections, b.section()))
	})
	page.WriteString("| field | | meaning | read by |\n| --- | --- | --- | --- |\n")
	for _, f := range fields {
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", f.path, f.kind, cell(f.meaning()), strings.Join(f.readers, ", "))
	}
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
