package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

// repository is the root of the work tree.
var repository = filepath.Join("..", "..")

// notRun are the blocks of commands that are not run here, by one of their lines, and why.
var notRun = map[string]string{
	"make up        # a real Kubernetes on this machine, with sless and three sample functions on it": "made the cluster that the tests run on",
	"export GOFLAGS=-trimpath CGO_ENABLED=0":                                                          "the first step of make test",
	"terraform import sless_function.hello demo/hello":                                                "TestImport of the provider's acceptance tests does it",
	"kubectl apply --server-side -k config/default":                                                   "TestInstallOfTheInstallPage in hack/admission applies it to an API server",
	`kubectl -n sless-system create secret generic object-store --from-literal=accessKeyID="$ACCESS_KEY_ID" --from-literal=secretAccessKey="$SECRET_ACCESS_KEY"`: "TestInstallOfTheInstallPage in hack/admission makes them",
	`eval "$(bin/cluster settings)"`: "hack/production.sh begins with it; here and in TestOwnClusterOfTheREADME the test sets the variables",
	"mkdir -p production":            "hack/production.sh runs them on a bare cluster, TestOwnClusterOfTheREADME in hack/admission against an API server",
	"helm install sless config/helm/sless -n sless-system --create-namespace --take-ownership -f values.yaml": "hack/production.sh runs it; TestChartMakesWhatKustomizeMakes in hack/release/chart holds it to the kustomization",
	"kubectl delete -k config/default": "ends sless for everybody; hack/production.sh runs it, and TestUninstallInAnyOrder in operator removes it from an API server",
	`kubectl delete namespaces -l app.kubernetes.io/managed-by=sless --ignore-not-found --wait=false`: "ends every function; TestUninstallInAnyOrder in operator does it",
	"mkdir -p ~/.terraform.d/plugins/terra.k8c.ru/naeel/sless":                                        "TestClosedNetwork in hack/release/provider does it",
	"kubectl create secret tls gateway-tls -n sless-system --cert=tls.crt --key=tls.key":              "bin/cluster makes the Secret, and TestHTTPSAtTheGateway needs it",
}

// elsewhere are pages that another test runs, and how many blocks it finds there: TestPage of the provider's acceptance tests, TestArgoCDPage.
var elsewhere = map[string]int{"docs/terraform.md": 4, "docs/gitops.md": 4}

// benchmarks is the page whose commands make bench runs: they take long, and change the page.
const benchmarks = "docs/performance.md"

// page is what a page's commands need beforehand, and what they are given.
type page struct {
	// tenants are the namespaces that the page speaks of. The test has its own in their place; the first is the one that kubectl uses by itself.
	tenants []string
	// prepare is applied to the first before the commands run.
	prepare string
	// made says that the commands make the namespaces.
	made bool
	// env is what the reader is told to set.
	env func(t *testing.T, namespace string) []string
}

var pages = map[string]page{
	"README.md":           {env: settingsOfREADME, tenants: []string{"default"}},
	"docs/function.md":    {tenants: []string{"default"}, prepare: python("hello", "def handle(event):\n    return 'hello'\n", "codeHash: v2"), env: secretsOfFunctionPage},
	"docs/functionjob.md": {tenants: []string{"default"}, prepare: python("hello", "def handle(event):\n    return {'sum': 6}\n") + "---\n" + job("migrate", "hello", "runID: 1")},
	"docs/trigger.md": {tenants: []string{"default"}, prepare: python("hello", "def handle(event):\n    return 'hello'\n") + httpTrigger("hello") +
		cronTrigger("night", "hello", `{schedule: "30 2 * * *"}`)},
	"docs/operator.md":   {tenants: []string{"shop"}, prepare: python("hello", "def handle(event):\n    return 'hello'\n")},
	"docs/apiserver.md":  {tenants: []string{"shop"}},
	"docs/install.md":    {tenants: []string{"team-a"}, made: true},
	"docs/operations.md": {tenants: []string{"shop"}, prepare: python("hello", "def handle(event):\n    return 'hello'\n") + httpTrigger("hello")},
	"docs/rest.md":       {tenants: []string{"default"}, env: tokenOfRESTPage},
}

// settingsOfREADME are those of bin/cluster settings that the commands need once sless is installed.
func settingsOfREADME(t *testing.T, _ string) []string {
	e := atTheGateway(t)
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, secret(t, "gateway-tls")["ca.crt"], 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"CA_CERT=" + authority, "EXTERNAL_URL=https://" + strings.Replace(e.address, "127.0.0.1", "localhost", 1), "API_URL=" + apiserver()}
}

func secretsOfFunctionPage(*testing.T, string) []string { return []string{"TOKEN=s3cr3t"} }

func tokenOfRESTPage(t *testing.T, namespace string) []string {
	token := programToken(t, namespace, "sless-deployer", "sless-invoker")
	waitForRights(t, namespace, token)
	return []string{"SLESS=" + apiserver(), "NAMESPACE=" + namespace, "TOKEN=" + token}
}

