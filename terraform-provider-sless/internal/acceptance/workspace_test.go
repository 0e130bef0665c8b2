//go:build acceptance

package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naeel/sless/api/rest"
)

const (
	localEndpoint = "http://127.0.0.1:8081"
	// applyPatience is for one run of terraform on a machine that has much else to do.
	applyPatience = 10 * time.Minute
)

var (
	terraform  = os.Getenv("SLESS_TEST_TERRAFORM")
	endpoint   = or(os.Getenv("SLESS_ENDPOINT"), localEndpoint)
	kubectl    string
	cliConfig  string
	moduleRoot string
)

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// TestMain builds the provider once and makes terraform use it.
func TestMain(m *testing.M) {
	code, err := prepared(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func prepared(m *testing.M) (int, error) {
	if terraform == "" || os.Getenv("KUBECONFIG") == "" {
		return 1, fmt.Errorf("set SLESS_TEST_TERRAFORM to a terraform or tofu, and KUBECONFIG to a cluster with sless on it")
	}
	folder, err := os.MkdirTemp("", "sless-acceptance-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(folder)
	if moduleRoot, err = filepath.Abs("../.."); err != nil {
		return 1, err
	}
	kubectl, err = exec.LookPath("kubectl")
	if err != nil {
		kubectl = filepath.Join(moduleRoot, "..", ".dev", "bin", "kubectl")
	}
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(folder, "terraform-provider-sless"), ".")
	build.Dir, build.Env = moduleRoot, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build the provider: %w: %s", err, out)
	}
	cliConfig = filepath.Join(folder, "terraformrc")
	text := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"terra.k8c.ru/naeel/sless\" = %q\n  }\n  direct {}\n}\n", folder)
	if err := os.WriteFile(cliConfig, []byte(text), 0o600); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// workspace is a namespace of its own and a folder in which terraform runs.
type workspace struct {
	t         testing.TB
	folder    string
	namespace string
	token     string
	env       []string // more of it
	plan      string   // the last one
	client    *rest.Client
}

// newWorkspace makes a namespace, with a token that has a tenant's rights in it.
func newWorkspace(t testing.TB) *workspace {
	t.Helper()
	w := &workspace{t: t, folder: t.TempDir(), namespace: "tf-" + strings.ToLower(rand(t))}
	w.kubectl("create", "namespace", w.namespace)
	t.Cleanup(func() { w.kubectl("delete", "namespace", w.namespace, "--wait=false", "--ignore-not-found") })
	w.kubectl("-n", w.namespace, "create", "serviceaccount", "terraform")
	for _, role := range []string{"edit", "sless-deployer", "sless-invoker"} {
		w.kubectl("-n", w.namespace, "create", "rolebinding", role, "--clusterrole="+role, "--serviceaccount="+w.namespace+":terraform")
	}
	w.token = strings.TrimSpace(w.kubectl("-n", w.namespace, "create", "token", "terraform", "--duration=2h"))
	client, err := rest.NewClient(rest.Config{Endpoint: endpoint, Token: w.token})
	if err != nil {
		t.Fatal(err)
	}
	w.client = client
	w.waitForRights()
	w.write("provider.tf", requiredProvider)
	return w
}

// waitForRights waits until the cluster has heard of the roles of the token.
func (w *workspace) waitForRights() {
	w.t.Helper()
	for deadline := time.Now().Add(applyPatience); ; time.Sleep(100 * time.Millisecond) {
		_, err := w.client.Functions(w.namespace).List(context.Background(), rest.ListOptions{})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatal(err)
		}
	}
}

const requiredProvider = "terraform {\n  required_providers {\n    sless = { source = \"terra.k8c.ru/naeel/sless\" }\n  }\n}\n"

func rand(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	if err != nil {
		t.Fatal(err)
	}
	return string(text[:8])
}

// write writes a file of the configuration.
func (w *workspace) write(name, text string) {
	w.t.Helper()
	name = filepath.Join(w.folder, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *workspace) kubectl(args ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), applyPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, kubectl, args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (w *workspace) command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, terraform, args...)
	command.Dir = w.folder
	command.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+cliConfig, "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1", "TF_CLI_ARGS=-no-color",
		"SLESS_ENDPOINT="+endpoint, "SLESS_TOKEN="+w.token, "SLESS_NAMESPACE="+w.namespace)
	command.Env = append(command.Env, w.env...)
	return command
}

// run runs terraform and returns what it printed and its exit code.
func (w *workspace) run(args ...string) (string, int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), applyPatience)
	defer cancel()
	command := w.command(ctx, args...)
	out, err := command.CombinedOutput()
	if err != nil && command.ProcessState == nil {
		w.t.Fatal(err)
	}
	if strings.Contains(string(out), w.token) {
		w.t.Errorf("the token is in the output of terraform %s", args[0])
	}
	return string(out), command.ProcessState.ExitCode()
}

// apply applies, successfully.
func (w *workspace) apply(args ...string) string {
	w.t.Helper()
	out, code := w.run(append([]string{"apply", "-auto-approve"}, args...)...)
	if code != 0 {
		w.t.Fatalf("apply failed:\n%s", out)
	}
	return out
}

