package function

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
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
	door, port := closedDoor(t, [4]byte{127, 0, 0, 2})
	asker := &GatewayPods{
		Client: endpoints(t, "127.0.0.2"), HTTP: answering(map[string]string{"127.0.0.2": `{"enabled":true,"revisions":{"new":1}}`}), AdminPort: port,
	}
	key := client.ObjectKey{Namespace: "shop", Name: "hello"}
	met := make(chan error)
	go func() { met <- asker.Start(t.Context()) }()
	if got := asker.Routing(t.Context(), key, "new"); !got.Early || got.Complete || got.Again == 0 {
		t.Errorf("nobody lets it in: got %+v", got)
	}
	if err := syscall.Listen(door, 1); err != nil {
		t.Fatal(err)
	}
	if err := <-met; err != nil {
		t.Fatal(err)
	}
	if got := asker.Routing(t.Context(), key, "new"); !got.Complete || got.Early {
		t.Errorf("it is let in: got %+v", got)
	}
}

// closedDoor returns a socket that has a port of the address, which nobody else gets meanwhile, and refuses connections until it listens.
func closedDoor(t *testing.T, address [4]byte) (door int, port string) {
	t.Helper()
	door, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(door) }) // nothing depends on it any more
	if err := syscall.Bind(door, &syscall.SockaddrInet4{Addr: address}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(door)
	if err != nil {
		t.Fatal(err)
	}
	return door, strconv.Itoa(bound.(*syscall.SockaddrInet4).Port)
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
	asker := &GatewayPods{Client: endpoints(t, "127.0.0.2", "127.0.0.3", "!127.0.0.4"), HTTP: answering(answers), AdminPort: "9090"}
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

// answering is a client of gateways that answer at once, each with the text for its address: what is asked of them is not a matter of time.
func answering(answers map[string]string) *http.Client {
	return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		status := http.StatusOK
		if r.URL.Path != "/routes/shop/hello" {
			status = http.StatusTeapot
		}
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(answers[r.URL.Hostname()]))}, nil
	})}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

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
