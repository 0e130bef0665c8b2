package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	stdlog "log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/testcluster"
)

var cluster testcluster.Cluster

func TestMain(m *testing.M) {
	if os.Getenv(asOperator) != "" {
		main()
		return
	}
	os.Exit(testcluster.Main(m, func(c testcluster.Cluster) { cluster = c }))
}

// The whole operator with the rights that the install gives it, and confined by the policies of the install: a Function is built,
// deployed and deleted, a FunctionJob runs, and nothing that they need is refused.
func TestOperatorWithItsOwnRights(t *testing.T) {
	for _, namespace := range []string{names.SystemNamespace, names.BuildNamespace, "shop"} {
		create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	}
	cluster.Apply(t, "config/rbac/operator/*.yaml", "config/admission/*.yaml")
	mayNotListSecrets(t)
	start(t)

	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "shop"}, Data: map[string][]byte{"password": []byte("x")}})
	function := &v1alpha1.Function{
		ObjectMeta: metav1.ObjectMeta{Name: "hello", Namespace: "shop"},
		Spec: v1alpha1.FunctionSpec{
			Runtime: "python3.11",
			Source:  v1alpha1.Source{Inline: map[string]v1alpha1.InlineFile{"handler.py": "def handle(event): return 1\n"}},
			Env:     []v1alpha1.EnvVar{{Name: "PASSWORD", ValueFrom: &v1alpha1.EnvVarSource{SecretKeyRef: &v1alpha1.KeyRef{Name: "db", Key: "password"}}}},
		},
	}
	create(t, function)
	job := &v1alpha1.FunctionJob{
		ObjectMeta: metav1.ObjectMeta{Name: "once", Namespace: "shop"},
		Spec:       v1alpha1.FunctionJobSpec{FunctionRef: v1alpha1.FunctionRef{Name: "hello"}, RunID: 1, EventJSON: "{}"},
	}
	create(t, job)
	rollOut(t, "sless-fn-shop", "hello")
	testcluster.Eventually(t, "Function is Ready", func() string {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(function), function); err != nil {
			return err.Error()
		}
		if !meta.IsStatusConditionTrue(function.Status.Conditions, v1alpha1.Ready) {
			return fmt.Sprintf("%+v", function.Status)
		}
		return ""
	})
	testcluster.Eventually(t, "FunctionJob runs", func() string {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			return err.Error()
		}
		if job.Status.JobName == "" {
			return fmt.Sprintf("%+v", job.Status)
		}
		return ""
	})
	for _, object := range []client.Object{job, function} {
		if err := cluster.Client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		gone(t, object)
	}
	testcluster.Eventually(t, "namespace goes", func() string {
		namespace := &corev1.Namespace{}
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: "sless-fn-shop"}, namespace); err != nil {
			return err.Error()
		}
		if namespace.DeletionTimestamp.IsZero() {
			return "it stays"
		}
		return ""
	})
}

// mayNotListSecrets shows that the rights are those of the install and no more: a Secret is got by its name or not at all.
func mayNotListSecrets(t *testing.T) {
	t.Helper()
	own, err := client.New(cluster.As(names.SystemNamespace, "operator"), client.Options{Scheme: testcluster.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := own.List(t.Context(), &corev1.SecretList{}, client.InNamespace("shop")); !apierrors.IsForbidden(err) {
		t.Errorf("list Secrets of a tenant: got %v, want it forbidden", err)
	}
}

// start runs the operator until the test ends.
func start(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	options := options{
		configFile: writeConfig(t), leaderElect: true, healthAddress: "127.0.0.1:0", metricsAddress: "0",
		cluster: cluster.As(names.SystemNamespace, "operator"),
	}
	go func() { ended <- run(ctx, options) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the operator ended: %v", err)
		}
	})
}

// writeConfig makes a registry with a runtime image in it, and the configuration that names it.
func writeConfig(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(stdlog.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	folder := t.TempDir()
	for file, text := range map[string]string{
		"registry.json": `{"auths":{}}`, "accessKeyID": "key", "secretAccessKey": "secret",
		"config.yaml": fmt.Sprintf(`
externalURL: https://functions.example.org
runtimes: [{name: python3.11, language: python, image: %q}]
registry: {host: %q, insecure: true, allowAnonymousPush: true, pushConfigFile: %[3]s/registry.json, pullConfigFile: %[3]s/registry.json}
objectStore: {endpoint: "http://127.0.0.1:1", bucket: sless, credentialsDir: %[3]s}
build: {kanikoImage: "k@sha256:0", checkImage: "o@sha256:0", spoolDir: %[3]s}
`, pushRuntime(t, host), host, folder),
	} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, "config.yaml")
}

// pushRuntime returns the reference of an image that looks like a runtime.
func pushRuntime(t *testing.T, host string) string {
	t.Helper()
	image, err := random.Image(1024, 1)
	if err != nil {
		t.Fatal(err)
	}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{OS: "linux", Architecture: "amd64", Config: v1.Config{User: "65532:65532"}, RootFS: rootFS(t, image)})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(host+"/runtimes/python:v1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image); err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return tag.Context().Digest(digest.String()).String()
}

func rootFS(t *testing.T, image v1.Image) v1.RootFS {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return config.RootFS
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := cluster.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func gone(t *testing.T, object client.Object) {
	t.Helper()
	testcluster.Eventually(t, fmt.Sprintf("%T goes", object), func() string {
		err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("finalizers %v, %v", object.GetFinalizers(), err)
	})
}

// rollOut plays the controller of Deployments.
func rollOut(t *testing.T, namespace, name string) {
	t.Helper()
	testcluster.Eventually(t, "roll out", func() string {
		deployment := &appsv1.Deployment{}
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, deployment); err != nil {
			return err.Error()
		}
		deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
		if err := cluster.Client.Status().Update(t.Context(), deployment); err != nil {
			return err.Error()
		}
		return ""
	})
}

// The caches keep of an object that sless applies what it compares, and nothing else of who set what.
func TestKeepOwnFields(t *testing.T) {
	service := &corev1.Service{}
	service.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody"}, {Manager: names.ManagedBy}, {Manager: "else", Subresource: "status"}}
	if _, err := keepOwnFields(service); err != nil || len(service.ManagedFields) != 1 || service.ManagedFields[0].Manager != names.ManagedBy {
		t.Errorf("%v, left %v", err, service.ManagedFields)
	}
	gone := cache.DeletedFinalStateUnknown{Key: "ns/hello", Obj: service}
	if got, err := keepOwnFields(gone); err != nil || got != any(gone) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestParseFlags(t *testing.T) {
	var messages bytes.Buffer
	if o, err := parseFlags([]string{"--leader-elect", "--log-level=DEBUG"}, &messages); err != nil || !o.leaderElect || o.logLevel >= 0 || o.configFile != "/etc/sless/config.yaml" {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"--nothing"}, {"run"}, {"--log-level=loud"}, {"check"}} {
		messages.Reset()
		if _, err := parseFlags(bad, &messages); err == nil || !strings.Contains(messages.String(), "usage: operator") {
			t.Errorf("%v: got %v and %q", bad, err, messages.String())
		}
	}
}
