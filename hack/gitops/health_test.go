// Package gitops tests, without a cluster, what config/argocd tells Argo CD of sless.
package gitops

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	luajson "layeh.com/gopher-json"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/api/v1alpha1"
)

// folder is what is tested.
const folder = "../../config/argocd"

// script reads the health check.
func script(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "health.lua"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// health runs the check as Argo CD does: the same engine, with the base and table libraries alone, and the object in the variable obj.
func health(t *testing.T, script string, object any) (status, message string) {
	t.Helper()
	engine := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer engine.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := engine.CallByParam(lua.P{Fn: engine.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	value, err := luajson.Decode(engine, text)
	if err != nil {
		t.Fatal(err)
	}
	engine.SetGlobal("obj", value)
	if err := engine.DoString(script); err != nil {
		t.Fatal(err)
	}
	if text, err = luajson.Encode(engine.Get(-1)); err != nil {
		t.Fatal(err)
	}
	var answer struct{ Status, Message string }
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Status, answer.Message
}

// objects are one of each kind, at generation 3, with this status.
func objects(observed int64, conditions ...metav1.Condition) map[string]any {
	meta := metav1.ObjectMeta{Name: "hello", Namespace: "team-a", Generation: 3}
	kind := func(name string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: name}
	}
	return map[string]any{
		"Function": v1alpha1.Function{TypeMeta: kind("Function"), ObjectMeta: meta,
			Status: v1alpha1.FunctionStatus{ObservedGeneration: observed, Conditions: conditions}},
		"Trigger": v1alpha1.Trigger{TypeMeta: kind("Trigger"), ObjectMeta: meta,
			Status: v1alpha1.TriggerStatus{ObservedGeneration: observed, Conditions: conditions}},
		"FunctionJob": v1alpha1.FunctionJob{TypeMeta: kind("FunctionJob"), ObjectMeta: meta,
			Status: v1alpha1.FunctionJobStatus{ObservedGeneration: observed, Conditions: conditions}},
	}
}

func TestHealth(t *testing.T) {
	check := script(t)
	condition := func(kind, status, reason string, observed int64) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: "what there is to say", ObservedGeneration: observed}
	}
	ready := func(status, reason string, observed int64) metav1.Condition {
		return condition(v1alpha1.Ready, status, reason, observed)
	}
	built, stalled := condition(v1alpha1.Built, "True", v1alpha1.ReasonBuilt, 3), condition(v1alpha1.Stalled, "True", v1alpha1.ReasonBuildFailed, 3)
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       string
		trigger    string // what is said of a Trigger, when that differs
	}{
		"no status":                {nil, "Progressing", ""},
		"another condition alone":  {[]metav1.Condition{built}, "Progressing", ""},
		"old and ready":            {[]metav1.Condition{ready("True", v1alpha1.ReasonReady, 2)}, "Progressing", ""},
		"old and failed":           {[]metav1.Condition{ready("False", v1alpha1.ReasonBuildFailed, 2), stalled}, "Progressing", ""},
		"old and disabled":         {[]metav1.Condition{ready("True", v1alpha1.ReasonDisabled, 2)}, "Progressing", ""},
		"pending":                  {[]metav1.Condition{ready("Unknown", v1alpha1.ReasonPending, 3)}, "Progressing", ""},
		"building":                 {[]metav1.Condition{ready("Unknown", v1alpha1.ReasonBuilding, 3)}, "Progressing", ""},
		"deploying":                {[]metav1.Condition{built, ready("Unknown", v1alpha1.ReasonDeploying, 3)}, "Progressing", ""},
		"registry away":            {[]metav1.Condition{ready("Unknown", v1alpha1.ReasonRegistryUnavailable, 3)}, "Progressing", ""},
		"running":                  {[]metav1.Condition{ready("Unknown", v1alpha1.ReasonRunning, 3)}, "Progressing", ""},
		"ready":                    {[]metav1.Condition{ready("True", v1alpha1.ReasonReady, 3), built}, "Healthy", ""},
		"replicas 0":               {[]metav1.Condition{ready("True", v1alpha1.ReasonScaledToZero, 3)}, "Healthy", ""},
		"succeeded":                {[]metav1.Condition{ready("True", v1alpha1.ReasonSucceeded, 3)}, "Healthy", ""},
		"nothing to run":           {[]metav1.Condition{ready("True", v1alpha1.ReasonSkipped, 3)}, "Healthy", ""},
		"disabled":                 {[]metav1.Condition{ready("True", v1alpha1.ReasonDisabled, 3)}, "Healthy", "Suspended"},
		"build failed":             {[]metav1.Condition{ready("False", v1alpha1.ReasonBuildFailed, 3), stalled}, "Degraded", ""},
		"crashed, the image built": {[]metav1.Condition{built, ready("False", v1alpha1.ReasonCrashed, 3), stalled}, "Degraded", ""},
		"timed out":                {[]metav1.Condition{ready("False", v1alpha1.ReasonTimeout, 3), stalled}, "Degraded", ""},
	} {
		for kind, object := range objects(3, test.conditions...) {
			want := test.want
			if kind == "Trigger" && test.trigger != "" {
				want = test.trigger
			}
			got, message := health(t, check, object)
			if got != want {
				t.Errorf("%s, %s: %s, want %s", kind, name, got, want)
			}
			if message == "" || got == "Degraded" && !strings.Contains(message, "what there is to say") {
				t.Errorf("%s, %s: the message is %q", kind, name, message)
			}
		}
	}
	if got, _ := health(t, check, objects(-1)["Function"]); got != "Progressing" {
		t.Errorf("just made: %s", got)
	}
}

// TestComponent adds the checks to an argocd-cm that has settings of its own.
func TestComponent(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "argocd"), os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"kustomization.yaml": "namespace: argocd\nresources: [argocd-cm.yaml]\ncomponents: [argocd]\n",
		"argocd-cm.yaml":     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm}\ndata: {url: https://argocd.example.org}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), "kustomize", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl kustomize: %v\n%s", err, out)
	}
	var settings corev1.ConfigMap
	if err := yaml.UnmarshalStrict(out, &settings); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if settings.Name != "argocd-cm" || settings.Namespace != "argocd" || settings.Data["url"] == "" || len(settings.Data) != 4 {
		t.Errorf("got\n%s", out)
	}
	for kind := range objects(3) {
		if settings.Data["resource.customizations.health.sless.io_"+kind] != script(t) {
			t.Errorf("no health check for %s", kind)
		}
	}
}
