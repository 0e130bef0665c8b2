package proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/naeel/sless/gateway/internal/route"
)

// invoke calls the internal listener.
func (s *stack) invoke(method, path, token, body string) answer {
	s.Helper()
	request := s.request(method, path, strings.NewReader(body))
	request.URL.Host = s.internal.Listener.Addr().String()
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	request.Header.Set("X-Request-Id", "tick-1")
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Cookie", "secret")
	request.Header.Set("Sless-Payload", "request")
	request.Header.Set("Traceparent", "00-1-2-01")
	return s.call(request)
}

func TestInvoke(t *testing.T) {
	s := newStack(t, "", nil)
	p := s.pod(func(w http.ResponseWriter, r *http.Request) {
		check(t, "request", []any{"POST", "/_sless/invoke", "f.sless-fn-ns"}, []any{r.Method, r.RequestURI, r.Host})
		r.Header.Del("Accept-Encoding")
		check(t, "headers", http.Header{
			"Content-Type": {"application/json"}, "Content-Length": {"7"}, "X-Request-Id": {"tick-1"}, "User-Agent": {"Go-http-client/1.1"}, "Traceparent": {"00-1-2-01"},
		}, r.Header)
		echoBody(w, r)
	})
	s.function("f", &route.Spec{Access: route.Closed, Methods: []string{"GET"}, Timeout: soon}, p)
	got := s.invoke(http.MethodPost, "/invoke/ns/f?x", operatorToken, `{"a":1}`)
	check(t, "answer", []any{200, `{"a":1}`, "tick-1"}, []any{got.status, got.body, got.header.Get("X-Request-Id")})
}

func TestInvokeRefusals(t *testing.T) {
	s := newStack(t, "", nil)
	reached := s.pod(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("a pod gets %s", r.RequestURI) })
	s.function("f", open(), reached)
	s.function("off", &route.Spec{Access: route.Disabled, Off: true, Timeout: soon}, reached)
	s.function("zero", &route.Spec{Access: route.Open, ScaledToZero: true, Timeout: soon}, reached)
	for _, test := range []struct {
		method, path, token string
		status              int
		code                string
	}{
		{"POST", "/invoke/ns/f", "", 401, "unauthorized"},
		{"POST", "/invoke/ns/f", "another", 401, "unauthorized"},
		{"POST", "/invoke/ns/none", "another", 401, "unauthorized"},
		{"POST", "/invoke/ns/none", operatorToken, 404, "no_route"},
		{"POST", "/invoke/ns/f/x", operatorToken, 404, "no_route"},
		{"POST", "/invoke/ns", operatorToken, 404, "no_route"},
		{"POST", "/fn/ns/f", operatorToken, 404, "no_route"},
		{"POST", "/", operatorToken, 404, "no_route"},
		{"GET", "/invoke/ns/f", operatorToken, 405, "method_not_allowed"},
		{"POST", "/invoke/ns/zero", operatorToken, 503, "scaled_to_zero"},
		{"POST", "/invoke/ns/off", operatorToken, 404, "disabled"},
	} {
		got := s.invoke(test.method, test.path, test.token, "{}")
		if code := got.code(t); got.status != test.status || code != test.code {
			t.Errorf("%s %s with %q: %d %s, want %d %s", test.method, test.path, test.token, got.status, code, test.status, test.code)
		}
		if test.status == 401 && got.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("WWW-Authenticate is %q", got.header.Get("WWW-Authenticate"))
		}
	}
}
