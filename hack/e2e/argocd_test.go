package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// root is the repository's.
const root = "../.."

// application is what the tests read of an Argo CD Application.
type application struct {
	Metadata metav1.ObjectMeta
	Status   struct {
		Sync           struct{ Status, Revision string }
		Health         struct{ Status string }
		OperationState struct{ Phase, Message string }
		History        []struct{ Revision string }
		Resources      []struct {
			Group, Version, Kind, Namespace, Name string
			Health                                struct{ Status, Message string }
		}
	}
}

// health is that of one object of the Application.
func (a application) health(kind, name string) string {
	for _, resource := range a.Status.Resources {
		if resource.Kind == kind && resource.Name == name {
			return resource.Health.Status
		}
	}
	return ""
}

func argoObject(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("argoproj.io/v1alpha1")
	object.SetKind("Application")
	object.SetNamespace("argocd")
	object.SetName(name)
	return object
}

func readApplication(t *testing.T, name string) (application, error) {
	t.Helper()
	object, app := argoObject(name), application{}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		return app, err
	}
	return app, decode(object, &app)
}

func decode(object *unstructured.Unstructured, app *application) error {
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, app)
}

// waitApplication waits until check has nothing to complain of, and returns the Application.
func waitApplication(t *testing.T, name, what string, check func(application) error) application {
	t.Helper()
	var app application
	eventually(t, fmt.Sprintf("Application %s: %s", name, what), func() (err error) {
		if app, err = readApplication(t, name); err != nil {
			return err
		}
		if err := check(app); err != nil {
			return fmt.Errorf("%w; it is %+v", err, app.Status)
		}
		return nil
	})
	return app
}

// refresh has Argo CD read Git now, as a webhook would.
func refresh(t *testing.T, name string) {
	t.Helper()
	const annotation = "argocd.argoproj.io/refresh"
	kubectl(t, "", "annotate", "application", name, "-n", "argocd", "--overwrite", annotation+"=hard")
	waitApplication(t, name, "is refreshed", func(a application) error {
		if a.Metadata.Annotations[annotation] != "" {
			return fmt.Errorf("not yet")
		}
		return nil
	})
}

// at complains of an Application that is not at the commit with this health.
func at(revision, health string) func(application) error {
	return func(a application) error {
		s := a.Status
		if s.Sync.Status != "Synced" || s.Sync.Revision != revision || s.OperationState.Phase != "Succeeded" || s.Health.Status != health {
			return fmt.Errorf("want %s, Synced to %s", health, revision)
		}
		return nil
	}
}

// forgetApplication removes it and its namespace at the end, whatever became of the test.
func forgetApplication(t *testing.T, name, namespace string) {
	t.Cleanup(func() {
		if t.Failed() {
			show(t, namespace)
			for _, args := range [][]string{
				{"get", "application", name, "-n", "argocd", "-o", "yaml"}, {"get", "pods", "-n", "argocd"},
				{"logs", "-n", "argocd", "statefulset/argocd-application-controller", "--tail=60"},
				{"logs", "-n", "argocd", "deployment/argocd-repo-server", "--tail=20"},
			} {
				out, _ := exec.Command("kubectl", args...).CombinedOutput()
				t.Logf("kubectl %s\n%s", strings.Join(args, " "), out)
			}
		}
		ctx := context.Background()
		_ = kube.Patch(ctx, argoObject(name), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		_ = kube.Delete(ctx, argoObject(name))
		if namespace != names.SystemNamespace {
			_ = kube.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		}
	})
}

// release gives up, at the end, what Argo CD owns of the objects of sless itself, so that the next install alone says what they are.
func release(t *testing.T) {
	t.Cleanup(func() {
		object, app := argoObject("sless"), application{}
		if kube.Get(context.Background(), client.ObjectKeyFromObject(object), object) != nil || decode(object, &app) != nil {
			return // it was never made
		}
		for _, r := range app.Status.Resources {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind})
			err := kube.Get(context.Background(), clientKey(r.Namespace, r.Name), object)
			if err == nil {
				before := object.DeepCopy()
				object.SetManagedFields(slices.DeleteFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
					return entry.Manager == "argocd-controller"
				}))
				err = kube.Patch(context.Background(), object, client.MergeFrom(before))
			}
			if err != nil {
				t.Errorf("give up what Argo CD owns of %s %s: %v", r.Kind, r.Name, err)
			}
		}
	})
}

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// commandsOfPage are the command blocks of docs/gitops.md. The first tells Argo CD of health.
func commandsOfPage(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "gitops.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, block := range shellBlock.FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, block[1])
	}
	if len(blocks) < 4 {
		t.Fatalf("the page has %d blocks", len(blocks))
	}
	return blocks
}

