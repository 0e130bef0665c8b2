package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// server answers with the handlers one after the other, the last one for ever.
func server(t *testing.T, handlers ...http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	calls := &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers[min(int(calls.Add(1)), len(handlers))-1](w, r)
	}))
	t.Cleanup(s.Close)
	return s, calls
}

func client(t *testing.T, config Config) *Client {
	t.Helper()
	if config.Token == "" && config.TokenFile == "" {
		config.Token = "token"
	}
	c, err := NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func fails(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the client may see its own write fail first
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(NewProblem(status, code, "for a test"))
	}
}

func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // the client notices
	w.Header().Set("ETag", `"1"`)
	if len(body) == 0 {
		body = []byte("{}")
	}
	_, _ = w.Write(body)
}

func TestWhatIsSentAgain(t *testing.T) {
	get := func(c *Client) error { _, err := c.Functions("ns").Get(t.Context(), "f"); return err }
	create := func(c *Client) error {
		_, err := c.Functions("ns").Create(t.Context(), Function{Name: "f"})
		return err
	}
	replace := func(options ...Option) func(*Client) error {
		return func(c *Client) error {
			_, err := c.Functions("ns").Replace(t.Context(), "f", Function{}, options...)
			return err
		}
	}
	keyed := func(c *Client) error {
		_, err := c.Jobs("ns").Create(t.Context(), Job{}, IdempotencyKey("k"))
		return err
	}
	upload := func(c *Client) error {
		_, err := c.Upload(t.Context(), "ns", strings.NewReader(`{"key":"k"}`))
		return err
	}
	invoke := func(c *Client) error { _, err := c.Invoke(t.Context(), "ns", "f", []byte("{}")); return err }
	for name, test := range map[string]struct {
		call  func(*Client) error
		first http.HandlerFunc
		calls int64
	}{
		"get, away":               {get, fails(503, CodeKubernetesUnavailable), 2},
		"get, broken off":         {get, breaks, 2},
		"get, bad gateway":        {get, fails(502, "x"), 2},
		"get, internal":           {get, fails(500, CodeInternal), 1},
		"get, absent":             {get, fails(404, CodeNotFound), 1},
		"create, away":            {create, fails(503, CodeKubernetesUnavailable), 1},
		"create, broken off":      {create, breaks, 1},
		"create, limited":         {create, fails(429, CodeRateLimited), 2},
		"create, taken":           {create, fails(409, CodeAlreadyExists), 1},
		"replace, away":           {replace(), fails(503, CodeKubernetesUnavailable), 2},
		"replace, conflict":       {replace(IfMatch(`"0"`)), fails(409, CodeConflict), 2},
		"replace if, broken":      {replace(IfMatch(`"0"`)), breaks, 1},
		"replace absent, away":    {replace(IfAbsent()), fails(503, CodeKubernetesUnavailable), 1},
		"job with key, broken":    {keyed, breaks, 2},
		"upload, away":            {upload, fails(503, CodeObjectStoreAway), 2},
		"invoke, scaled to zero":  {invoke, fails(503, "scaled_to_zero"), 1},
		"invoke, broken off":      {invoke, breaks, 1},
		"no problem, bad gateway": {get, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", 502) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, calls := server(t, test.first, echo)
			err := test.call(client(t, Config{Endpoint: s.URL}))
			if calls.Load() != test.calls || (err == nil) != (test.calls == 2) {
				t.Errorf("%d calls, error %v", calls.Load(), err)
			}
		})
	}
}

func TestABodyIsSentWholeTheSecondTime(t *testing.T) {
	s, _ := server(t, fails(503, CodeObjectStoreAway), func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_ = json.NewEncoder(w).Encode(SourceUpload{Key: r.Header.Get("Content-Digest"), Size: int64(len(body))})
	})
	uploaded, err := client(t, Config{Endpoint: s.URL}).Upload(t.Context(), "ns", bytes.NewReader(make([]byte, 1000)))
	if err != nil || uploaded.Size != 1000 || !strings.HasPrefix(uploaded.Key, "sha-256=:") {
		t.Errorf("got %+v %v", uploaded, err)
	}
}

func TestRetryAfterIsHonouredAndBounded(t *testing.T) {
	s, calls := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "1")
		fails(429, CodeRateLimited)(w, r)
	}, echo)
	began := time.Now()
	if _, err := client(t, Config{Endpoint: s.URL}).Functions("ns").Get(t.Context(), "f"); err != nil || time.Since(began) < time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	calls.Store(0)
	if _, err := client(t, Config{Endpoint: s.URL, RetryFor: 500 * time.Millisecond}).Functions("ns").Get(t.Context(), "f"); err == nil || calls.Load() != 1 {
		t.Errorf("it was waited for longer than allowed: %v", err)
	}
	late, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3600")
		fails(429, CodeRateLimited)(w, r)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	_, err := client(t, Config{Endpoint: late.URL, RetryFor: 2 * time.Hour}).Functions("ns").Get(ctx, "f")
	if problem, ok := errors.AsType[*Problem](err); !ok || problem.Code != CodeRateLimited {
		t.Errorf("beyond the deadline the error is %v", err)
	}
}

func TestTheTokenFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	s, calls := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer new" {
			fails(401, CodeUnauthenticated)(w, r)
			return
		}
		echo(w, r)
	})
	c := client(t, Config{Endpoint: s.URL, TokenFile: path})
	write("new")
	if _, err := c.Functions("ns").Create(t.Context(), Function{Name: "f"}); err != nil || calls.Load() != 2 {
		t.Errorf("%d calls, error %v", calls.Load(), err)
	}
	write("newer and bad")
	calls.Store(0)
	if _, err := c.Functions("ns").Get(t.Context(), "f"); err != nil || calls.Load() != 1 {
		t.Errorf("a token that is good was read again: %d calls, error %v", calls.Load(), err)
	}
	write("bad")
	bad := client(t, Config{Endpoint: s.URL, TokenFile: path})
	calls.Store(0)
	if _, err := bad.Functions("ns").Get(t.Context(), "f"); err == nil || calls.Load() != 1 || strings.Contains(err.Error(), "bad ") {
		t.Errorf("%d calls, error %v", calls.Load(), err)
	}
}

func TestNamesAreEscapedAndTokensStayHere(t *testing.T) {
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/base/v1/namespaces/n%2Fs/functions/a%25b%20c%3F" {
			t.Errorf("path %s", r.URL.EscapedPath())
		}
		echo(w, r)
	})
	if _, err := client(t, Config{Endpoint: s.URL + "/base/"}).Functions("n/s").Get(t.Context(), "a%b c?"); err != nil {
		t.Error(err)
	}
	other, calls := server(t, echo)
	redirecting, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	if _, err := client(t, Config{Endpoint: redirecting.URL}).Functions("ns").Get(t.Context(), "f"); err == nil || calls.Load() != 0 {
		t.Errorf("a redirect was followed: %v", err)
	}
}

func TestEmptyMapsAreSentAndAbsentOnesAreNot(t *testing.T) {
	text, err := json.Marshal(Function{Labels: map[string]string{}, SecretEnv: map[string]string{}})
	if err != nil || string(text) != `{"labels":{},"secret_env":{}}` {
		t.Errorf("got %s %v", text, err)
	}
}

func TestAnEndpointMustBeAURL(t *testing.T) {
	for _, endpoint := range []string{"", "api.example.org", "ftp://x", "http://"} {
		if _, err := NewClient(Config{Endpoint: endpoint}); err == nil {
			t.Errorf("%q is taken", endpoint)
		}
	}
}
