package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/gateway/internal/leaktest"
)

// soon is how long a test waits for what must happen.
const soon = 90 * time.Second

// api is a real API server, shared by the tests; kubeconfig is a file that leads there.
var (
	api        client.Client
	kubeconfig string
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		environment := &envtest.Environment{
			BinaryAssetsDirectory: filepath.Join("..", ".dev", "bin"), CRDDirectoryPaths: []string{filepath.Join("..", "config", "crd")},
			ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute,
		}
		config, err := environment.Start()
		if err != nil {
			fmt.Fprintln(os.Stderr, "start the API server:", err)
			return 1
		}
		defer func() {
			if err := environment.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "stop the API server:", err)
			}
		}()
		dir, err := os.MkdirTemp("", "gateway")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		kubeconfig = filepath.Join(dir, "kubeconfig")
		if err := os.WriteFile(kubeconfig, environment.KubeConfig, 0o600); err != nil {
			panic(err)
		}
		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme, authenticationv1.AddToScheme} {
			if err := add(scheme); err != nil {
				panic(err)
			}
		}
		config.QPS = -1
		if api, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
			panic(err)
		}
		if err := api.Create(context.Background(), namespace(names.SystemNamespace, nil)); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

// program is a running gateway.
type program struct {
	*testing.T
	*gateway
	stop func()
	// ended gets what serve returns.
	ended chan error
}

// start runs a gateway whose pods are servers on the loopback: the API server lets no loopback address into an EndpointSlice, so the
// Transport takes every pod's address for the loopback's.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	return startWith(t, func(*gateway) {}, args...)
}

// startWith is start with a change to the gateway before it serves.
func startWith(t *testing.T, change func(*gateway), args ...string) *program {
	t.Helper()
	before := goleak.IgnoreCurrent()
	o, err := parse(append([]string{"-kubeconfig", kubeconfig, "-public-address", "127.0.0.1:0", "-tls-address", "127.0.0.1:0", "-internal-address", "127.0.0.1:0", "-admin-address", "127.0.0.1:0",
		"-drain-delay", "100ms", "-wait-timeout", soon.String()}, args...))
	if err != nil {
		t.Fatal(err)
	}
	g, err := build(o, slog.New(slog.DiscardHandler), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	g.transport.Other.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	}
	change(g)
	ctx, stop := context.WithCancel(context.Background())
	p := &program{T: t, gateway: g, stop: stop, ended: make(chan error, 1)}
	go func() { p.ended <- g.serve(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-p.ended:
			if err != nil {
				t.Errorf("serve: %v", err)
			}
		case <-time.After(soon):
			t.Error("serve does not end")
		}
		http.DefaultClient.CloseIdleConnections()
		leaktest.Verify(t, before)
	})
	return p
}

// url returns an address on one of the listeners.
func (p *program) url(listener, path string) string {
	for _, l := range p.listeners {
		if l.name == listener {
			return "http://" + l.Addr().String() + path
		}
	}
	p.Fatalf("no listener %s", listener)
	return ""
}

// get returns status and body.
func (p *program) get(listener, path string) (int, string) {
	p.Helper()
	return p.do(http.MethodGet, listener, path, "", "")
}

func (p *program) do(method, listener, path, token, body string) (int, string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), 2*soon)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, p.url(listener, path), strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(string(text))
}

// becomes waits until a path is answered with a status and a text.
func (p *program) becomes(listener, path string, status int, text string) {
	p.Helper()
	var gotStatus int
	var got string
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if gotStatus, got = p.get(listener, path); gotStatus == status && strings.Contains(got, text) {
			return
		}
	}
	p.Fatalf("%s stays %d %.500q, want %d %q", path, gotStatus, got, status, text)
}

func receive[T any](t *testing.T, what string, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(soon):
		t.Fatalf("never: %s", what)
	}
	return got
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}

