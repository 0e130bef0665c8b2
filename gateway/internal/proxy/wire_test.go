package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/naeel/sless/gateway/internal/access"
	"github.com/naeel/sless/gateway/internal/backend"
	"github.com/naeel/sless/gateway/internal/metrics"
	"github.com/naeel/sless/gateway/internal/route"
)

// wire takes the place of network and pods. It answers every request the same, after showing it to see, if that is set.
type wire struct {
	see func(*http.Request)
}

// RoundTrip answers.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.see != nil {
		w.see(r)
	}
	return &http.Response{
		StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: 2, Body: io.NopCloser(strings.NewReader("ok")),
		Header: http.Header{"Content-Type": {"text/plain"}, "Content-Length": {"2"}},
	}, nil
}

// onWire returns a gateway on a wire, with one function ns/f, and what counts its requests.
func onWire(t testing.TB, w *wire) (*Gateway, *metrics.Metrics) {
	table := route.NewTable("")
	counters := metrics.New(table.Len, func() int { return 0 })
	r := &route.Route{Namespace: "ns", Name: "f", Pool: backend.NewPool(backend.NewHTTPAsker(w, 1), 10, backend.NewRoom(10)), Meter: counters.Meter("ns", "f")}
	r.SetSpec(&route.Spec{Access: route.Open, Timeout: soon, Concurrency: 100})
	r.Pool.SetTargets([]backend.Target{{Address: "10.0.0.1:8080", UID: "1", Ready: true, Serving: true}}, "")
	t.Cleanup(r.Pool.Close)
	eventually(t, "the pod is asked", func() bool { return r.Pool.Settled() })
	table.Put(r)
	return New(Options{
		Table: table, Metrics: counters, Transport: w, H2C: w, Access: access.New(io.Discard), LogRequests: LogAll,
		MaxBodyBytes: 32 << 20, BodyTimeout: soon, WaitTimeout: soon,
	}), counters
}

// nowhere is a caller that takes everything and keeps nothing.
type nowhere struct{ header http.Header }

// Header returns the headers.
func (n *nowhere) Header() http.Header { return n.header }

// WriteHeader does nothing.
func (n *nowhere) WriteHeader(int) {}

// Write does nothing.
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }

// maxExtraAllocations is how many allocations more than a bare ReverseProxy a request may cost.
const maxExtraAllocations = 10

// TestAllocations compares the allocations of a request with everything switched on with those of a bare ReverseProxy, on the same wire.
func TestAllocations(t *testing.T) {
	w := &wire{}
	gateway, _ := onWire(t, w)
	bare := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "10.0.0.1:8080"})
			r.SetXForwarded()
		},
		Transport: w, BufferPool: newBufferPool(), ErrorLog: log.New(io.Discard, "", 0),
	}
	count := func(handler http.Handler) float64 {
		request := httptest.NewRequest(http.MethodGet, "/fn/ns/f/some/path?q=1", nil)
		request.Header.Set("User-Agent", "test")
		request.Header.Set("Accept", "*/*")
		caller := &nowhere{header: http.Header{}}
		return testing.AllocsPerRun(1000, func() {
			clear(caller.header)
			handler.ServeHTTP(caller, request)
		})
	}
	ours, theirs := count(gateway.Public()), count(bare)
	t.Logf("%v allocations, of which a bare ReverseProxy makes %v", ours, theirs)
	if ours-theirs > maxExtraAllocations {
		t.Errorf("a request costs %v allocations more than in a bare ReverseProxy, not %d at most", ours-theirs, maxExtraAllocations)
	}
}

// TestTenThousandOfEverything holds that what callers make up makes no series.
func TestTenThousandOfEverything(t *testing.T) {
	gateway, counters := onWire(t, &wire{})
	noise := func(n int) int {
		for range n {
			word := fmt.Sprintf("x%x", rand.Uint64())
			for _, path := range []string{"/fn/ns/f/" + word, "/fn/ns/" + word, "/fn/" + word + "/f", "/" + word, "/invoke/ns/" + word} {
				request := httptest.NewRequest(strings.ToUpper(word), path+"?"+word, nil)
				request.Host = word + ".example.org"
				request.Header.Set("User-Agent", word)
				request.Header.Set("X-Request-Id", word)
				gateway.Public().ServeHTTP(&nowhere{header: http.Header{}}, request)
			}
		}
		families, err := counters.Gatherer().Gather()
		if err != nil {
			t.Fatal(err)
		}
		series := 0
		for _, family := range families {
			if strings.HasPrefix(family.GetName(), "sless_") {
				series += len(family.Metric)
			}
		}
		return series
	}
	check(t, "series", noise(1), noise(10_000))
}

// FuzzRequest sends any request that Go's server takes through the whole gateway, and looks at what would reach the pod's wire: the path and
// the query as they were sent, nothing of the platform's that the caller said itself, and one request only.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][3]string{
		{"/fn/ns/f", "Accept", "*/*"}, {"/fn/ns/f/a%2Fb//../x?y=%2F&y=2&;", "X-Sless-Event", "1"}, {"/fn/ns/f//x", "Sless_Payload", "body"},
		{"http://h/fn/ns/f/x?", "Connection", "close, X-Request-Id"}, {"/fn/ns/f/_sless/invoke", "X-Forwarded-For", "6.6.6.6"},
		{"/fn/ns/f/%5fsless/invoke", "Transfer-Encoding", "chunked"}, {"/fn/ns/f/?a?b", "Content-Length", "5"}, {"/fn/ns/f/x#y", "Host", "b"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	seen := &wire{}
	gateway, _ := onWire(f, seen)
	f.Fuzz(func(t *testing.T, target, name, value string) {
		raw := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: h\r\n%s: %s\r\n\r\n", target, name, value)
		request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil {
			return
		}
		request.RemoteAddr = "1.2.3.4:5"
		var sent bytes.Buffer
		seen.see = func(out *http.Request) {
			if err := out.Write(&sent); err != nil {
				sent.Reset() // what can't be written reaches nobody
			}
		}
		gateway.Public().ServeHTTP(&nowhere{header: http.Header{}}, request)
		if sent.Len() == 0 {
			return
		}
		reader := bufio.NewReader(&sent)
		got, err := http.ReadRequest(reader)
		if err != nil {
			t.Fatalf("%q is sent as what no server takes: %v", raw, err)
		}
		_, _ = io.Copy(io.Discard, got.Body)
		if left, _ := io.ReadAll(reader); len(left) > 0 {
			t.Fatalf("%q is followed by %q", raw, left)
		}
		path, _ := route.ParsePath(route.RawPath(request.RequestURI))
		if route.IsReserved(route.RawPath(got.RequestURI)) {
			t.Errorf("%q reaches %q", raw, got.RequestURI)
		}
		want := path.Rest
		if _, query, found := strings.Cut(request.RequestURI, "?"); found {
			want += "?" + query
		}
		if got.RequestURI != want && !strings.HasPrefix(want, "//") && !strings.Contains(want, "#") {
			t.Errorf("%q arrives as %q, want %q", raw, got.RequestURI, want)
		}
		if forwarded := got.Header["X-Forwarded-For"]; len(forwarded) != 1 || forwarded[0] != "1.2.3.4" {
			t.Errorf("%q says it is for %q", raw, forwarded)
		}
		for name := range got.Header {
			if plain := strings.ReplaceAll(strings.ToLower(name), "_", "-"); strings.HasPrefix(plain, "sless-") || strings.HasPrefix(plain, "x-sless-") {
				t.Errorf("%q lets %s through", raw, name)
			}
		}
	})
}
