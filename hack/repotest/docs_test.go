package repotest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

var (
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code   = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	header = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
	notID  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinksLeadSomewhere follows every link between pages of the repository, to the heading.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range files(t, "*.md") {
		text := code.ReplaceAllString(string(read(t, page)), "")
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, err := url.Parse(match[1])
			if err != nil || target.Scheme != "" {
				continue
			}
			file := page
			if target.Path != "" {
				file = filepath.Join(filepath.Dir(page), target.Path)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s: link to %s: %v", page, match[1], err)
				continue
			}
			if target.Fragment != "" && !headings(t, file)[target.Fragment] {
				t.Errorf("%s: link to %s: no such heading", page, match[1])
			}
		}
	}
}

// headings returns the fragments by which a page's headings are linked to.
func headings(t *testing.T, page string) map[string]bool {
	t.Helper()
	ids := map[string]bool{}
	for _, match := range header.FindAllStringSubmatch(string(read(t, page)), -1) {
		id := notID.ReplaceAllString(strings.ToLower(match[1]), "")
		ids[strings.ReplaceAll(id, " ", "-")] = true
	}
	return ids
}

// TestReasonsAreExplained holds that every reason of a condition stands in the page of some kind.
func TestReasonsAreExplained(t *testing.T) {
	var pages string
	for _, page := range files(t, "docs/*.md") {
		pages += string(read(t, page))
	}
	reasons := constants(t, "api/v1alpha1/conditions.go", "Reason")
	if len(reasons) < 20 {
		t.Fatalf("found only the reasons %v", reasons)
	}
	for _, reason := range reasons {
		if !strings.Contains(pages, "`"+reason+"`") {
			t.Errorf("no page of docs explains the reason %s", reason)
		}
	}
}

// TestFieldsAreExplained holds that every field of a kind, and of the configuration, stands in its page.
func TestFieldsAreExplained(t *testing.T) {
	for page, source := range map[string]string{
		"docs/function.md":    "api/v1alpha1/function_types.go",
		"docs/trigger.md":     "api/v1alpha1/trigger_types.go",
		"docs/functionjob.md": "api/v1alpha1/functionjob_types.go",
		"docs/operator.md":    "operator/internal/config/config.go",
	} {
		text := string(read(t, page))
		names := jsonNames(t, source)
		if len(names) < 8 {
			t.Fatalf("%s: found only the fields %v", source, names)
		}
		for _, name := range names {
			if !regexp.MustCompile(`\b` + name + `\b`).MatchString(text) {
				t.Errorf("%s does not speak of %s", page, name)
			}
		}
	}
}

// TestLimitsAreExplained holds that the row of a field in its kind's page has the default, the bounds and the values that the API has.
func TestLimitsAreExplained(t *testing.T) {
	checked := 0
	for page, file := range map[string]string{
		"docs/function.md": "functions", "docs/trigger.md": "triggers", "docs/functionjob.md": "functionjobs",
	} {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(read(t, "config/crd/sless.io_"+file+".yaml"), &crd); err != nil {
			t.Fatal(err)
		}
		text := string(read(t, page))
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		limits(spec, "", func(field string, wanted []string) {
			name := regexp.QuoteMeta(field)
			if last := field[strings.LastIndexByte(field, '.')+1:]; last != field {
				name = "(?:" + name + "|" + regexp.QuoteMeta(last) + ")"
			}
			rows := regexp.MustCompile("(?m)^\\|[^|\n]*`"+name+"`[^|\n]*\\|.*$").FindAllString(text, -1)
			for _, want := range wanted {
				word := regexp.MustCompile(`(?:^|[^\w.])` + regexp.QuoteMeta(want) + `(?:$|[^\w])`)
				if checked++; !slices.ContainsFunc(rows, word.MatchString) {
					t.Errorf("%s: no row of %s has %s", page, field, want)
				}
			}
		})
	}
	if checked < 20 {
		t.Errorf("checked %d values", checked)
	}
}

// limits calls for every field below a schema that has a default, bounds or an enumeration, with these as a page would have them.
func limits(schema apiextensionsv1.JSONSchemaProps, prefix string, found func(field string, wanted []string)) {
	for name, field := range schema.Properties {
		var wanted []string
		if field.Default != nil {
			wanted = append(wanted, strings.Trim(string(field.Default.Raw), `"`))
		}
		for _, bound := range []*float64{field.Minimum, field.Maximum} {
			if bound != nil && *bound < math.MaxInt32 {
				wanted = append(wanted, strconv.FormatInt(int64(*bound), 10))
			}
		}
		for _, value := range field.Enum {
			wanted = append(wanted, strings.Trim(string(value.Raw), `"`))
		}
		if len(wanted) > 0 {
			found(prefix+name, wanted)
		}
		limits(field, prefix+name+".", found)
		if field.Items != nil && field.Items.Schema != nil {
			limits(*field.Items.Schema, prefix+name+".", found)
		}
	}
}

// TestMetricsAreExplained holds that the pages speak of every metric, and of none that is not there.
func TestMetricsAreExplained(t *testing.T) {
	metric := regexp.MustCompile(`\bsless_(?:gateway|apiserver|operator|functions)[a-z_]*\b`)
	there := map[string]bool{}
	for _, module := range []string{"operator", "gateway", "apiserver"} {
		for _, file := range files(t, module+"/*.go") {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, name := range metric.FindAllString(string(read(t, file)), -1) {
				there[name] = true
			}
		}
	}
	told := map[string]bool{}
	for _, page := range files(t, "docs/*.md") {
		for _, name := range metric.FindAllString(string(read(t, page)), -1) {
			if told[name] = true; !there[name] {
				t.Errorf("%s speaks of the metric %s, which nothing has", page, name)
			}
		}
	}
	for name := range there {
		if !told[name] {
			t.Errorf("no page speaks of the metric %s", name)
		}
	}
	if len(there) < 10 {
		t.Errorf("found the metrics %v", there)
	}
}

// constants returns the values of a file's text constants whose names begin with prefix.
func constants(t *testing.T, file, prefix string) []string {
	t.Helper()
	var values []string
	ast.Inspect(declarations(t, file), func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) != 1 {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return true
	})
	return values
}

// jsonNames returns the names that the fields of a file's structs have in JSON, but those that every kind has.
func jsonNames(t *testing.T, file string) []string {
	t.Helper()
	common := map[string]bool{
		"": true, "metadata": true, "items": true, "spec": true, "status": true, "phase": true, "conditions": true, "observedGeneration": true,
	}
	var found []string
	ast.Inspect(declarations(t, file), func(node ast.Node) bool {
		field, ok := node.(*ast.Field)
		if !ok || field.Tag == nil {
			return true
		}
		tag, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			t.Fatal(err)
		}
		if name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ","); !common[name] {
			found = append(found, name)
		}
		return true
	})
	return found
}

func declarations(t *testing.T, file string) *ast.File {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
