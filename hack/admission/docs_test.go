package admission

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/api/names"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// blocks returns the YAML blocks of a page that begin with a text.
func blocks(t *testing.T, page, beginning string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, match := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(match[1], beginning) {
			found = append(found, match[1])
		}
	}
	return found
}

// TestExamplesOfThePages holds that what a page shows is let in as it stands.
func TestExamplesOfThePages(t *testing.T) {
	ns := namespace(t, "pages-")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		for _, example := range blocks(t, page, "apiVersion: sless.io") {
			examples++
			if _, err := kubectl([]byte(example), "apply", "--namespace="+ns, "--dry-run=server", "--validate=strict", "-f", "-"); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if examples < 2 {
		t.Errorf("found %d examples", examples)
	}
}

// TestInstallOfTheInstallPage applies config/default and makes the Secrets as the page says, and looks for what the Deployments mount.
func TestInstallOfTheInstallPage(t *testing.T) {
	objects, err := kubectl(nil, "kustomize", filepath.Join(root, "config", "default"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubectl(objects, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-"); err != nil {
		t.Error(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := strings.Join(regexp.MustCompile("(?m)^kubectl .* create secret .*$").FindAllString(string(page), -1), "\n")
	create := exec.Command("bash", "-e", "-c", strings.ReplaceAll(commands, "kubectl ", server.kubectl+" --dry-run=client -o yaml ")+"\n")
	for _, variable := range regexp.MustCompile(`\$([A-Z_]+)`).FindAllStringSubmatch(commands, -1) {
		create.Env = append(create.Env, variable[1]+"=given")
	}
	made, err := create.Output()
	if err != nil {
		t.Fatalf("%s: %v", commands, err)
	}
	checkMounts(t, string(objects)+"\n---\n"+strings.ReplaceAll(string(made), "apiVersion:", "---\napiVersion:"))
}

// optional are what an install may do without.
var optional = []string{"ConfigMap sless-ca", "Secret apiserver-auth"}

// checkMounts holds that every key of a Secret or ConfigMap that a Deployment mounts is among the objects.
func checkMounts(t *testing.T, objects string) {
	t.Helper()
	there := map[string]bool{}
	var deployments []appsv1.Deployment
	for document := range strings.SplitSeq(objects, "---\n") {
		var object struct {
			metav1.PartialObjectMetadata `json:",inline"`
			Data                         map[string]string
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v: %s", err, document)
		}
		for key := range object.Data {
			there[object.Kind+" "+object.Name+" "+key] = object.Namespace == names.SystemNamespace
		}
		if object.Kind == "Deployment" {
			var deployment appsv1.Deployment
			if err := yaml.Unmarshal([]byte(document), &deployment); err != nil {
				t.Fatal(err)
			}
			deployments = append(deployments, deployment)
		}
	}
	mounts := 0
	for _, deployment := range deployments {
		for _, volume := range deployment.Spec.Template.Spec.Volumes {
			for _, needed := range neededBy(volume) {
				mounts++
				if !there[needed] {
					t.Errorf("Deployment %s mounts %s, which nobody makes", deployment.Name, needed)
				}
			}
		}
	}
	if mounts < 9 {
		t.Errorf("the Deployments mount %d keys", mounts)
	}
}

// neededBy lists the kind, name and key of all that a volume can't do without.
func neededBy(volume corev1.Volume) []string {
	sources := []corev1.VolumeProjection{}
	if volume.Projected != nil {
		sources = volume.Projected.Sources
	}
	if config := volume.ConfigMap; config != nil {
		sources = append(sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: config.LocalObjectReference, Items: config.Items}})
	}
	var needed []string
	for _, source := range sources {
		from, items := "", []corev1.KeyToPath{}
		if config := source.ConfigMap; config != nil {
			from, items = "ConfigMap "+config.Name, config.Items
		}
		if secret := source.Secret; secret != nil {
			from, items = "Secret "+secret.Name, secret.Items
		}
		for _, item := range items {
			if !slices.Contains(optional, from) {
				needed = append(needed, from+" "+item.Key)
			}
		}
	}
	return needed
}
