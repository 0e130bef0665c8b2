package proxy

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/naeel/sless/gateway/internal/route"
)

// echoHeaders answers with the headers it got, and the host as one of them.
func echoHeaders(w http.ResponseWriter, r *http.Request) {
	r.Header.Set("Host", r.Host)
	_ = json.NewEncoder(w).Encode(r.Header)
}

func (s *stack) headers(a answer) http.Header {
	s.Helper()
	h := http.Header{}
	if err := json.Unmarshal([]byte(a.body), &h); err != nil {
		s.Fatalf("%d %q: %v", a.status, a.body, err)
	}
	return h
}

// spoofed is what a caller says that it may not.
var spoofed = http.Header{
	"X-Forwarded-For":     {"6.6.6.6, 7.7.7.7"},
	"X-Forwarded-Host":    {"evil.example"},
	"X-Forwarded-Proto":   {"https"},
	"X-Forwarded-Prefix":  {"/evil"},
	"X-Forwarded-Port":    {"1"},
	"X_forwarded_for":     {"6.6.6.6"},
	"X-Real-Ip":           {"6.6.6.6"},
	"Forwarded":           {"for=6.6.6.6"},
	"X-Request-Id":        {"chosen"},
	"X_request_id":        {"chosen"},
	"Sless-Payload":       {"body"},
	"Sless_payload":       {"body"},
	"sLESS-Revision":      {"r"},
	"X-Sless-Anything":    {"x"},
	"Connection":          {"X-Hop, Sless-Payload, X-Request-Id"},
	"X-Hop":               {"1"},
	"Proxy-Authorization": {"secret"},
	"Authorization":       {"Bearer user's own"},
	"Slessness":           {"kept"},
	"Traceparent":         {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
}

func TestHeadersOfStrangers(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", open(), s.pod(echoHeaders))
	request := s.request(http.MethodGet, "/fn/ns/f/x", nil)
	request.Header = spoofed.Clone()
	request.Host = "caller.example:8080"
	answer := s.call(request)
	got := s.headers(answer)
	id := answer.header.Get("X-Request-Id")
	if len(id) != 32 {
		t.Errorf("request id %q", id)
	}
	delete(got, "Accept-Encoding")
	check(t, "headers at the pod", http.Header{
		"Host":               {"caller.example:8080"},
		"X-Forwarded-For":    {"127.0.0.1"},
		"X-Forwarded-Host":   {"caller.example:8080"},
		"X-Forwarded-Proto":  {"http"},
		"X-Forwarded-Prefix": {"/fn/ns/f"},
		"X-Request-Id":       {id},
		"Authorization":      {"Bearer user's own"},
		"Slessness":          {"kept"},
		"Traceparent":        spoofed["Traceparent"],
		"User-Agent":         {"Go-http-client/1.1"},
	}, got)
}

func TestHeadersOfTrustedProxies(t *testing.T) {
	s := newStack(t, "", func(o *Options) { o.TrustedProxies = []netip.Prefix{prefix("127.0.0.0/8"), prefix("7.7.7.0/24")} })
	s.function("f", open(), s.pod(echoHeaders))
	request := s.request(http.MethodGet, "/fn/ns/f/x", nil)
	request.Header = spoofed.Clone()
	request.Header.Set("X-Forwarded-For", "1.1.1.1, 6.6.6.6")
	request.Header.Add("X-Forwarded-For", "7.7.7.7")
	answer := s.call(request)
	got := s.headers(answer)
	// 1.1.1.1 is what the caller at 6.6.6.6 says of itself.
	check(t, "X-Forwarded-For", "6.6.6.6, 7.7.7.7, 127.0.0.1", got.Get("X-Forwarded-For"))
	check(t, "X-Forwarded-Host", "evil.example", got.Get("X-Forwarded-Host"))
	check(t, "X-Forwarded-Proto", "https", got.Get("X-Forwarded-Proto"))
	check(t, "X-Forwarded-Prefix", "/fn/ns/f", got.Get("X-Forwarded-Prefix"))
	check(t, "request id", []string{"chosen", "chosen"}, []string{got.Get("X-Request-Id"), answer.header.Get("X-Request-Id")})
	check(t, "payload", "", got.Get("Sless-Payload"))
	eventually(t, "the client is logged", func() bool { return strings.Contains(s.log.String(), `"client":"6.6.6.6"`) })
}

func TestRequestIDs(t *testing.T) {
	for id, want := range map[string]bool{
		"": false, "a": true, "A-1_2.3:/+=@": true, "a b": false, "a\"b": false, "a\\b": false, "ü": false, "a\x7f": false,
		strings.Repeat("a", 128): true, strings.Repeat("a", 129): false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["X-Request-Id"] = []string{id}
		if got := requestID(r, true); (got == id) != want {
			t.Errorf("%q becomes %q", id, got)
		}
		if got := requestID(r, false); got == id {
			t.Errorf("%q of a stranger is kept", id)
		}
	}
}

func TestClientAddress(t *testing.T) {
	g := &Gateway{Options: Options{TrustedProxies: []netip.Prefix{prefix("10.0.0.0/8"), prefix("fd00::/8")}}}
	for _, test := range []struct {
		remote, forwarded, client, chain string
		trusted                          bool
	}{
		{"1.2.3.4:5", "9.9.9.9", "1.2.3.4", "1.2.3.4", false},
		{"[2001:db8::1]:5", "", "2001:db8::1", "2001:db8::1", false},
		{"[::ffff:1.2.3.4]:5", "", "1.2.3.4", "1.2.3.4", false},
		{"10.0.0.1:5", "", "10.0.0.1", "10.0.0.1", true},
		{"[::ffff:10.0.0.1]:5", "9.9.9.9", "9.9.9.9", "9.9.9.9, 10.0.0.1", true},
		{"[fd00::1%eth0]:5", "2001:db8::2", "2001:db8::2", "2001:db8::2, fd00::1", true},
		{"10.0.0.1:5", "10.0.0.3,10.0.0.2", "10.0.0.3", "10.0.0.3, 10.0.0.2, 10.0.0.1", true},
		{"10.0.0.1:5", "8.8.8.8, 9.9.9.9 ,10.0.0.2", "9.9.9.9", "9.9.9.9, 10.0.0.2, 10.0.0.1", true},
		{"10.0.0.1:5", "9.9.9.9, unknown, 10.0.0.2", "10.0.0.2", "10.0.0.2, 10.0.0.1", true},
		{"10.0.0.1:5", ",,", "10.0.0.1", "10.0.0.1", true},
		{"@", "9.9.9.9", "@", "@", false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = test.remote
		if test.forwarded != "" {
			r.Header.Set("X-Forwarded-For", test.forwarded)
		}
		got := g.identify(r)
		check(t, test.remote+" for "+test.forwarded, []any{test.client, test.chain, test.trusted}, []any{got.client, got.chain, got.trusted})
	}
}

func TestPayloadHeader(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", &route.Spec{Access: route.Open, PayloadBody: true, Timeout: soon}, s.pod(echoHeaders))
	check(t, "payload", "body", s.headers(s.get("/fn/ns/f")).Get("Sless-Payload"))
}

func TestAnswersHeaders(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", open(), s.pod(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Sless-Error", "function_failed")
		w.Header().Set("Sless-Revision", "r1")
		w.Header().Set("X-Request-Id", "the pod's")
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		w.Header().Set("Location", "http://elsewhere/x?y")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	got := s.get("/fn/ns/f")
	check(t, "status", http.StatusTemporaryRedirect, got.status)
	check(t, "Location", "http://elsewhere/x?y", got.header.Get("Location"))
	check(t, "cookies", []string{"a=1", "b=2"}, got.header["Set-Cookie"])
	check(t, "platform's", []string{"", ""}, []string{got.header.Get("Sless-Error"), got.header.Get("Sless-Revision")})
	if id := got.header["X-Request-Id"]; len(id) != 1 || len(id[0]) != 32 {
		t.Errorf("request id %q", id)
	}
	eventually(t, "the runtime's code is logged", func() bool { return strings.Contains(s.log.String(), `"code":"function_failed"`) })
}

// FuzzHeaders holds that no spelling of a header gets what is the platform's to a pod.
func FuzzHeaders(f *testing.F) {
	for _, seed := range []string{"Sless-Payload", "sless_payload", "X-SLESS-x", "x_request_id", "X-Forwarded_For", "Accept", "Slessness", "X-Requests"} {
		f.Add(seed)
	}
	spec := open()
	f.Fuzz(func(t *testing.T, name string) {
		c := &call{inbound: httptest.NewRequest(http.MethodGet, "/", nil), spec: spec, id: "id", peer: peer{chain: "1.2.3.4"}}
		h := http.Header{name: {"evil"}}
		c.writeHeaders(h)
		for name, values := range h {
			plain := strings.ReplaceAll(strings.ToLower(name), "_", "-")
			ours := strings.HasPrefix(plain, "sless-") || strings.HasPrefix(plain, "x-forwarded-") || plain == "x-request-id"
			if ours && values[0] == "evil" {
				t.Errorf("%q gets through", name)
			}
		}
		if h.Get("X-Request-Id") != "id" || h.Get("X-Forwarded-For") != "1.2.3.4" {
			t.Errorf("%q spoils %v", name, h)
		}
	})
}
