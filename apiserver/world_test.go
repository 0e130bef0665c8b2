package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/apiserver/internal/config"
)

// world is what stands around an apiserver: an object store, a registry, a gateway and a node, each a server in this process.
type world struct {
	bucket   *s3mem.Backend
	store    *httptest.Server
	registry *httptest.Server
	gateway  *httptest.Server
	kubelet  *httptest.Server
	token    string
	cut      atomic.Bool // the registry gives half of a layer

	mu   sync.Mutex // guards logs
	logs map[string]func(http.ResponseWriter, *http.Request)
}

func newWorld() (*world, error) {
	w := &world{bucket: s3mem.New(), token: "token-for-the-gateway", logs: map[string]func(http.ResponseWriter, *http.Request){}}
	if err := w.bucket.CreateBucket("sless"); err != nil {
		return nil, err
	}
	w.store = httptest.NewServer(gofakes3.New(w.bucket, gofakes3.WithTimeSkewLimit(0)).Server())
	w.registry = httptest.NewServer(w.cutting(registry.New(registry.Logger(log.New(io.Discard, "", 0)))))
	w.gateway = httptest.NewServer(http.HandlerFunc(w.serveGateway))
	w.kubelet = httptest.NewTLSServer(http.HandlerFunc(w.serveKubelet))
	return w, nil
}

func (w *world) close() {
	w.store.Close()
	w.registry.Close()
	w.gateway.Close()
	w.kubelet.Close()
}

// settings are a configuration for this world; extra is more YAML.
func (w *world) settings(dir, extra string) (*config.Config, error) {
	for name, value := range map[string]string{"accessKeyID": "sless", "secretAccessKey": "sless-secret", "gateway-token": w.token, "pull.json": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600); err != nil {
			return nil, err
		}
	}
	return config.Parse(fmt.Appendf(nil, "objectStore: {endpoint: %q, bucket: sless, credentialsDir: %q}\nregistry: {host: %q, insecure: true, pullConfigFile: %q}\ngateway: {internalURL: %q, tokenFile: %q}\nbuild: {maxArchiveBytes: 1048576}\n%s",
		w.store.URL, dir, w.registryHost(), filepath.Join(dir, "pull.json"), w.gateway.URL, filepath.Join(dir, "gateway-token"), extra))
}

// cutting answers as next does, and while cut is set only the first half of what is no JSON.
func (w *world) cutting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if !w.cut.Load() {
			next.ServeHTTP(out, r)
			return
		}
		recorded := httptest.NewRecorder()
		next.ServeHTTP(recorded, r)
		body := recorded.Body.Bytes()
		if !bytes.HasPrefix(body, []byte("{")) {
			body = body[:len(body)/2]
		}
		_, _ = out.Write(body) // whoever asks has gone
	})
}

func (w *world) registryHost() string { return w.registry.Listener.Addr().String() }

// serveGateway answers as the gateway's internal listener does: the function echo answers its event, slow never does, others do not exist.
func (w *world) serveGateway(out http.ResponseWriter, r *http.Request) {
	fail := func(status int, code string) {
		out.Header().Set("Content-Type", "application/problem+json")
		out.WriteHeader(status)
		fmt.Fprintf(out, `{"type":"about:blank","title":%q,"status":%d,"code":%q,"request_id":%q}`, http.StatusText(status), status, code, r.Header.Get("X-Request-Id"))
	}
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case r.Header.Get("Authorization") != "Bearer "+w.token:
		fail(http.StatusUnauthorized, "unauthorized")
	case r.Method != http.MethodPost || !strings.HasPrefix(r.URL.Path, "/invoke/"):
		fail(http.StatusNotFound, "no_route")
	case name == "echo":
		body, _ := io.ReadAll(r.Body) // a caller that is gone reads no answer
		if len(body) == 0 {
			body = []byte("null")
		}
		if !json.Valid(body) {
			fail(http.StatusBadRequest, "bad_event")
			return
		}
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(out, `{"event":%s,"media":%q,"cookie":%q}`, body, r.Header.Get("Content-Type"), r.Header.Get("Cookie"))
	case name == "zero":
		out.Header().Set("Retry-After", "1")
		fail(http.StatusServiceUnavailable, "scaled_to_zero")
	case name == "gone":
		panic(http.ErrAbortHandler)
	default:
		fail(http.StatusInternalServerError, "function_failed")
	}
}

// serveKubelet answers for the log of a container: /containerLogs/namespace/pod/container.
func (w *world) serveKubelet(out http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/containerLogs/"), "/")
	w.mu.Lock()
	serve := w.logs[strings.Join(parts[1:], "/")]
	w.mu.Unlock()
	if serve == nil {
		http.NotFound(out, r)
		return
	}
	serve(out, r)
}

// node makes the cluster believe that the kubelet of this world is a node of it.
func (w *world) node(t *testing.T) string {
	t.Helper()
	address, err := url.Parse(w.kubelet.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, text, err := net.SplitHostPort(address.Host)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	if err := cluster.client.Create(t.Context(), node); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	node.Status = corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
	}
	if err := eventually(func() error {
		now := &corev1.Node{}
		if err := cluster.client.Get(t.Context(), types.NamespacedName{Name: "node"}, now); err != nil {
			return err
		}
		now.Status = node.Status
		return cluster.client.Status().Update(t.Context(), now)
	}); err != nil {
		t.Fatal(err)
	}
	return node.Name
}

// pod makes a pod with one container whose log serve answers.
func (w *world) pod(t *testing.T, namespace, name string, labels map[string]string, serve func(http.ResponseWriter, *http.Request), env ...corev1.EnvVar) {
	t.Helper()
	node := w.node(t)
	w.mu.Lock()
	w.logs[name+"/function"] = serve
	w.mu.Unlock()
	err := cluster.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	allowLogs(t, namespace)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "function", Image: "image", Env: env}}},
	}
	if err := cluster.client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "function", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	if err := cluster.client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// allowLogs lets the apiserver read logs in a namespace, as the operator does in those that it makes, and waits until it may.
func allowLogs(t *testing.T, namespace string) {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sless-apiserver"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "sless-apiserver-tenant"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: names.SystemNamespace, Name: "apiserver"}},
	}
	if err := cluster.client.Create(t.Context(), binding); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	seen := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(asAPIServer()))
	if err := eventually(func() error {
		_, err := seen.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// labelsOf are those of the pods of a function.
func labelsOf(tenant *tenant, name string) map[string]string {
	return names.Selector("Function", tenant.namespace, name)
}
