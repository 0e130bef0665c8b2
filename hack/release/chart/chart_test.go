package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// root is the repository's.
const root = "../../.."

// helm renders the chart that is committed, with values over its own.
func helm(t *testing.T, values string) map[string]Object {
	t.Helper()
	loaded, err := loader.LoadDir(filepath.Join(root, "config", "helm", "sless"))
	if err != nil {
		t.Fatal(err)
	}
	var given map[string]any
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(loaded, given, common.ReleaseOptions{Name: "sless", Namespace: "sless-system"}, common.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Engine{Strict: true}.Render(loaded, all)
	if err != nil {
		t.Fatal(err)
	}
	var objects []Object
	for name, text := range files {
		for document := range strings.SplitSeq("\n"+text, "\n---\n") {
			var object Object
			if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, document)
			}
			if object != nil {
				objects = append(objects, object)
			}
		}
	}
	return byName(t, objects)
}

// kustomize builds config/default, with more lines for its kustomization and another config.yaml if there is one.
func kustomize(t *testing.T, more, config string) map[string]Object {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "config"))); err != nil {
		t.Fatal(err)
	}
	if config != "" {
		if err := os.WriteFile(filepath.Join(dir, "default", "config.yaml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay := "resources: [../default]\n" + more
	if err := os.Mkdir(filepath.Join(dir, "overlay"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay", "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := Build(filepath.Join(dir, "overlay"))
	if err != nil {
		t.Fatal(err)
	}
	return byName(t, objects)
}

// byName sorts objects by what they are, without what Helm and kustomize do each in its own way: the one says that a configuration has changed
// by an annotation, the other by its name; and Helm is told what to leave behind.
func byName(t *testing.T, objects []Object) map[string]Object {
	t.Helper()
	sorted := map[string]Object{}
	hashed := ""
	for _, object := range objects {
		if name := at(object, "metadata")["name"].(string); object["kind"] == "ConfigMap" && strings.HasPrefix(name, "sless-config") {
			hashed = name
		}
	}
	for _, object := range objects {
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		var plain Object
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(text), hashed, "sless-config")), &plain); err != nil {
			t.Fatal(err)
		}
		metadata := at(plain, "metadata")
		name := fmt.Sprint(plain["kind"], " ", metadata["namespace"], "/", metadata["name"])
		dropAnnotation(plain, "helm.sh/resource-policy")
		switch plain["kind"] {
		case "Deployment":
			dropAnnotation(at(plain, "spec", "template"), "checksum/config")
		case "ConfigMap":
			var config any
			if err := yaml.Unmarshal([]byte(at(plain, "data")["config.yaml"].(string)), &config); err != nil {
				t.Fatal(err)
			}
			plain["data"] = config
		}
		if sorted[name] != nil {
			t.Fatalf("%s is there twice", name)
		}
		sorted[name] = plain
	}
	return sorted
}

func dropAnnotation(object map[string]any, key string) {
	metadata := at(object, "metadata")
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		delete(annotations, key)
		if len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
}

func TestChartMakesWhatKustomizeMakes(t *testing.T) {
	const config = "externalURL: https://functions.example.org\nregistry: {host: registry.example.org}\nobjectStore: {endpoint: 'https://s3.example.org', bucket: '{{ b }}'}\n"
	for name, test := range map[string]struct{ kustomization, config, values string }{
		"as they are": {},
		"changed": {
			kustomization: `
replicas: [{name: operator, count: 3}, {name: gateway, count: 4}, {name: apiserver, count: 5}]
images: [{name: registry.example.org/sless/operator, newName: r.example.org/o, digest: "sha256:00"}]
patches:
- target: {kind: Deployment, name: gateway}
  patch: |
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --trusted-proxies=10.0.0.0/8}
    - {op: add, path: /spec/template/spec/containers/0/env/-, value: {name: OTEL_TRACES_SAMPLER, value: always_off}}
- target: {kind: ServiceAccount}
  patch: |
    - {op: replace, path: /imagePullSecrets/0/name, value: pull}
- target: {kind: Deployment, name: operator}
  patch: |
    - {op: replace, path: /spec/template/spec/volumes/0/projected/sources/2/secret/name, value: pull}
- target: {kind: Deployment, name: apiserver}
  patch: |
    - {op: replace, path: /spec/template/spec/volumes/0/projected/sources/1/secret/name, value: pull}
`,
			config: config,
			values: `
replicas: {operator: 3, gateway: 4, apiserver: 5}
images: {operator: "r.example.org/o@sha256:00"}
args: {gateway: [--trusted-proxies=10.0.0.0/8]}
env: {gateway: [{name: OTEL_TRACES_SAMPLER, value: always_off}]}
secrets: {registryPull: pull}
config:
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			values := test.values
			for line := range strings.Lines(test.config) {
				values += "  " + line
			}
			if test.config != "" {
				// Helm lays values over those of the chart; what is not wanted is taken out by null.
				values += "  domain: null\n  apiserver: null\n  runtimes: null\n  build: null\n"
				values = strings.Replace(values, "registry: {host: registry.example.org}", "registry: {host: registry.example.org, repository: null}", 1)
				values = strings.Replace(values, "bucket: '{{ b }}'}", "bucket: '{{ b }}', region: null}", 1)
			}
			got, want := helm(t, values), kustomize(t, test.kustomization, test.config)
			if len(want) < 30 {
				t.Fatalf("kustomize makes only %d objects", len(want))
			}
			for name := range want {
				if diff := cmp.Diff(want[name], got[name]); diff != "" {
					t.Errorf("%s (-kustomize +helm):\n%s", name, diff)
				}
			}
			for name := range got {
				if want[name] == nil {
					t.Errorf("%s is made by the chart alone", name)
				}
			}
		})
	}
}

// Another configuration restarts the programs.
func TestChecksumFollowsTheConfiguration(t *testing.T) {
	loaded, err := loader.LoadDir(filepath.Join(root, "config", "helm", "sless"))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]bool{}
	for _, domain := range []string{"a.example.org", "b.example.org"} {
		all, err := util.ToRenderValues(loaded, map[string]any{"config": map[string]any{"domain": domain}}, common.ReleaseOptions{Name: "sless"}, common.DefaultCapabilities)
		if err != nil {
			t.Fatal(err)
		}
		files, err := engine.Engine{Strict: true}.Render(loaded, all)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(files["sless/templates/deployment.yaml"]) {
			if strings.Contains(line, "checksum/config") {
				sums[line] = true
			}
		}
	}
	if len(sums) != 2 {
		t.Errorf("got the checksums %v", sums)
	}
}

// Of each program there are two, on different nodes if there are any, of which nobody evicts both; of the operators one works.
func TestTwoOfEach(t *testing.T) {
	objects := kustomize(t, "", "")
	for _, program := range programs {
		spec := at(objects["Deployment sless-system/"+program], "spec")
		budget := at(objects["PodDisruptionBudget sless-system/"+program], "spec")
		spread, _ := at(spec, "template", "spec")["topologySpreadConstraints"].([]any)
		if fmt.Sprint(spec["replicas"]) != "2" || fmt.Sprint(budget["maxUnavailable"]) != "1" || len(spread) != 1 {
			t.Errorf("%s: %v replicas, disruption budget %v, spread %v", program, spec["replicas"], budget, spread)
			continue
		}
		if spread := spread[0].(map[string]any); spread["topologyKey"] != "kubernetes.io/hostname" || fmt.Sprint(spread["maxSkew"]) != "1" {
			t.Errorf("%s: spread %v", program, spread)
		}
		labels := at(spec, "selector", "matchLabels")
		for name, selector := range map[string]map[string]any{"disruption budget": at(budget, "selector", "matchLabels"), "spread": at(spread[0].(map[string]any), "labelSelector", "matchLabels")} {
			if diff := cmp.Diff(labels, selector); diff != "" {
				t.Errorf("%s: the %s selects others: %s", program, name, diff)
			}
		}
	}
	container := at(objects["Deployment sless-system/operator"], "spec", "template", "spec")["containers"].([]any)[0].(map[string]any)
	if !slices.Contains(container["args"].([]any), any("--leader-elect")) {
		t.Error("operators do not elect a leader")
	}
}
