package proxy

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/gateway/internal/route"
)

// raw sends bytes to the public listener and returns the answer: what no client library would send.
func (s *stack) raw(text string) *http.Response {
	s.Helper()
	conn, err := net.Dial("tcp", s.public.Listener.Addr().String())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(soon))
	if _, err := conn.Write([]byte(text)); err != nil {
		s.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.Fatal(err)
	}
	return response
}

// echoTarget answers with the request target as it came over the wire.
func echoTarget(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Prefix", r.Header.Get("X-Forwarded-Prefix"))
	fmt.Fprint(w, r.RequestURI)
}

func TestPathArrivesAsSent(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", open(), s.pod(echoTarget))
	for _, rest := range []string{
		"", "/", "//", "/x/y", "/x/", "/a%2Fb%20c?x=%2F&x=2", "/..", "/../../other/g", "/./x", "//x//y", "/%2e%2e/x", "/%5fsless/invoke", "/%5Fsless/health",
		"//_sless/health", "/./_sless/health", "/_SLESS/health", "/_slessx", "/x?", "/?", "?", "?a=1;b=2&c=%zz&d", "/x?a=/fn/ns/g", "/;p=1/:@!$&'()*+,=", "/~-._", "/\"<>^`{|}\\",
		"/ümlaut", "/%C3%BC", "/http://example.org/x", "//example.org/x", "/x#y", "/*",
	} {
		response := s.raw("GET /fn/ns/f" + rest + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		want := rest
		if !strings.HasPrefix(want, "/") {
			want = "/" + want
		}
		if got := s.read(response); got.body != want || got.header.Get("Prefix") != "/fn/ns/f" {
			t.Errorf("%q arrives as %q (%d) below %q", rest, got.body, got.status, got.header.Get("Prefix"))
		}
	}
	got := s.read(s.raw("GET http://other/fn/ns/f/x%2Fy?z HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"))
	check(t, "absolute form", "/x%2Fy?z", got.body)
}

func TestNoWayIn(t *testing.T) {
	s := newStack(t, "", nil)
	reached := s.pod(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("a pod gets %s %s", r.Method, r.RequestURI) })
	s.function("f", open(), reached)
	s.function("closed", &route.Spec{Access: route.Closed, Timeout: soon}, reached)
	s.function("off", &route.Spec{Access: route.Disabled, Timeout: soon}, reached)
	s.function("zero", &route.Spec{Access: route.Open, ScaledToZero: true, Timeout: soon}, reached)
	s.function("post", &route.Spec{Access: route.Open, Methods: []string{"POST", "PUT"}, Allow: "POST, PUT", Timeout: soon}, reached)
	for _, test := range []struct {
		line   string
		status int
		code   string
	}{
		{"GET /fn/ns/f/_sless/health", 404, "no_route"},
		{"POST /fn/ns/f/_sless/invoke", 404, "no_route"},
		{"GET /fn/ns/f/_sless", 404, "no_route"},
		{"GET /fn/ns/f/_sless/../x", 404, "no_route"},
		{"POST http://h/fn/ns/f/_sless/invoke", 404, "no_route"},
		{"GET /", 404, "no_route"},
		{"GET /fn/ns", 404, "no_route"},
		{"GET /fn/ns/g", 404, "no_route"},
		{"GET /fn/other/f", 404, "no_route"},
		{"GET /FN/ns/f", 404, "no_route"},
		{"GET //fn/ns/f", 404, "no_route"},
		{"GET /x/../fn/ns/f", 404, "no_route"},
		{"GET /fn/ns%2Ff", 404, "no_route"},
		{"GET /fn/ns/%66", 404, "no_route"},
		{"GET /_sless/health", 404, "no_route"},
		{"POST /invoke/ns/f", 404, "no_route"},
		{"GET /metrics", 404, "no_route"},
		{"OPTIONS *", 404, "no_route"},
		{"CONNECT /fn/ns/f", 405, "method_not_allowed"},
		{"GET /fn/ns/closed", 404, "no_route"},
		{"GET /fn/ns/off/x", 404, "disabled"},
		{"GET /fn/ns/zero", 503, "scaled_to_zero"},
		{"GET /fn/ns/post", 405, "method_not_allowed"},
		{"OPTIONS /fn/ns/post", 405, "method_not_allowed"},
	} {
		got := s.read(s.raw(test.line + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"))
		if code := got.code(t); got.status != test.status || code != test.code {
			t.Errorf("%s: %d %s, want %d %s", test.line, got.status, code, test.status, test.code)
		}
		if test.code == "scaled_to_zero" && got.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", test.line)
		}
		if strings.HasSuffix(test.line, "/post") {
			check(t, "Allow", "POST, PUT", got.header.Get("Allow"))
		}
	}
}

func TestHosts(t *testing.T) {
	s := newStack(t, "fn.example.org", nil)
	r := s.function("f", open(), s.pod(echoTarget))
	host := "f-ns-" + hashOf(t, r) + ".fn.example.org"
	for _, test := range []struct {
		host, path, want string
		status           int
	}{
		{host, "/x%2Fy/..?z", "/x%2Fy/..?z", 200},
		{strings.ToUpper(host), "/", "/", 200},
		{host + ":8080", "/", "/", 200},
		{host + ".", "/", "/", 200},
		{host, "/fn/ns/f/x", "/fn/ns/f/x", 200}, // a path of the function's own
		{host, "/_sless/health", "", 404},
		{"g-ns-00000000.fn.example.org", "/fn/ns/f", "", 404},
		{"x." + host, "/", "", 404},
		{"fn.example.org", "/fn/ns/f/x", "/x", 200}, // no function's host
		{"other.example.org", "/fn/ns/f/x", "/x", 200},
		{"[::1]:80", "/fn/ns/f/x", "/x", 200},
	} {
		got := s.read(s.raw("GET " + test.path + " HTTP/1.1\r\nHost: " + test.host + "\r\nConnection: close\r\n\r\n"))
		if got.status != test.status || got.status == 200 && got.body != test.want {
			t.Errorf("%s%s: %d %q", test.host, test.path, got.status, got.body)
		}
	}
}

// hashOf returns the hash in the host of a function.
func hashOf(t *testing.T, r *route.Route) string {
	t.Helper()
	label, _, _ := strings.Cut(names.IngressHost(r.Namespace, r.Name, "x"), ".")
	return label[strings.LastIndexByte(label, '-')+1:]
}