// shell runs a block of commands in a folder.
func shell(t *testing.T, dir, commands string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-e", "-u", "-o", "pipefail", "-c", commands)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s%s", err, commands, out)
	}
}

// TestArgoCDPage does what docs/gitops.md says, with repositories of its own in place of the addresses there, and then lives with it.
func TestArgoCDPage(t *testing.T) {
	t.Parallel()
	dir, namespace := t.TempDir(), "e2e-argocd-page"
	team, platform := newGitRepository(t, open), newGitRepository(t, open)
	forgetApplication(t, namespace, namespace)
	forgetApplication(t, "sless", names.SystemNamespace)
	release(t)
	// Healing and pruning sless itself would undo what else is done to this cluster.
	adapt := strings.NewReplacer(
		"https://git.example.org/team-a.git", team.url, "https://git.example.org/platform.git", platform.url,
		"team-a", namespace, "automated:\n      prune: true\n      selfHeal: true\n    syncOptions:", "automated: {}\n    syncOptions:")
	copyAdapted(t, filepath.Join(root, "config"), filepath.Join(dir, "config"), adapt)
	copyAdapted(t, filepath.Join(root, "config", "argocd", "team"), team.dir, adapt)
	copyInstall(t, platform)
	first := team.commit("functions")
	platform.commit("sless")

	before := revisions(t)
	for _, block := range commandsOfPage(t) {
		shell(t, dir, adapt.Replace(block))
	}
	if after := revisions(t); after != before {
		t.Errorf("Argo CD has changed the install that was there:\n%s\nis now\n%s", before, after)
	}
	if kept := kubectl(t, "", "get", "crd", "functions.sless.io", "-o", "jsonpath={.metadata.annotations}"); !strings.Contains(kept, "Prune=false") {
		t.Errorf("the kind could be pruned: %s", kept)
	}
	app := waitApplication(t, namespace, "is at the first commit", at(first, "Healthy"))
	for _, name := range []string{"greet", "report"} {
		mustCall(t, "GET", namespace, name, "", "", 200)
	}

	t.Run("nothing to do", func(t *testing.T) {
		versions := func() string {
			return kubectl(t, "", "get", "functions,triggers,functionjobs", "-n", namespace, "-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.generation}{"\n"}{end}`)
		}
		was := versions()
		refresh(t, namespace)
		refresh(t, namespace)
		again := waitApplication(t, namespace, "is still at the first commit", at(first, "Healthy"))
		if now := versions(); now != was || len(again.Status.History) != len(app.Status.History) {
			t.Errorf("%d syncs, then %d;\n%s\nthen\n%s", len(app.Status.History), len(again.Status.History), was, now)
		}
	})
	t.Run("self-heal", func(t *testing.T) {
		patch(t, namespace, "function", "greet", `{"source": {"inline": {"handler.py": "def handle(event):\n    return 'by hand'\n"}}, "replicas": 2}`)
		kubectl(t, "", "delete", "trigger", "report", "-n", namespace)
		eventually(t, "what Git says is put back", func() error {
			f := &v1alpha1.Function{}
			if err := get(t, namespace, "greet", f); err != nil {
				return err
			}
			if code := string(f.Spec.Source.Inline["handler.py"]); strings.Contains(code, "by hand") {
				return fmt.Errorf("the code is\n%s", code)
			}
			return get(t, namespace, "report", &v1alpha1.Trigger{})
		})
		waitApplication(t, namespace, "is healed", at(first, "Healthy"))
		f := &v1alpha1.Function{}
		if err := get(t, namespace, "greet", f); err != nil || f.Spec.Replicas == nil || *f.Spec.Replicas != 2 {
			t.Errorf("replicas, of which Git says nothing, are not left alone: %v, %v", f.Spec.Replicas, err)
		}
	})
	t.Run("disabled and enabled", func(t *testing.T) {
		manifest, err := os.ReadFile(filepath.Join(team.dir, "functions", "triggers.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		team.write("functions/triggers.yaml", strings.ReplaceAll(string(manifest), "type: http", "type: http\n  enabled: false"))
		off := team.commit("disable")
		refresh(t, namespace)
		app := waitApplication(t, namespace, "is suspended", at(off, "Suspended"))
		if trigger, function := app.health("Trigger", "greet"), app.health("Function", "greet"); trigger != "Suspended" || function != "Healthy" {
			t.Errorf("the Trigger is %s, the Function %s", trigger, function)
		}
		team.write("functions/triggers.yaml", string(manifest))
		on := team.commit("enable")
		refresh(t, namespace)
		waitApplication(t, namespace, "is enabled again", at(on, "Healthy"))
		mustCall(t, "GET", namespace, "greet", "", "", 200)
	})
	t.Run("prune", func(t *testing.T) {
		team.git("rm", "--quiet", "functions/report.yaml", "functions/check.yaml")
		pruned := team.commit("no report any more")
		refresh(t, namespace)
		gone(t, namespace, "report", &v1alpha1.Function{})
		gone(t, namespace, "check", &v1alpha1.FunctionJob{})
		// The Trigger that is left has lost its Function.
		app := waitApplication(t, namespace, "says what is wrong", at(pruned, "Degraded"))
		if got := app.health("Trigger", "report"); got != "Degraded" {
			t.Errorf("the Trigger is %s", got)
		}
	})
	kubectl(t, "", "delete", "application", namespace, "-n", "argocd", "--timeout="+patience.String())
	gone(t, namespace, "greet", &v1alpha1.Function{})
}

// TestArgoCDBuilds holds that Argo CD waits while a Function builds, goes on when it is Ready, takes it for failed only when nothing helps
// but a change, and can delete it at any time.
func TestArgoCDBuilds(t *testing.T) {
	t.Parallel()
	namespace := "e2e-argocd-builds"
	manifests := newGitRepository(t, open)
	shut := &barrier{open: make(chan struct{})}
	code := newGitRepository(t, shut.wrap)
	code.write("other.py", says("nothing"))
	code.commit("no handler")
	forgetApplication(t, namespace, namespace)
	shell(t, root, commandsOfPage(t)[0])
	source := func(name, hash string, wave int) string {
		return fmt.Sprintf("apiVersion: sless.io/v1alpha1\nkind: Function\nmetadata: {name: %s, annotations: {argocd.argoproj.io/sync-wave: %q}}\n"+
			"spec: {runtime: python3.11, source: {git: {url: %s, ref: main}}, codeHash: %q}\n", name, fmt.Sprint(wave), code.url, hash)
	}
	manifests.write("functions/slow.yaml", source("slow", "1", 0))
	manifests.write("functions/after.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: after, annotations: {argocd.argoproj.io/sync-wave: \"1\"}}\n")
	manifests.commit("bad")
	text, err := os.ReadFile(filepath.Join(root, "config", "argocd", "functions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, strings.NewReplacer("https://git.example.org/team-a.git", manifests.url, "team-a", namespace).Replace(string(text)), "apply", "-f", "-")

	notBefore := func() {
		t.Helper()
		if err := get(t, namespace, "after", &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
			t.Fatalf("the next wave has begun: %v", err)
		}
	}
	waitApplication(t, namespace, "waits for the Function", func(a application) error {
		if a.Status.Health.Status == "Degraded" {
			t.Fatalf("Degraded while it builds: %+v", a.Status)
		}
		if !strings.Contains(a.Status.OperationState.Message, "waiting for healthy state of sless.io/Function/slow") || a.health("Function", "slow") != "Progressing" {
			return fmt.Errorf("does not wait yet")
		}
		return nil
	})
	notBefore()
	shut.lift()
	waitFunction(t, namespace, "slow", "False", v1alpha1.ReasonSourceInvalid)
	waitApplication(t, namespace, "has failed", func(a application) error {
		if a.Status.Health.Status != "Degraded" || a.health("Function", "slow") != "Degraded" {
			return fmt.Errorf("not Degraded")
		}
		return nil
	})
	notBefore()

	code.write("handler.py", says("mended"))
	code.commit("a handler")
	manifests.write("functions/slow.yaml", source("slow", "2", 0))
	good := manifests.commit("good")
	refresh(t, namespace)
	waitApplication(t, namespace, "is mended", at(good, "Healthy"))
	f, after := waitFunction(t, namespace, "slow", "True", v1alpha1.ReasonReady), &corev1.ConfigMap{}
	ready, _ := condition(f.Status.Conditions, f.Generation)
	if err := get(t, namespace, "after", after); err != nil || after.CreationTimestamp.Before(&ready.LastTransitionTime) {
		t.Errorf("the next wave began at %s, the Function is Ready since %s: %v", after.CreationTimestamp, ready.LastTransitionTime, err)
	}

	shut.drop()
	defer shut.lift()
	manifests.write("functions/endless.yaml", source("endless", "1", 1))
	endless := manifests.commit("endless")
	refresh(t, namespace)
	waitFunction(t, namespace, "endless", "Unknown", v1alpha1.ReasonBuilding)
	waitApplication(t, namespace, "builds", at(endless, "Progressing"))
	manifests.git("rm", "--quiet", "functions/endless.yaml")
	without := manifests.commit("none")
	refresh(t, namespace)
	gone(t, namespace, "endless", &v1alpha1.Function{})
	waitApplication(t, namespace, "is without it", at(without, "Healthy"))
}

// barrier holds back requests while it is down.
type barrier struct {
	mu   sync.Mutex
	open chan struct{} // closed while requests pass
}

func (b *barrier) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		open := b.open
		b.mu.Unlock()
		select {
		case <-open:
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
}

func (b *barrier) lift() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.open)
}

func (b *barrier) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = make(chan struct{})
}

// copyAdapted copies a folder's files with replacements in their text.
func copyAdapted(t *testing.T, from, to string, adapt *strings.Replacer) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, []byte(adapt.Replace(string(text))), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// copyInstall puts the overlay that runs on the cluster into a repository, without the Secrets, which have no place in Git: that of make up, or the one
// that SLESS_TEST_OVERLAY names.
func copyInstall(t *testing.T, to *gitRepository) {
	t.Helper()
	tree := root
	if path := os.Getenv("SLESS_REPO"); path != "" {
		tree = path
	}
	copyAdapted(t, filepath.Join(tree, "config"), filepath.Join(to.dir, "config"), strings.NewReplacer())
	overlay := filepath.Join(tree, ".dev", "install")
	if path := os.Getenv("SLESS_TEST_OVERLAY"); path != "" {
		overlay = path
	}
	text, err := os.ReadFile(filepath.Join(overlay, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var kustomization map[string]any
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		t.Fatal(err)
	}
	delete(kustomization, "secretGenerator")
	resources, _ := kustomization["resources"].([]any)
	// No file of the overlay's own either: to Argo CD an Ingress is Progressing until it has an address, which it never gets here.
	kustomization["resources"] = slices.DeleteFunc(resources, func(path any) bool { return !strings.HasPrefix(fmt.Sprint(path), "../") })
	if text, err = yaml.Marshal(kustomization); err != nil {
		t.Fatal(err)
	}
	to.write("sless/kustomization.yaml", strings.ReplaceAll(string(text), "../../config", "../config"))
	files, err := filepath.Glob(filepath.Join(overlay, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := filepath.Base(file); name != "kustomization.yaml" && strings.Contains(string(text), name) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			to.write("sless/"+name, string(content))
		}
	}
}

// revisions are those of the Deployments of sless, which a change of their pods raises, and how many pods each wants.
func revisions(t *testing.T) string {
	t.Helper()
	deployments := &appsv1.DeploymentList{}
	if err := kube.List(t.Context(), deployments, client.InNamespace(names.SystemNamespace)); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, d := range deployments.Items {
		lines = append(lines, fmt.Sprint(d.Name, " ", d.Annotations["deployment.kubernetes.io/revision"], ", ", *d.Spec.Replicas, " pods"))
	}
	return strings.Join(lines, "\n")
}
