package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
)

// function is a manifest of a Function with these files and further lines of its spec, indented by two spaces.
func function(name, runtime string, files map[string]string, more ...string) string {
	inline, _ := json.Marshal(files)
	manifest := fmt.Sprintf("apiVersion: sless.io/v1alpha1\nkind: Function\nmetadata: {name: %s}\nspec:\n  runtime: %s\n  source: {inline: %s}\n", name, runtime, inline)
	for _, line := range more {
		manifest += "  " + line + "\n"
	}
	return manifest
}

// python is a Function of one file, handler.py.
func python(name, code string, more ...string) string {
	return function(name, "python3.11", map[string]string{"handler.py": code}, more...)
}

// node is a Function of one file, handler.js.
func node(name, code string, more ...string) string {
	return function(name, "nodejs20", map[string]string{"handler.js": code}, more...)
}

// httpTrigger is a manifest of a Trigger of the same name as its Function.
func httpTrigger(name string) string {
	return httpTriggerFor(name, name, "enabled: true")
}

// httpTriggerFor is a manifest of an http Trigger with one more line of its spec.
func httpTriggerFor(name, functionName, more string) string {
	return fmt.Sprintf("---\napiVersion: sless.io/v1alpha1\nkind: Trigger\nmetadata: {name: %s}\nspec:\n  functionRef: {name: %s}\n  type: http\n  %s\n", name, functionName, more)
}

// cronTrigger is a manifest of a cron Trigger with this block in flow style.
func cronTrigger(name, functionName, cron string) string {
	return fmt.Sprintf("---\napiVersion: sless.io/v1alpha1\nkind: Trigger\nmetadata: {name: %s}\nspec:\n  functionRef: {name: %s}\n  type: cron\n  cron: %s\n", name, functionName, cron)
}

// job is a manifest of a FunctionJob with further fields of its spec in flow style.
func job(name, functionName, more string) string {
	return fmt.Sprintf("apiVersion: sless.io/v1alpha1\nkind: FunctionJob\nmetadata: {name: %s}\nspec: {functionRef: {name: %s}, %s}\n", name, functionName, more)
}

// patch merge-patches an object's spec with this JSON.
func patch(t *testing.T, namespace, kind, name, spec string) {
	t.Helper()
	kubectl(t, "", "patch", kind, name, "-n", namespace, "--type=merge", "-p", `{"spec":`+spec+`}`)
}
