package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// field is one that can be set, so not a section.
type field struct {
	path, kind, name, doc string
	required              bool
	readers               []string
}

func (f field) section() string {
	section, _, _ := strings.Cut(f.path, ".")
	return strings.TrimSuffix(section, "[]")
}

// goName matches a field's name as comments in Go have it, when it is two words or more; and a kind's.
var goName = regexp.MustCompile(`\b(?:[A-Z][a-z]+){2,}\b`)

// meaning is the comment, without the name that it begins with.
func (f field) meaning() string {
	text := strings.TrimPrefix(f.doc, f.name+" ")
	for _, verb := range []string{"is ", "are "} {
		text = strings.TrimPrefix(text, verb)
	}
	text = goName.ReplaceAllStringFunc(strings.TrimSuffix(text, "."), func(name string) string {
		if name == "ConfigMap" {
			return name
		}
		return "`" + strings.ToLower(name[:1]) + name[1:] + "`"
	})
	if f.required && !strings.Contains(text, "Required") {
		text += ". Required"
	}
	return text
}

// fieldsOf lists what can be set in a package's type Config.
func fieldsOf(p *packages.Package) ([]field, error) {
	structs := map[string]*ast.StructType{}
	for _, file := range p.Syntax {
		ast.Inspect(file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					structs[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	w := walker{p, structs, nil}
	err := w.walk("Config", "")
	return w.found, err
}

type walker struct {
	*packages.Package
	structs map[string]*ast.StructType
	found   []field
}

func (w *walker) walk(name, prefix string) error {
	for _, f := range w.structs[name].Fields.List {
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return err
		}
		jsonName, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		of := w.TypesInfo.TypeOf(f.Type)
		path, list := prefix+jsonName, ""
		if slice, ok := of.Underlying().(*types.Slice); ok && !isRaw(of) {
			of, list = slice.Elem(), "[]"
		}
		named, isNamed := of.(*types.Named)
		switch {
		case isRaw(of):
			// Another program's section.
		case len(f.Names) == 0: // inlined
			err = w.walk(named.Obj().Name(), prefix)
		case isNamed && w.structs[named.Obj().Name()] != nil && named.Obj().Pkg() == w.Types:
			err = w.walk(named.Obj().Name(), path+list+".")
		case f.Doc == nil || len(f.Names) != 1:
			err = fmt.Errorf("%s has no comment", path)
		default:
			kind := types.TypeString(of, func(*types.Package) string { return "" })
			w.found = append(w.found, field{
				path: path + list, kind: kinds[kind], name: f.Names[0].Name, doc: strings.Join(strings.Fields(f.Doc.Text()), " "),
				required: !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero"),
			})
			if kinds[kind] == "" {
				err = fmt.Errorf("%s has the type %s, which is not foreseen", path, kind)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// kinds are the types of values as the reader of a YAML file knows them.
var kinds = map[string]string{
	"*ResourceQuotaSpec": "spec of a ResourceQuota",
	"*LimitRangeSpec":    "spec of a LimitRange",
	"string":             "text", "Prefix": "text", "bool": "yes or no", "int": "number", "int32": "number", "int64": "number", "float64": "number",
}

func isRaw(t types.Type) bool {
	named, ok := t.(*types.Named)
	return ok && named.Obj().Name() == "RawMessage"
}
