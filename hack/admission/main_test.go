// Package admission tests what a real kube-apiserver lets in: every validation rule of the API, the admission policies and roles of the
// install, the install itself and the samples.
package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-logr/logr"

	"github.com/naeel/sless/api/v1alpha1"
)

// patience is how long something that is bound to come may take on a machine that is busy with other things.
const patience = 2 * time.Minute

// root is the repository's.
const root = "../.."

// server is the API server that all tests share, with config/dev installed on it.
var server struct {
	config     *rest.Config
	client     client.Client
	kubectl    string
	kubeconfig string
}

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	code, err := run(m)
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	programs, err := assets()
	if err != nil {
		return 0, err
	}
	environment := &envtest.Environment{BinaryAssetsDirectory: programs, ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	if server.config, err = environment.Start(); err != nil {
		return 0, fmt.Errorf("start an API server: %w", err)
	}
	defer func() { err = errors.Join(err, environment.Stop()) }()
	dir, err := os.MkdirTemp("", "admission-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	server.kubectl = filepath.Join(programs, "kubectl")
	server.kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(server.kubeconfig, environment.KubeConfig, 0o600); err != nil {
		return 0, err
	}
	if server.client, err = clientFor(server.config); err != nil {
		return 0, err
	}
	if err := install(); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// assets finds the folder with etcd, kube-apiserver and kubectl.
func assets() (string, error) {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		dir = filepath.Join(root, ".dev", "bin")
	}
	if _, err := os.Stat(filepath.Join(dir, "kube-apiserver")); err != nil {
		return "", fmt.Errorf("no API server to test with (make kubernetes builds it): %w", err)
	}
	return filepath.Abs(dir)
}

func clientFor(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// install applies config/dev, as hack/cluster does, and waits until the kinds are served.
func install() error {
	objects, err := kubectl(nil, "kustomize", filepath.Join(root, "config", "dev"))
	if err != nil {
		return err
	}
	if _, err := kubectl(objects, "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	_, err = kubectl(nil, "wait", "--for=condition=Established", "--timeout="+patience.String(), "crd", "--all")
	return err
}

// kubectl runs the real one with input and returns what it prints.
func kubectl(input []byte, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	command := exec.Command(server.kubectl, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+server.kubeconfig)
	command.Stdin = bytes.NewReader(input)
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("kubectl %v: %w: %s", args, err, &stderr)
	}
	return out, nil
}

// namespace makes a user's namespace for one test.
func namespace(t *testing.T, prefix string) string {
	t.Helper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	if err := server.client.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	return made.Name
}

// eventually calls f until it returns nil, and fails with its last error when that takes too long: the API server's own caches of
// roles, policies and namespaces are a little behind.
func eventually(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not in %v: %v", patience, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
