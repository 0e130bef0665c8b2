package admission

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
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

// TestOverlayOfTheInstallPage builds the overlay that the page shows, and looks for what its Deployments mount.
func TestOverlayOfTheInstallPage(t *testing.T) {
	page := filepath.Join(root, "docs", "install.md")
	overlay, config := blocks(t, page, "# kustomization.yaml"), blocks(t, page, "# config.yaml")
	if len(overlay) != 1 || len(config) != 1 {
		t.Fatalf("the page has %d overlays and %d configurations", len(overlay), len(config))
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "sless", "config"), os.DirFS(filepath.Join(root, "config"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "overlay"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"kustomization.yaml": strings.ReplaceAll(overlay[0], "sha256:…", "sha256:"+strings.Repeat("0", 64)),
		"config.yaml":        config[0], "push.json": "{}", "pull.json": "{}", "accessKeyID": "a", "secretAccessKey": "b",
	} {
		if err := os.WriteFile(filepath.Join(dir, "overlay", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := kubectl(nil, "kustomize", filepath.Join(dir, "overlay"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubectl(out, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-"); err != nil {
		t.Error(err)
	}
	checkMounts(t, string(out))
}

// checkMounts holds that every Secret and ConfigMap that a Deployment needs is among the objects.
func checkMounts(t *testing.T, objects string) {
	t.Helper()
	there := map[string]bool{}
	var deployments []appsv1.Deployment
	for document := range strings.SplitSeq(objects, "\n---\n") {
		var object metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		there[object.Kind+" "+object.Namespace+"/"+object.Name] = true
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
				kind, name, _ := strings.Cut(needed, " ")
				mounts++
				if !there[kind+" "+deployment.Namespace+"/"+name] {
					t.Errorf("Deployment %s mounts %s, which the overlay does not make", deployment.Name, needed)
				}
			}
		}
	}
	if mounts < 4 {
		t.Errorf("the Deployments mount %d objects", mounts)
	}
}

// neededBy lists what a projected volume can't do without.
func neededBy(volume corev1.Volume) []string {
	if volume.Projected == nil {
		return nil
	}
	var needed []string
	for _, source := range volume.Projected.Sources {
		if config := source.ConfigMap; config != nil && (config.Optional == nil || !*config.Optional) {
			needed = append(needed, "ConfigMap "+config.Name)
		}
		if secret := source.Secret; secret != nil && (secret.Optional == nil || !*secret.Optional) {
			needed = append(needed, "Secret "+secret.Name)
		}
	}
	return needed
}
