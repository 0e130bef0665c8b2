package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/gateway/internal/access"
	"github.com/naeel/sless/gateway/internal/auth"
	"github.com/naeel/sless/gateway/internal/backend"
	"github.com/naeel/sless/gateway/internal/leaktest"
	"github.com/naeel/sless/gateway/internal/metrics"
	"github.com/naeel/sless/gateway/internal/problem"
	"github.com/naeel/sless/gateway/internal/route"
	"github.com/naeel/sless/gateway/internal/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// soon is how long a test waits for what must happen: long enough for the slowest machine.
const soon = time.Minute

const operatorToken = "operator-token"

// stack is a gateway on the loopback, and the pods behind it.
type stack struct {
	testing.TB
	gateway   *Gateway
	metrics   *metrics.Metrics
	table     *route.Table
	public    *httptest.Server
	internal  *httptest.Server
	transport *transport.Transport
	h2c       *http.Transport
	room      *backend.Room
	log       *syncBuffer
	asker     backend.Asker
}

// newStack starts a gateway; change may alter its options.
func newStack(t testing.TB, domain string, change func(*Options)) *stack {
	t.Helper()
	s := &stack{TB: t, table: route.NewTable(domain), transport: transport.New(NewTransport()), log: &syncBuffer{}}
	s.metrics = metrics.New(s.table.Len, func() int { return s.room.Waiting() })
	s.h2c, s.room = NewH2C(s.transport.Other), backend.NewRoom(1000)
	s.asker = backend.NewHTTPAsker(s.transport, 100)
	options := Options{
		Table: s.table, Metrics: s.metrics, Transport: s.transport, H2C: s.h2c, Auth: auth.New(reviewer{}, []string{"operator"}),
		Access: access.New(s.log), LogRequests: LogAll,
		MaxBodyBytes: 32 << 20, BodyTimeout: soon, WaitTimeout: soon,
	}
	if change != nil {
		change(&options)
	}
	s.gateway = New(options)
	s.public = s.serve(s.gateway.Public())
	s.internal = s.serve(s.gateway.Internal())
	t.Cleanup(func() {
		s.public.CloseClientConnections()
		s.public.Close()
		s.internal.CloseClientConnections()
		s.internal.Close()
		s.gateway.Wait()
		for _, r := range s.table.All() {
			r.Pool.Close()
		}
		s.transport.CloseIdleConnections()
		s.h2c.CloseIdleConnections()
	})
	return s
}

func (s *stack) serve(handler http.Handler) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	server.Config.MaxHeaderBytes = 128 << 10
	server.Config.DisableGeneralOptionsHandler = true
	server.Start()
	return server
}

// open is the spec of a function that anybody may call.
func open() *route.Spec { return &route.Spec{Access: route.Open, Timeout: soon} }

// function makes ns/name, served by pods.
func (s *stack) function(name string, spec *route.Spec, pods ...*pod) *route.Route {
	r := &route.Route{Namespace: "ns", Name: name, Pool: backend.NewPool(s.asker, 100, s.room), Meter: s.metrics.Meter("ns", name)}
	r.SetSpec(spec)
	r.Pool.SetTargets(targetsOf(pods...), "")
	s.table.Put(r)
	s.Cleanup(r.Pool.Close) // also of one that is no longer in the table by then
	return r
}

func targetsOf(pods ...*pod) []backend.Target {
	var targets []backend.Target
	for _, p := range pods {
		targets = append(targets, backend.Target{Address: p.address, UID: p.address, Ready: true, Serving: true})
	}
	return targets
}

// pod is a server that answers health, and leaves the rest to a handler.
type pod struct {
	*httptest.Server
	address string
}

func (s *stack) pod(handler http.HandlerFunc) *pod {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI == "/_sless/health" {
			w.Header().Set("Sless-Revision", "r1")
			return
		}
		handler(w, r)
	}))
	s.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &pod{Server: server, address: server.Listener.Addr().String()}
}

// closed is a pod at whose address nothing listens, and nothing will: nobody is given that port by chance.
var closed = &pod{address: "127.0.0.1:1"}

// answer is what a caller gets.
type answer struct {
	status  int
	header  http.Header
	body    string
	trailer http.Header
}

// code returns the code of a problem document, after checking that the document is whole.
func (a answer) code(t *testing.T) string {
	t.Helper()
	var p struct {
		Type, Title, Code, Detail string
		Status                    int
		RequestID                 string `json:"request_id"`
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("%d %q is no problem document: %v", a.status, a.body, err)
	}
	if p.Status != a.status || p.Title == "" || p.Detail == "" || p.Type != "urn:sless:problem:"+p.Code || p.RequestID != a.header.Get("X-Request-Id") || p.RequestID == "" {
		t.Errorf("problem document %s with headers %v", a.body, a.header)
	}
	if got := a.header.Get("Content-Type"); got != problem.ContentType {
		t.Errorf("content type %q", got)
	}
	return p.Code
}

// call sends a request made by hand, so that no client library changes it, over a connection of its own.
func (s *stack) call(request *http.Request) answer {
	s.Helper()
	response := s.start(request)
	return s.read(response)
}

// start sends a request and returns when the head of the answer is there.
func (s *stack) start(request *http.Request) *http.Response {
	s.Helper()
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		s.Fatalf("%s %s: %v", request.Method, request.URL, err)
	}
	return response
}

func (s *stack) read(response *http.Response) answer {
	s.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatalf("read answer %d after %d bytes: %v", response.StatusCode, len(body), err)
	}
	return answer{response.StatusCode, response.Header, string(body), response.Trailer}
}

// request makes a request to the public listener whose path is sent as it is.
func (s *stack) request(method, path string, body io.Reader) *http.Request {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 2*soon)
	s.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, s.public.URL, body)
	if err != nil {
		s.Fatal(err)
	}
	path, r.URL.RawQuery, _ = strings.Cut(path, "?")
	setRawPath(r.URL, path)
	return r
}

func (s *stack) get(path string) answer {
	s.Helper()
	return s.call(s.request(http.MethodGet, path, nil))
}

func check(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// eventually waits for something that other goroutines bring about.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func receive[T any](t testing.TB, what string, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(soon):
		t.Fatalf("never: %s", what)
	}
	return got
}

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

// reviewer knows one token.
type reviewer struct{}

func (reviewer) ReviewToken(_ context.Context, token, audience string) (*authenticationv1.TokenReviewStatus, error) {
	return &authenticationv1.TokenReviewStatus{
		Authenticated: token == operatorToken, Audiences: []string{audience}, User: authenticationv1.UserInfo{Username: "operator"},
	}, nil
}

// syncBuffer is a log.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
