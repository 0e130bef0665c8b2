package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// asOperator is the variable with which the test's own program is the operator: that of one process can't be started twice.
const asOperator = "SLESS_TEST_AS_OPERATOR"

// In whatever order sless is removed, nothing stays behind a finalizer for ever: an operator that comes back lets go of what another one left, even
// while the CRDs are being deleted, and where none comes back the commands of the page do.
func TestUninstallInAnyOrder(t *testing.T) {
	const namespace = "uninstall"
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	for _, own := range []string{names.SystemNamespace, names.BuildNamespace} {
		if err := cluster.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: own}}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	environment := append(os.Environ(), "KUBECONFIG="+kubeconfig(t, cluster.Config), "PATH="+os.Getenv("KUBEBUILDER_ASSETS")+":"+os.Getenv("PATH"))

	t.Run("it comes back", func(t *testing.T) {
		objects := leave(t, namespace, "back")
		startProcess(t, environment)
		allGone(t, objects)
	})
	t.Run("it does not come back", func(t *testing.T) {
		objects := leave(t, namespace, "lost")
		shell(t, environment, commandsOfThePage(t))
		allGone(t, objects)
	})
	t.Run("it comes back after the CRDs were deleted", func(t *testing.T) {
		objects := leave(t, namespace, "kinds")
		shell(t, environment, "kubectl delete crd --wait=false functions.sless.io triggers.sless.io functionjobs.sless.io")
		startProcess(t, environment)
		allGone(t, objects)
		shell(t, environment, "kubectl wait --for=delete --timeout=2m crd/functions.sless.io crd/triggers.sless.io crd/functionjobs.sless.io")
		// For the tests after this one.
		cluster.Apply(t, "config/crd/sless*.yaml")
		shell(t, environment, "kubectl wait --for=condition=Established --timeout=2m crd/functions.sless.io crd/triggers.sless.io crd/functionjobs.sless.io")
	})
}

// leave makes an object of each kind as an operator that is gone left them, and deletes them, which nobody completes.
func leave(t *testing.T, namespace, name string) []client.Object {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{names.Finalizer}}
	objects := []client.Object{
		&v1alpha1.Function{ObjectMeta: meta, Spec: v1alpha1.FunctionSpec{
			Runtime: "python3.11", Source: v1alpha1.Source{Inline: map[string]v1alpha1.InlineFile{"handler.py": "def handle(event): return 1\n"}}}},
		&v1alpha1.Trigger{ObjectMeta: meta, Spec: v1alpha1.TriggerSpec{FunctionRef: v1alpha1.FunctionRef{Name: name}, Type: v1alpha1.TriggerHTTP}},
		&v1alpha1.FunctionJob{ObjectMeta: meta, Spec: v1alpha1.FunctionJobSpec{FunctionRef: v1alpha1.FunctionRef{Name: name}, RunID: 1, EventJSON: "{}"}},
	}
	for _, object := range objects {
		create(t, object)
		if err := cluster.Client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || object.GetDeletionTimestamp() == nil {
			t.Fatalf("%T is not held by its finalizer: %v", object, err)
		}
	}
	return objects
}

func allGone(t *testing.T, objects []client.Object) {
	t.Helper()
	for _, object := range objects {
		gone(t, object)
	}
}

// startProcess runs the operator in a process of its own until the test ends.
func startProcess(t *testing.T, environment []string) {
	t.Helper()
	var log bytes.Buffer
	process := exec.Command(os.Args[0], "--config", writeConfig(t), "--health-address=127.0.0.1:0", "--metrics-address=0")
	process.Env = append(environment, asOperator+"=1")
	process.Stderr = &log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		if err := process.Wait(); err != nil || t.Failed() {
			t.Errorf("the operator ended with %v:\n%s", err, &log)
		}
	})
}

// commandsOfThePage are those for an operator that does not come back.
func commandsOfThePage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^```sh\n(for kind in .*?)^```$").FindStringSubmatch(string(page))
	if block == nil || !strings.Contains(block[1], names.ManagedByLabel+"="+names.ManagedBy) {
		t.Fatal("the page has no commands for what an operator left")
	}
	return block[1]
}

func shell(t *testing.T, environment []string, script string) {
	t.Helper()
	command := exec.Command("bash", "-e", "-o", "pipefail", "-c", script)
	command.Env = environment
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// kubeconfig writes a file that leads to the cluster.
func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	const name = "test"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + strings.TrimPrefix(config.Host, "https://"), CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(fmt.Errorf("write kubeconfig: %w", err))
	}
	return path
}