func update(t *testing.T, object client.Object, change func()) {
	t.Helper()
	patch := client.MergeFrom(object.DeepCopyObject().(client.Object))
	change()
	if err := api.Patch(t.Context(), object, patch); err != nil {
		t.Fatalf("patch %T %s: %v", object, object.GetName(), err)
	}
}

func remove(t *testing.T, object client.Object) {
	t.Helper()
	if err := api.Delete(t.Context(), object); err != nil {
		t.Fatalf("delete %T %s: %v", object, object.GetName(), err)
	}
}

var made atomic.Int32

// unique returns a name that no other test has used, nor the same test when it runs again.
func unique(name string) string { return fmt.Sprintf("%s-%d", name, made.Add(1)) }

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func function(namespace, name string) *v1alpha1.Function {
	f := &v1alpha1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	f.Spec.Runtime = "python3.11"
	f.Spec.Source.Inline = map[string]v1alpha1.InlineFile{"handler.py": "def handle(event): pass"}
	return f
}

func trigger(namespace, name, function string) *v1alpha1.Trigger {
	t := &v1alpha1.Trigger{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	t.Spec = v1alpha1.TriggerSpec{FunctionRef: v1alpha1.FunctionRef{Name: function}, Type: v1alpha1.TriggerHTTP}
	return t
}

// pod starts a server and returns the endpoint that leads to it.
func pod(t *testing.T, uid, revision string) (discoveryv1.Endpoint, *httptest.Server) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI == names.HealthPath {
			w.Header().Set(names.RevisionHeader, revision)
			return
		}
		fmt.Fprint(w, revision, " ", r.RequestURI)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return discoveryv1.Endpoint{
		Addresses: []string{"10.77.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true)},
		TargetRef: &corev1.ObjectReference{Kind: "Pod", UID: types.UID(uid)},
	}, server
}

// slice makes the EndpointSlice of one pod of a function.
func slice(in, namespace, name string, endpoint discoveryv1.Endpoint, server *httptest.Server) *discoveryv1.EndpointSlice {
	port := int32(server.Listener.Addr().(*net.TCPAddr).Port)
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: in, GenerateName: name + "-", Labels: names.Labels("Function", namespace, name, "u")},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{endpoint},
		Ports: []discoveryv1.EndpointPort{{Name: new(names.PortName), Port: &port}},
	}
}

// token returns a token of a service account in sless-system.
func token(t *testing.T, account, audience string) string {
	t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: account}}
	if err := api.Create(t.Context(), sa); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	if err := api.SubResource("token").Create(t.Context(), sa, request); err != nil {
		t.Fatalf("token of %s: %v", account, err)
	}
	return request.Status.Token
}

var managed = map[string]string{names.ManagedByLabel: names.ManagedBy}

