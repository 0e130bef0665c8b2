package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	kuberest "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/go-logr/logr"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/config"
	"github.com/naeel/sless/apiserver/internal/store"
)

// patience is how long something that is bound to come may take on a machine that is busy with other things.
const patience = 2 * time.Minute

// cluster is the Kubernetes API server that all tests share. It has no controllers: what the operator would write, a test writes.
var cluster struct {
	config *kuberest.Config
	client client.Client
	kube   *kubernetes.Clientset
}

// shared is the apiserver that most tests use.
var shared *instance

// sharedLedger is the file that has the address of its ledger, while a test gives it one.
var sharedLedger string

// around is the world that it stands in.
var around *world

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
		return
	}
	ctrllog.SetLogger(logr.Discard())
	code, err := runAll(m)
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	programs := os.Getenv("KUBEBUILDER_ASSETS")
	if programs == "" {
		programs = filepath.Join("..", ".dev", "bin")
	}
	environment := &envtest.Environment{
		BinaryAssetsDirectory: programs, CRDDirectoryPaths: []string{filepath.Join("..", "config", "crd")}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience,
	}
	if cluster.config, err = environment.Start(); err != nil {
		return 0, fmt.Errorf("start an API server: %w", err)
	}
	defer func() { err = errors.Join(err, environment.Stop()) }()
	scheme, err := store.Scheme()
	if err != nil {
		return 0, err
	}
	if err := rbacv1.AddToScheme(scheme); err != nil {
		return 0, err
	}
	if cluster.client, err = client.New(cluster.config, client.Options{Scheme: scheme}); err != nil {
		return 0, err
	}
	if cluster.kube, err = kubernetes.NewForConfig(cluster.config); err != nil {
		return 0, err
	}
	if err := giveRights(); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "apiserver-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	if around, err = newWorld(); err != nil {
		cancel()
		return 0, err
	}
	defer around.close()
	sharedLedger = filepath.Join(dir, "ledger-dsn")
	settings, err := around.settings(dir, fmt.Sprintf("ledger: {dsnFile: %q}\napiserver: {limits: {requestsPerSecond: 100000, burst: 100000}, auth: {badTokensPerMinute: 100000}}", sharedLedger))
	if err != nil {
		cancel()
		return 0, err
	}
	if shared, err = start(ctx, settings, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))); err != nil {
		cancel()
		return 0, err
	}
	code = m.Run()
	cancel()
	return code, <-shared.ended
}

// giveRights installs the account of the apiserver with the rights that it ships with.
func giveRights() error {
	ctx := context.Background()
	for _, name := range []string{names.SystemNamespace, names.BuildNamespace} {
		if err := cluster.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	for _, file := range []string{"account.yaml", "role.yaml", "tenant.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "config", "rbac", "apiserver", file))
		if err != nil {
			return err
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if err := cluster.client.Create(ctx, object); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

// asAPIServer is the cluster as the apiserver's account sees it.
func asAPIServer() *kuberest.Config {
	config := kuberest.CopyConfig(cluster.config)
	config.Impersonate = kuberest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + names.SystemNamespace + ":apiserver", Groups: []string{"system:serviceaccounts", "system:authenticated"},
	}
	return config
}

// instance is an apiserver that runs.
type instance struct {
	service  *Service
	endpoint string
	admin    string
	ended    chan error
}

func start(ctx context.Context, settings *config.Config, log *slog.Logger) (*instance, error) {
	return startOn(ctx, asAPIServer(), settings, log)
}

func startOn(ctx context.Context, kube *kuberest.Config, settings *config.Config, log *slog.Logger) (*instance, error) {
	service, err := NewService(kube, settings, log)
	if err != nil {
		return nil, err
	}
	public, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	i := &instance{service, "http://" + public.Addr().String(), "http://" + admin.Addr().String(), make(chan error, 1)}
	go func() { i.ended <- service.Serve(ctx, public, admin) }()
	return i, eventually(func() error {
		if service.store.Synced(ctx) {
			return nil
		}
		return errors.New("the cache is not filled")
	})
}

// eventually asks again until there is no error.
func eventually(ask func() error) error {
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = ask(); err == nil {
			return nil
		}
	}
	return err
}

// newNamespace makes a namespace for one test.
func newNamespace(t testing.TB) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "tenant-"}}
	if err := cluster.client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// everything is what a tenant's role allows in tests.
var everything = []rbacv1.PolicyRule{{APIGroups: []string{"sless.io"}, Resources: []string{"*"}, Verbs: []string{"*"}}}

// newToken makes a service account with those rights in the namespace, and returns a token of it.
func newToken(t testing.TB, namespace string, rules []rbacv1.PolicyRule) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "user-"}}
	if err := cluster.client.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account.Name}, Rules: rules}
	bind := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account.Name}},
	}
	for _, object := range []client.Object{role, bind} {
		if err := cluster.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600))}}
	token, err := cluster.kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account.Name, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// tenant is a namespace with a user that may do everything in it.
type tenant struct {
	namespace string
	token     string
	*rest.Client
}

func newTenant(t testing.TB) *tenant {
	t.Helper()
	namespace := newNamespace(t)
	tenant := &tenant{namespace: namespace, token: newToken(t, namespace, everything)}
	tenant.Client = newClient(t, tenant.token)
	// The API server's authorizer learns of a role by a watch.
	if err := eventually(func() error {
		_, err := tenant.Functions(namespace).List(t.Context(), rest.ListOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return tenant
}

func newClient(t testing.TB, token string) *rest.Client {
	t.Helper()
	client, err := rest.NewClient(rest.Config{Endpoint: shared.endpoint, Token: token, RetryFor: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func (t *tenant) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: t.namespace, Name: name}
}
