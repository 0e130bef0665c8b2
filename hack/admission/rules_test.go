package admission

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/api/v1alpha1"
)

// ruleCase is one spec and what the API server says to it.
type ruleCase struct {
	about string
	// name is metadata.name; empty is "f".
	name string
	// spec is in YAML.
	spec string
	// refusal is part of the message; empty means that the object is let in.
	refusal string
}

// refusals are all messages that some case was refused with.
var refusals struct {
	sync.Mutex
	said []string
}

// testRules gives each case to the API server.
func testRules(t *testing.T, kind string, cases []ruleCase) {
	ns := namespace(t, "rules-")
	for _, c := range cases {
		t.Run(c.about, func(t *testing.T) {
			err := server.client.Create(t.Context(), c.object(t, kind, ns), client.DryRunAll)
			check(t, err, c.refusal)
		})
	}
}

func (c ruleCase) object(t *testing.T, kind, ns string) *unstructured.Unstructured {
	t.Helper()
	spec := map[string]any{}
	if err := yaml.Unmarshal([]byte(c.spec), &spec); err != nil {
		t.Fatalf("the case's own YAML: %v", err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	object.SetNamespace(ns)
	object.SetName("f")
	if c.name != "" {
		object.SetName(c.name)
	}
	return object
}

// check compares an answer with the refusal that is wanted, empty for none.
func check(t *testing.T, err error, refusal string) {
	t.Helper()
	switch {
	case refusal == "" && err != nil:
		t.Errorf("refused: %v", err)
	case refusal != "" && err == nil:
		t.Errorf("let in; want a refusal with %q", refusal)
	case refusal != "" && !apierrors.IsInvalid(err):
		t.Errorf("got another error than of an invalid object: %v", err)
	case refusal != "" && !strings.Contains(err.Error(), refusal):
		t.Errorf("refused with %v; want %q", err, refusal)
	case refusal != "":
		refusals.Lock()
		refusals.said = append(refusals.said, err.Error())
		refusals.Unlock()
	}
}

// TestEveryRuleRefusesSomething holds that no rule of the API is without a case in this package.
func TestEveryRuleRefusesSomething(t *testing.T) {
	t.Run("cases", func(t *testing.T) {
		t.Run("Function", func(t *testing.T) { testRules(t, "Function", functionCases()) })
		t.Run("Trigger", func(t *testing.T) { testRules(t, "Trigger", triggerCases()) })
		t.Run("Trigger's type", testTypeStays)
		t.Run("FunctionJob", func(t *testing.T) { testRules(t, "FunctionJob", functionJobCases()) })
	})
	files, err := filepath.Glob(filepath.Join(root, "config", "crd", "sless.io_*.yaml"))
	if err != nil || len(files) != 3 {
		t.Fatalf("want the files of three kinds, got %v, %v", files, err)
	}
	said := strings.Join(refusals.said, "\n")
	for _, file := range files {
		for _, message := range ruleMessages(t, file) {
			if !strings.Contains(said, message) {
				t.Errorf("%s: no case is refused with %q", filepath.Base(file), message)
			}
		}
	}
}

// ruleMessages lists the messages of all CEL rules in a CRD.
func ruleMessages(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var crd any
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	var messages []string
	var walk func(path string, node any)
	walk = func(path string, node any) {
		switch node := node.(type) {
		case map[string]any:
			if rules, ok := node["x-kubernetes-validations"].([]any); ok {
				for _, rule := range rules {
					message, _ := rule.(map[string]any)["message"].(string)
					if message == "" {
						t.Errorf("%s: a rule at %s has no message", filepath.Base(file), path)
					}
					messages = append(messages, message)
				}
			}
			for key, value := range node {
				walk(path+"."+key, value)
			}
		case []any:
			for i, value := range node {
				walk(fmt.Sprintf("%s[%d]", path, i), value)
			}
		}
	}
	walk("", crd)
	if len(messages) == 0 {
		t.Errorf("%s has no rule", filepath.Base(file))
	}
	return messages
}
