package trigger

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/api/v1alpha1"
)

func tokenFile(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func problem(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"code": "`+code+`", "detail": "secret-of-the-tenant"}`)
	}
}

var aCall = Call{Namespace: "ns", Function: "f", ID: strings.Repeat("1d", 16), Event: `{"a": 1}`, Timeout: time.Minute, StartWithin: time.Millisecond}

func TestCallSaysWhoCallsAndWhat(t *testing.T) {
	type seen struct{ Method, Path, Token, ID, Trace, Type, Body string }
	var got seen
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = seen{r.Method, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("X-Request-Id"), strings.Split(r.Header.Get("Traceparent"), "-")[1], r.Header.Get("Content-Type"), string(body)}
		_, _ = io.WriteString(w, `"fine"`)
	}))
	defer server.Close()
	gateway := NewGateway(server.URL+"/", tokenFile(t, "first\n"))
	if outcome := gateway.Call(t.Context(), aCall); outcome.Result != v1alpha1.RunSucceeded || outcome.Message != "" || outcome.Started.IsZero() || outcome.Duration <= 0 {
		t.Errorf("outcome %+v", outcome)
	}
	want := seen{"POST", "/invoke/ns/f", "Bearer first", aCall.ID, aCall.ID, "application/json", `{"a": 1}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(gateway.TokenFile, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway.Call(t.Context(), aCall)
	if got.Token != "Bearer second" {
		t.Errorf("a renewed token is not used: %s", got.Token)
	}
}

func TestAnswersBecomeResults(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		result  v1alpha1.RunResult
		message string
	}{
		{"200", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "null") }, v1alpha1.RunSucceeded, ""},
		{"204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, v1alpha1.RunSucceeded, ""},
		{"an answer larger than anybody reads", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", 4*discardLimit))
		}, v1alpha1.RunSucceeded, ""},
		{"no endpoint", problem(503, "no_endpoint"), v1alpha1.RunRefused, "no_endpoint (503): no replica"},
		{"scaled to zero", problem(503, "scaled_to_zero"), v1alpha1.RunRefused, "scaled_to_zero (503): the function has replicas 0"},
		{"over limit", problem(429, "over_limit"), v1alpha1.RunRefused, "over_limit (429)"},
		{"no such function", problem(404, "no_route"), v1alpha1.RunRefused, "no_route (404)"},
		{"not authorised", problem(401, "unauthorized"), v1alpha1.RunRefused, "does not accept the operator's token"},
		{"handler error", problem(500, "function_failed"), v1alpha1.RunFailed, "function_failed (500): the handler ended with an error"},
		{"pod gone", problem(502, "function_failed"), v1alpha1.RunFailed, "function_failed (502)"},
		{"time-out", problem(504, "function_timeout"), v1alpha1.RunFailed, "function_timeout (504)"},
		{"a code of tomorrow", problem(599, "secret-of-the-tenant"), v1alpha1.RunFailed, "answered 599"},
		{"not a problem document", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret-of-the-tenant", 503) }, v1alpha1.RunFailed, "answered 503"},
		{"a redirect is not followed", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", 307) }, v1alpha1.RunFailed, "answered 307"},
		{"broken off before the answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, v1alpha1.RunFailed, "broke before the answer"},
		{"broken off in the answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "short")
		}, v1alpha1.RunFailed, "broke off"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var calls atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				test.handler(w, r)
			}))
			defer server.Close()
			outcome := NewGateway(server.URL, tokenFile(t, "token-of-the-operator")).Call(t.Context(), aCall)
			if outcome.Result != test.result || !strings.Contains(outcome.Message, test.message) || (test.message == "") != (outcome.Message == "") {
				t.Errorf("outcome %+v, want %s with %q", outcome, test.result, test.message)
			}
			if strings.Contains(outcome.Message, "secret-of-the-tenant") || len(outcome.Message) > 512 {
				t.Errorf("the message has what the answer said: %q", outcome.Message)
			}
			if calls.Load() != 1 {
				t.Errorf("called %d times", calls.Load())
			}
		})
	}
}

func TestOnlyWhatNoHandlerHasSeenIsTriedAgain(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) <= 2 {
			problem(503, "no_endpoint")(w, r)
			return
		}
		_, _ = io.WriteString(w, "null")
	}))
	defer server.Close()
	call := aCall
	call.StartWithin = time.Minute
	if outcome := NewGateway(server.URL, tokenFile(t, "x")).Call(t.Context(), call); outcome.Result != v1alpha1.RunSucceeded || calls.Load() != 3 {
		t.Errorf("%+v after %d calls", outcome, calls.Load())
	}

	calls.Store(0)
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		problem(500, "function_failed")(w, r)
	}))
	defer failing.Close()
	if outcome := NewGateway(failing.URL, tokenFile(t, "x")).Call(t.Context(), call); outcome.Result != v1alpha1.RunFailed || calls.Load() != 1 {
		t.Errorf("%+v after %d calls", outcome, calls.Load())
	}
}

// A gateway that is away for a moment loses no tick: nothing was sent.
func TestCallWaitsForAGatewayThatComes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "null") }))
	defer server.Close()
	gateway := NewGateway(server.URL, tokenFile(t, "x"))
	away := 1 // dials that fail
	transport := gateway.client.Transport.(*http.Transport)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if away--; away >= 0 {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
		}
		return dial(ctx, network, address)
	}
	if outcome := gateway.Call(t.Context(), aCall); outcome.Result != v1alpha1.RunRefused || outcome.Message != "the gateway can't be reached" {
		t.Errorf("without a gateway: %+v", outcome)
	}
	away = 2
	call := aCall
	call.StartWithin = time.Minute
	if outcome := gateway.Call(t.Context(), call); outcome.Result != v1alpha1.RunSucceeded {
		t.Errorf("when it has come: %+v", outcome)
	}
}

func TestCallEnds(t *testing.T) {
	release := make(chan struct{})
	called := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		called <- struct{}{}
		<-release
	}))
	defer server.Close()
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan Outcome)
	go func() { done <- NewGateway(server.URL, tokenFile(t, "x")).Call(ctx, aCall) }()
	<-called
	cancel()
	if outcome := <-done; outcome.Result != v1alpha1.RunReplaced {
		t.Errorf("a call that was ended: %+v", outcome)
	}
	call := aCall
	call.Timeout = -answerSlack + 50*time.Millisecond
	if outcome := NewGateway(server.URL, tokenFile(t, "x")).Call(t.Context(), call); outcome.Result != v1alpha1.RunFailed || outcome.Message != "no answer in the function's time" {
		t.Errorf("a call without an answer: %+v", outcome)
	}
}

func TestCallWithoutAToken(t *testing.T) {
	gateway := NewGateway("http://127.0.0.1:1", filepath.Join(t.TempDir(), "none"))
	if outcome := gateway.Call(t.Context(), aCall); outcome.Result != v1alpha1.RunRefused || !strings.Contains(outcome.Message, "token") {
		t.Errorf("%+v", outcome)
	}
}
