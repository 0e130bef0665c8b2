// Package chart makes the Helm chart out of config: the same objects as kustomize makes, with a value in the place of what differs from install
// to install.
package chart

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// programs are the Deployments.
var programs = []string{"operator", "gateway", "apiserver"}

// secrets are the values for names of Secrets, by the names that config has.
var secrets = map[string]string{
	"registry-push": "registryPush", "registry-pull": "registryPull", "object-store": "objectStore", "apiserver-auth": "apiserverAuth", "gateway-tls": "gatewayTLS",
}

// Object is a Kubernetes object.
type Object map[string]any

// Build returns the objects of a kustomization.
func Build(folder string) ([]Object, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, fmt.Errorf("kustomize %s: %w", folder, err)
	}
	var objects []Object
	for _, resource := range built.Resources() {
		object, err := resource.Map()
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// Files returns the files of the chart by their paths in it. root is the repository.
func Files(root string) (map[string][]byte, error) {
	objects, err := Build(filepath.Join(root, "config", "base"))
	if err != nil {
		return nil, err
	}
	values, version, err := makeValues(filepath.Join(root, "config", "default"))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"values.yaml": values,
		"Chart.yaml": fmt.Appendf(nil, `# Made from config by make generate.
apiVersion: v2
name: sless
description: Serverless functions on any Kubernetes
type: application
version: %s
appVersion: %s
kubeVersion: ">=1.33.0-0"
`, strings.TrimPrefix(version, "v"), version),
		"templates/config.yaml": []byte(configTemplate),
	}
	for _, object := range objects {
		path, text, err := template(object)
		if err != nil {
			return nil, err
		}
		files[path] = append(files[path], "---\n"+text...)
	}
	return files, nil
}

const configTemplate = `# The programs read it when they start. What it misses they tell.
apiVersion: v1
kind: ConfigMap
metadata:
  name: sless-config
  namespace: sless-system
data:
  config.yaml: |
{{ toYaml .Values.config | indent 4 }}
`

// makeValues returns values.yaml, whose config is the file of config/default with its comments, and the version.
func makeValues(folder string) (values []byte, version string, err error) {
	config, err := os.ReadFile(filepath.Join(folder, "config.yaml"))
	if err != nil {
		return nil, "", err
	}
	text, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err != nil {
		return nil, "", err
	}
	var kustomization struct {
		Images []struct{ Name, NewName, NewTag, Digest string }
	}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		return nil, "", err
	}
	var out strings.Builder
	out.WriteString("# Made from config/default by make generate.\n\n# The programs of this release, as your registry has them.\nimages:\n")
	for _, image := range kustomization.Images {
		reference := image.NewName + ":" + image.NewTag
		if image.Digest != "" {
			reference = image.NewName + ":" + image.NewTag + "@" + image.Digest
		}
		version = image.NewTag
		fmt.Fprintf(&out, "  %s: %s\n", strings.TrimPrefix(image.Name, "sless/"), reference)
	}
	if version == "" {
		return nil, "", errors.New("config/default/kustomization.yaml has no image with a newTag, which is the version")
	}
	out.WriteString("\nreplicas:\n")
	for _, program := range programs {
		fmt.Fprintf(&out, "  %s: 2\n", program)
	}
	out.WriteString("\n# Further flags of each program.\nargs:\n")
	for _, program := range programs {
		fmt.Fprintf(&out, "  %s: []\n", program)
	}
	out.WriteString("\n# Further environment, such as docs/tracing.md has: a list of {name, value}.\nenv:\n  gateway: []\n")
	out.WriteString("\n# Names of Secrets in sless-system, which the chart does not make.\nsecrets:\n")
	for _, name := range []string{"registry-push", "registry-pull", "object-store", "apiserver-auth", "gateway-tls"} {
		fmt.Fprintf(&out, "  %s: %s\n", secrets[name], name)
	}
	out.WriteString("\nconfig:\n")
	for line := range strings.Lines(string(config)) {
		if line != "\n" {
			out.WriteString("  ")
		}
		out.WriteString(line)
	}
	return []byte(out.String()), version, nil
}

// What stands for a value, and for further arguments and environment of a container, until the object is YAML.
var (
	value   = regexp.MustCompile(`['"]?@@(.*?)@@['"]?`)
	further = regexp.MustCompile(`(?m)^( *)- ['"]?@(args|env) (\w+)@['"]?\n`)
)

// template returns the template of an object and the file that it belongs to.
func template(object Object) (path, text string, err error) {
	kind, _ := object["kind"].(string)
	switch kind {
	case "Deployment":
		parametrise(object)
	case "ServiceAccount":
		if pull, ok := object["imagePullSecrets"].([]any); ok {
			nameSecrets(pull)
		}
	case "Namespace", "CustomResourceDefinition":
		// What they hold is tenants', so it stays when the release goes.
		annotate(object, "helm.sh/resource-policy", "keep")
	}
	made, err := yaml.Marshal(object)
	if err != nil {
		return "", "", err
	}
	text = strings.ReplaceAll(string(made), "{{", `{{ "{{" }}`)
	text = further.ReplaceAllString(text, "$1{{- with .Values.$2.$3 }}\n$1{{- toYaml . | nindent 8 }}\n$1{{- end }}\n")
	text = value.ReplaceAllString(text, "{{ $1 }}")
	return "templates/" + strings.ToLower(kind) + ".yaml", text, nil
}

// parametrise puts values into a Deployment.
func parametrise(object Object) {
	program := at(object, "metadata")["name"].(string)
	spec := at(object, "spec")
	spec["replicas"] = "@@.Values.replicas." + program + "@@"
	annotate(at(spec, "template"), "checksum/config", "@@.Values.config | toYaml | sha256sum@@")
	pod := at(spec, "template", "spec")
	container := pod["containers"].([]any)[0].(map[string]any)
	container["image"] = "@@.Values.images." + program + " | quote@@"
	args, _ := container["args"].([]any)
	container["args"] = append(args, "@args "+program+"@")
	if env, ok := container["env"].([]any); ok {
		container["env"] = append(env, "@env "+program+"@")
	}
	for _, volume := range pod["volumes"].([]any) {
		volume := volume.(map[string]any)
		if secret, ok := volume["secret"].(map[string]any); ok {
			nameSecret(secret, "secretName")
		}
		projected, ok := volume["projected"].(map[string]any)
		if !ok {
			continue
		}
		for _, source := range projected["sources"].([]any) {
			if secret, ok := source.(map[string]any)["secret"].(map[string]any); ok {
				nameSecret(secret, "name")
			}
		}
	}
}

func nameSecrets(references []any) {
	for _, reference := range references {
		nameSecret(reference.(map[string]any), "name")
	}
}

func nameSecret(reference map[string]any, field string) {
	if value := secrets[reference[field].(string)]; value != "" {
		reference[field] = "@@.Values.secrets." + value + "@@"
	}
}

func annotate(object map[string]any, key, value string) {
	metadata := at(object, "metadata")
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[key] = value
}

// at follows fields.
func at(object map[string]any, fields ...string) map[string]any {
	for _, field := range fields {
		object = object[field].(map[string]any)
	}
	return object
}