func TestLifeOfARoute(t *testing.T) {
	ns := unique("life")
	create(t, namespace(ns, nil), namespace("sless-fn-"+ns, managed))
	early := function(ns, "early") // there before the gateway
	create(t, early, trigger(ns, "early", "early"))
	endpoint, server := pod(t, "early", "r1")
	create(t, slice("sless-fn-"+ns, ns, "early", endpoint, server))

	p := start(t)
	p.becomes("admin", "/readyz", 200, "")
	if status, text := p.get("public", "/fn/"+ns+"/early/a%2Fb/..?x=%2F"); status != 200 || text != "r1 /a%2Fb/..?x=%2F" {
		t.Errorf("as soon as it is ready: %d %q", status, text)
	}

	f, route := function(ns, "f"), trigger(ns, "t", "f")
	p.becomes("public", "/fn/"+ns+"/f", 404, "no_route")
	create(t, route) // a Trigger may be there before its Function
	create(t, f)
	endpoint, server = pod(t, "1", "r1")
	endpoint.Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(false)} // the kubelet has not looked yet
	first := slice("sless-fn-"+ns, ns, "f", endpoint, server)
	create(t, first)
	p.becomes("public", "/fn/"+ns+"/f/x", 200, "r1 /x")
	p.becomes("admin", "/routes/"+ns+"/f", 200, `{"enabled":true,"revisions":{"r1":1}}`)

	// A new version is preferred as soon as it answers.
	endpoint, server = pod(t, "2", "r2")
	endpoint.Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(false)}
	second := slice("sless-fn-"+ns, ns, "f", endpoint, server)
	create(t, second)
	p.becomes("public", "/fn/"+ns+"/f", 200, "r2 /")
	for _, wanted := range []string{"r1", "r2"} { // the operator takes the version back, and then brings it after all
		for _, s := range []*discoveryv1.EndpointSlice{first, second} {
			update(t, s, func() { s.Labels[names.RevisionLabel] = wanted })
		}
		p.becomes("public", "/fn/"+ns+"/f", 200, wanted+" /")
	}
	remove(t, first)
	p.becomes("admin", "/routes/"+ns+"/f", 200, `{"enabled":true,"revisions":{"r2":1}}`)

	update(t, route, func() { route.Spec.HTTP = &v1alpha1.HTTPTrigger{Methods: []string{"POST"}} })
	p.becomes("public", "/fn/"+ns+"/f", 405, "method_not_allowed")
	update(t, route, func() { route.Spec.Enabled = new(false) })
	p.becomes("public", "/fn/"+ns+"/f", 404, "disabled")
	p.becomes("admin", "/routes/"+ns+"/f", 404, `"enabled":false`)
	update(t, route, func() { route.Spec.Enabled, route.Spec.HTTP = new(true), nil })
	p.becomes("public", "/fn/"+ns+"/f", 200, "r2 /")
	update(t, f, func() { f.Spec.Replicas = new(int32(0)) })
	p.becomes("public", "/fn/"+ns+"/f", 503, "scaled_to_zero")
	update(t, f, func() { f.Spec.Replicas = nil })
	p.becomes("public", "/fn/"+ns+"/f", 200, "r2 /")

	// A Trigger that turns to another function takes the route along.
	update(t, route, func() { route.Spec.FunctionRef.Name = "early" })
	p.becomes("public", "/fn/"+ns+"/f", 404, "no_route")
	update(t, route, func() { route.Spec.FunctionRef.Name = "f" })
	p.becomes("public", "/fn/"+ns+"/f", 200, "r2 /")
	remove(t, f)
	p.becomes("public", "/fn/"+ns+"/f", 404, "no_route")
	p.becomes("admin", "/metrics", 200, "sless_gateway_synced 1")
}

// TestOnlyTheOperatorsNamespaces: nobody else's EndpointSlices lead anywhere, whatever their labels say.
func TestOnlyTheOperatorsNamespaces(t *testing.T) {
	ns := unique("own")
	own := namespace("sless-fn-"+ns, nil) // not marked by the operator yet
	create(t, namespace(ns, nil), own, namespace("sless-fn-thief-of-"+ns, managed))
	create(t, function(ns, "f"), trigger(ns, "f", "f"))
	p := start(t)
	p.becomes("admin", "/readyz", 200, "")
	for i, in := range []string{ns, "sless-fn-thief-of-" + ns, "sless-fn-" + ns} {
		endpoint, server := pod(t, fmt.Sprint("own-", i), fmt.Sprint("r", i))
		create(t, slice(in, ns, "f", endpoint, server))
	}
	update(t, own, func() { own.Labels = managed })
	p.becomes("admin", "/routes/"+ns+"/f", 200, `{"enabled":true,"revisions":{"r2":1}}`)
	update(t, own, func() { own.Labels = nil })
	p.becomes("admin", "/routes/"+ns+"/f", 200, `{"enabled":true,"revisions":{}}`)
}