// applyFails applies and returns what it printed.
func (w *workspace) applyFails() string {
	w.t.Helper()
	out, code := w.run("apply", "-auto-approve")
	if code == 0 {
		w.t.Fatalf("apply did not fail:\n%s", out)
	}
	return out
}

func (w *workspace) destroy() {
	w.t.Helper()
	if out, code := w.run("destroy", "-auto-approve"); code != 0 {
		w.t.Fatalf("destroy failed:\n%s", out)
	}
}

// wantNoChanges holds that a plan is empty.
func (w *workspace) wantNoChanges() {
	w.t.Helper()
	if out, code := w.run("plan", "-detailed-exitcode"); code != 0 {
		w.t.Errorf("the plan is not empty (exit code %d):\n%s", code, out)
	}
}

// planned returns what a plan would do with each resource, by address: create, update, delete.
func (w *workspace) planned(args ...string) map[string][]string {
	w.t.Helper()
	w.plan = filepath.Join(w.t.TempDir(), "plan")
	if out, code := w.run(append([]string{"plan", "-out=" + w.plan}, args...)...); code != 0 {
		w.t.Fatalf("plan failed:\n%s", out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), applyPatience)
	defer cancel()
	var errors bytes.Buffer
	show := w.command(ctx, "show", "-json", w.plan)
	show.Env = append(show.Env, "TF_CLI_ARGS=")
	show.Stderr = &errors
	out, err := show.Output()
	if err != nil {
		w.t.Fatalf("show: %v: %s", err, &errors)
	}
	var shown struct {
		Changes []struct {
			Address string `json:"address"`
			Change  struct {
				Actions []string `json:"actions"`
			} `json:"change"`
		} `json:"resource_changes"`
	}
	if err := json.Unmarshal(out, &shown); err != nil {
		w.t.Fatal(err)
	}
	actions := map[string][]string{}
	for _, change := range shown.Changes {
		if !slices.Equal(change.Change.Actions, []string{"no-op"}) && !slices.Equal(change.Change.Actions, []string{"read"}) {
			actions[change.Address] = change.Change.Actions
		}
	}
	return actions
}

// wantPlanned holds that a plan does exactly this: address to actions joined by commas.
func (w *workspace) wantPlanned(want map[string]string) {
	w.t.Helper()
	got := map[string]string{}
	for address, actions := range w.planned() {
		got[address] = strings.Join(actions, ",")
	}
	if !maps.Equal(got, want) {
		w.t.Errorf("the plan does %v, want %v", got, want)
	}
}

// applyPlanned applies the plan that was looked at last.
func (w *workspace) applyPlanned() {
	w.t.Helper()
	if out, code := w.run("apply", w.plan); code != 0 {
		w.t.Fatalf("apply failed:\n%s", out)
	}
}

// attributes are those of a resource in the state.
func (w *workspace) attributes(address string) map[string]any {
	w.t.Helper()
	for _, resource := range w.resources() {
		if resource.Type+"."+resource.Name == address {
			return resource.Instances[0].Attributes
		}
	}
	w.t.Fatalf("%s is not in the state", address)
	return nil
}

type resourceState struct {
	Type      string `json:"type"`
	Name      string `json:"name"`
	Instances []struct {
		Status     string         `json:"status"`
		Attributes map[string]any `json:"attributes"`
	} `json:"instances"`
}

func (w *workspace) resources() []resourceState {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.folder, "terraform.tfstate"))
	if os.IsNotExist(err) {
		return nil
	}
	var state struct {
		Resources []resourceState `json:"resources"`
	}
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return state.Resources
}

// function asks the API.
func (w *workspace) function(name string) *rest.Function {
	w.t.Helper()
	stored, err := w.client.Functions(w.namespace).Get(context.Background(), name, rest.Fresh())
	if err != nil {
		w.t.Fatal(err)
	}
	return &stored.Object
}

// call calls the function as JSON.
func (w *workspace) call(name, event string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	result, err := w.client.Invoke(ctx, w.namespace, name, []byte(event))
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(string(result))
}

// during starts an apply, acts once ready says so, and returns what the apply printed and how it ended.
func (w *workspace) during(ready func() bool, act func(apply int) error) (string, error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), applyPatience)
	defer cancel()
	var out bytes.Buffer
	command := w.command(ctx, "apply", "-auto-approve")
	command.Stdout, command.Stderr = &out, &out
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a shell does, so that only these get signals
	if err := command.Start(); err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for !ready() {
		select {
		case err := <-ended:
			w.t.Fatalf("the apply ended too soon: %v\n%s", err, &out)
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err := act(command.Process.Pid); err != nil {
		w.t.Fatal(err)
	}
	err := <-ended
	return out.String(), err
}

// exists says whether the API has an object.
func exists[T any](objects rest.Resource[T], name string) func() bool {
	return func() bool {
		_, err := objects.Get(context.Background(), name, rest.Fresh())
		return err == nil
	}
}
