package function

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/naeel/sless/api/names"
)

func TestRoutesLag(t *testing.T) {
	for name, test := range map[string]struct {
		routes routes
		want   string
	}{
		"new alone":    {routes{true, map[string]int{"new": 2}}, ""},
		"old is empty": {routes{true, map[string]int{"new": 1, "old": 0}}, ""},
		"both":         {routes{true, map[string]int{"new": 1, "old": 1}}, "still sends calls to revision old"},
		"old alone":    {routes{true, map[string]int{"old": 1}}, "does not know the new pods"},
		"no pods":      {routes{true, nil}, "does not know the new pods"},
		"no route":     {routes{false, map[string]int{"new": 1}}, "has no route"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.routes.lag("new"); !strings.Contains(got, test.want) || (test.want == "") != (got == "") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A process that has just started may be let in a little later: until then nothing is said of any Function, and nobody waits.
func TestGatewaysAreMetBeforeTheyAreAsked(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	listener.Close()
	asker := &GatewayPods{Client: endpoints(t, "127.0.0.2"), HTTP: &http.Client{}, AdminPort: port}
	key := client.ObjectKey{Namespace: "shop", Name: "hello"}
	met := make(chan error)
	go func() { met <- asker.Start(t.Context()) }()
	if got := asker.Routing(t.Context(), key, "new"); !got.Early || got.Complete || got.Again == 0 {
		t.Errorf("nobody lets it in: got %+v", got)
	}
	late, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"enabled":true,"revisions":{"new":1}}`)
	})}
	t.Cleanup(func() { server.Close() })
	go server.Serve(late) //nolint:errcheck // it ends with the test
	if err := <-met; err != nil {
		t.Fatal(err)
	}
	if got := asker.Routing(t.Context(), key, "new"); !got.Complete || got.Early {
		t.Errorf("it is let in: got %+v", got)
	}
}

// A gateway that nobody reaches is told of after a while, and none that is ready at once.
func TestGatewaysThatAreNotMet(t *testing.T) {
	asker := &GatewayPods{Client: endpoints(t, "!127.0.0.2"), HTTP: &http.Client{}, AdminPort: "1"}
	key := client.ObjectKey{Namespace: "shop", Name: "hello"}
	if got := asker.Routing(t.Context(), key, "new"); got.Early || got.Message != "no gateway is ready" {
		t.Errorf("none is ready: got %+v", got)
	}
	asker.Client = endpoints(t, "127.0.0.2")
	ctx, cancel := context.WithTimeout(t.Context(), lagEvery)
	defer cancel()
	if err := asker.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if got := asker.Routing(t.Context(), key, "new"); got.Early || got.Complete || !strings.Contains(got.Message, "127.0.0.2 does not answer") {
		t.Errorf("it can't be reached: got %+v", got)
	}
}

func TestGatewayPodsAsksEveryReadyGateway(t *testing.T) {
	answers := map[string]string{"127.0.0.2": `{"enabled":true,"revisions":{"new":1}}`, "127.0.0.3": `{"enabled":true,"revisions":{"new":1}}`}
	_, port, _ := net.SplitHostPort(serve(t, answers))
	asker := &GatewayPods{Client: endpoints(t, "127.0.0.2", "127.0.0.3", "!127.0.0.4"), HTTP: &http.Client{}, AdminPort: port}
	asker.met.Store(true)
	key := client.ObjectKey{Namespace: "shop", Name: "hello"}
	if got := asker.Routing(t.Context(), key, "new"); !got.Complete {
		t.Errorf("all know it: got %+v", got)
	}
	answers["127.0.0.3"] = `{"enabled":true,"revisions":{"new":1,"old":1}}`
	if got := asker.Routing(t.Context(), key, "new"); got.Complete || got.Again != lagEvery || !strings.Contains(got.Message, "127.0.0.3 still sends calls to revision old") {
		t.Errorf("one lags: got %+v", got)
	}
	answers["127.0.0.3"] = "no JSON"
	if got := asker.Routing(t.Context(), key, "new"); got.Complete || got.Again != silentEvery || !strings.Contains(got.Message, "127.0.0.3 does not answer") {
		t.Errorf("one is mad: got %+v", got)
	}
	asker.Client = endpoints(t, "!127.0.0.2")
	if got := asker.Routing(t.Context(), key, "new"); got.Complete || got.Message != "no gateway is ready" {
		t.Errorf("none is ready: got %+v", got)
	}
}

// serve answers on every loopback address with the text for the address that was called.
func serve(t *testing.T, answers map[string]string) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.Host)
		if r.URL.Path != "/routes/shop/hello" {
			w.WriteHeader(http.StatusTeapot)
		}
		fmt.Fprint(w, answers[host])
	}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return listener.Addr().String()
}

// endpoints is a reader that knows the gateways; an address after an exclamation mark is not ready.
func endpoints(t *testing.T, addresses ...string) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := discoveryv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: names.SystemNamespace, Name: "gateway-1", Labels: map[string]string{discoveryv1.LabelServiceName: gatewayService},
	}}
	for _, address := range addresses {
		address, unready := strings.CutPrefix(address, "!")
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(!unready)},
		})
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(slice).Build()
}
