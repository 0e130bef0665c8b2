// Package testcluster starts a real API server with sless's kinds for the tests of a package. It has no controllers: what those would
// do, the tests do.
package testcluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/naeel/sless/api/v1alpha1"
)

// patience is how long a test waits for what must come. It is long because machines may be slow, and costs nothing when they are not.
const patience = 2 * time.Minute

// Cluster is a running API server.
type Cluster struct {
	// Config reaches it with all rights.
	Config *rest.Config
	// Client reads and writes without a cache.
	Client client.Client
}

// Main runs the tests of a package with a cluster, which it gives to use first, and returns the exit code. KUBEBUILDER_ASSETS says where
// the server's programs are; without it they are where the repository's own cluster has them.
func Main(m *testing.M, use func(Cluster)) int {
	log.SetLogger(logr.Discard())
	root, err := repository()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	environment := &envtest.Environment{
		Scheme:                   Scheme(),
		CRDDirectoryPaths:        []string{filepath.Join(root, "config", "crd")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: patience,
		ControlPlaneStopTimeout:  patience,
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		environment.BinaryAssetsDirectory = filepath.Join(root, ".dev", "bin")
	}
	config, err := environment.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		return 1
	}
	defer func() { _ = environment.Stop() }() // nothing depends on it any more
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: Scheme()})
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a client:", err)
		return 1
	}
	use(Cluster{Config: config, Client: c})
	return m.Run()
}

// repository returns the folder above that has go.work.
func repository() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.work")); err == nil {
			return folder, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("no folder above has go.work")
		}
		folder = parent
	}
}

// Scheme has Kubernetes' kinds and sless's.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme) // neither ever fails
	_ = v1alpha1.AddToScheme(scheme)
	return scheme
}

// As returns a configuration with the rights of an account: a ServiceAccount of a namespace.
func (c Cluster) As(namespace, account string) *rest.Config {
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	return config
}

// Apply makes or changes the objects of YAML files of the repository, given by patterns relative to its root.
func (c Cluster) Apply(t *testing.T, patterns ...string) {
	t.Helper()
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no file matches %s: %v", pattern, err)
		}
		for _, file := range files {
			c.applyFile(t, file)
		}
	}
}

func (c Cluster) applyFile(t *testing.T, name string) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil && object.GetKind() != "Kustomization" {
			err = c.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership)
		}
		if err != nil {
			t.Fatalf("apply %s: %v", name, err)
		}
	}
}

// Eventually waits until try returns "", and otherwise fails the test with what it said last.
func Eventually(t *testing.T, what string, try func() string) {
	t.Helper()
	lack := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if lack = try(); lack == "" {
			return
		}
	}
	t.Fatalf("%s: %s", what, lack)
}