func TestInternalListener(t *testing.T) {
	ns := unique("internal")
	create(t, namespace(ns, nil), namespace("sless-fn-"+ns, managed), function(ns, "f"))
	endpoint, server := pod(t, "internal", "r1")
	create(t, slice("sless-fn-"+ns, ns, "f", endpoint, server))
	p := start(t)
	p.becomes("admin", "/readyz", 200, "")
	for name, test := range map[string]struct {
		token  string
		status int
	}{
		"operator":  {token(t, "operator", names.GatewayAudience), 200},
		"apiserver": {token(t, "apiserver", names.GatewayAudience), 200},
		"gateway":   {token(t, "gateway", names.GatewayAudience), 401},
		"audience":  {token(t, "operator", "another"), 401},
		"none":      {"", 401},
		"forged":    {"x.y.z", 401},
	} {
		status, text := p.do(http.MethodPost, "internal", "/invoke/"+ns+"/f", test.token, "{}")
		if status != test.status || status == 200 && text != "r1 /_sless/invoke" {
			t.Errorf("%s: %d %q", name, status, text)
		}
	}
	if status, _ := p.do(http.MethodPost, "public", "/invoke/"+ns+"/f", token(t, "operator", names.GatewayAudience), "{}"); status != 404 {
		t.Errorf("on the public listener: %d", status)
	}
}

// TestDrain: from the signal on the gateway is not ready, takes what still comes, and lets all of it end.
func TestDrain(t *testing.T) {
	ns := unique("drain")
	create(t, namespace(ns, nil), namespace("sless-fn-"+ns, managed), function(ns, "f"), trigger(ns, "f", "f"))
	began, release := make(chan struct{}, 3), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI == names.HealthPath {
			return
		}
		if r.Header.Get("Upgrade") != "" {
			conn, buffer, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			began <- struct{}{}
			line, _ := buffer.ReadString('\n')
			fmt.Fprint(conn, line)
			return
		}
		began <- struct{}{}
		<-release
		fmt.Fprint(w, "done")
	}))
	defer server.Close()
	endpoint := discoveryv1.Endpoint{Addresses: []string{"10.77.0.1"}, TargetRef: &corev1.ObjectReference{UID: "drain"}}
	create(t, slice("sless-fn-"+ns, ns, "f", endpoint, server))
	heard := make(chan struct{}) // everybody has heard that it goes
	p := startWith(t, func(g *gateway) { g.sleep = func(time.Duration) { <-heard } })
	p.becomes("admin", "/readyz", 200, "")

	answers := make(chan string, 2)
	call := func() {
		response, err := http.Get(p.url("public", "/fn/"+ns+"/f"))
		if err != nil {
			answers <- err.Error()
			return
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		answers <- fmt.Sprintf("%d %s %v %v", response.StatusCode, text, err, response.Close)
	}
	go call()
	receive(t, "a request at the pod", began)
	tunnel, err := net.Dial("tcp", strings.TrimPrefix(p.url("public", ""), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer tunnel.Close()
	fmt.Fprint(tunnel, "GET /fn/"+ns+"/f HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	receive(t, "a request at the pod", began)

	p.stop()
	p.becomes("admin", "/readyz", 503, "not ready")
	go call() // from somebody who has not heard of it
	receive(t, "a request at the pod", began)
	close(heard)
	close(release)
	for range 2 {
		if got := receive(t, "an answer", answers); got != "200 done <nil> true" {
			t.Errorf("answer %q", got)
		}
	}
	_ = tunnel.SetDeadline(time.Now().Add(soon))
	fmt.Fprint(tunnel, "still here\n")
	if text, err := io.ReadAll(tunnel); err != nil || !bytes.HasSuffix(text, []byte("still here\n")) {
		t.Errorf("tunnel: %q, %v", text, err)
	}
}

func TestProblemDocument(t *testing.T) {
	p := start(t)
	status, text := p.get("public", "/nowhere")
	var document map[string]any
	if err := json.Unmarshal([]byte(text), &document); err != nil || status != 404 || document["code"] != "no_route" {
		t.Errorf("%d %q: %v", status, text, err)
	}
}