// TestEveryCommandOfThePagesWorks runs the blocks of commands of README.md and docs/*.md from top to bottom, each page in an empty folder
// and namespaces of its own. A block that is not run stands in notRun.
func TestEveryCommandOfThePagesWorks(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for block := range notRun {
		left[block] = true
	}
	ran := 0
	for _, file := range append(files, filepath.Join(repository, "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(repository, file)
		if err != nil {
			t.Fatal(err)
		}
		script, others := "", 0
		for _, commands := range blocks(string(text)) {
			listed := slices.IndexFunc(strings.Split(commands, "\n"), func(line string) bool { return notRun[line] != "" })
			switch {
			case listed >= 0:
				delete(left, strings.Split(commands, "\n")[listed])
			case elsewhere[name] > 0:
				others++
			case name == benchmarks:
			case beyond.MatchString(commands):
				t.Errorf("%s has a block that would reach beyond a test's namespace; list it in notRun, or let it name one:\n%s", name, commands)
			default:
				script += commands
				ran++
			}
		}
		if others != elsewhere[name] {
			t.Errorf("%s has %d blocks of commands, of which another test runs %d", name, others, elsewhere[name])
		}
		if script != "" {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				pages[name].run(t, string(text), script)
			})
		}
	}
	if len(left) > 0 {
		t.Errorf("listed as not run, and on no page: %v", left)
	}
	if ran < 20 {
		t.Errorf("found %d blocks of commands", ran)
	}
}

// beyond matches commands that a test must not run, because they change what belongs to others.
var beyond = regexp.MustCompile(`kubectl (?:-\S+ )*(?:delete|patch|scale|drain|cordon|replace)\b.*(?:\s-A\b|--all-namespaces|\s-k\b|\bnamespaces? (?:--all|-l)|\bcrds?\b|\$namespace)|-n sless-\S+ (?:delete|patch|scale|rollout restart)`)

var (
	block = regexp.MustCompile("(?ms)^```(sh|console|bash|shell)\n(.*?)^```$")
	// file matches a YAML block with the name under which the text before it says to save it.
	file = regexp.MustCompile("(?ms)`([a-z.-]+\\.yaml)`:\n\n```yaml\n(.*?)^```$")
)

// blocks returns a page's blocks of commands. Of one that shows answers too, a console's, they are the lines behind a $.
func blocks(text string) []string {
	var found []string
	for _, match := range block.FindAllStringSubmatch(text, -1) {
		commands := match[2]
		if match[1] == "console" {
			commands = ""
			for line := range strings.Lines(match[2]) {
				if typed, ok := strings.CutPrefix(line, "$ "); ok {
					commands += typed
				}
			}
		}
		found = append(found, commands)
	}
	return found
}

// run runs a page's commands as a reader would.
func (p page) run(t *testing.T, text, script string) {
	dir, namespace := t.TempDir(), ""
	script = "set -eu\n" + script
	for _, tenant := range p.tenants {
		mine := newNamespace(t)
		if namespace == "" {
			namespace = mine
		}
		if p.made {
			if err := kube.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: mine}}); err != nil {
				t.Fatal(err)
			}
			gone(t, "", mine, &corev1.Namespace{})
		}
		script = regexp.MustCompile(`\b`+tenant+`\b`).ReplaceAllString(script, mine)
	}
	// Nobody waits in a page for what is there before.
	if p.prepare != "" {
		apply(t, namespace, p.prepare)
		waitFunction(t, namespace, "hello", "True", v1alpha1.ReasonReady)
	}
	for _, match := range file.FindAllStringSubmatch(text, -1) {
		if err := os.WriteFile(filepath.Join(dir, match[1]), []byte(match[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(dir, ".dev")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{"bin", "public"} {
		target, err := filepath.Abs(filepath.Join(repository, ".dev", link))
		if err == nil {
			err = os.Symlink(target, filepath.Join(home, link))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := filepath.Join(home, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(kubectl(t, "", "config", "view", "--raw", "--flatten")), 0o600); err != nil {
		t.Fatal(err)
	}
	if namespace != "" {
		kubectl(t, "", "--kubeconfig", kubeconfig, "config", "set-context", "--current", "--namespace="+namespace)
	}
	replacing.RLock()
	defer replacing.RUnlock()
	command := exec.CommandContext(t.Context(), "bash", "-x", "-c", script)
	command.Dir = dir
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	if p.env != nil {
		command.Env = append(command.Env, p.env(t, namespace)...)
	}
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, hideToken(string(out), command.Env))
	}
}

// hideToken takes a token out of what a failed page has printed.
func hideToken(out string, env []string) string {
	for _, pair := range env {
		if token, ok := strings.CutPrefix(pair, "TOKEN="); ok {
			out = strings.ReplaceAll(out, token, "TOKEN")
		}
	}
	return out
}
