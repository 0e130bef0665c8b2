package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// request is one to the kit: what it is to do, and how.
type request struct {
	method string // GET by default
	target string // path and query, "/" by default
	do     string
	args   url.Values
	header http.Header
	body   io.Reader
	ctx    context.Context
}

// answer is a response, read in full.
type answer struct {
	status int
	header http.Header
	length int64 // Content-Length, -1 when unknown
	body   []byte
}

// client follows no redirect, adds no header of its own and never gives up before the test does.
var client = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16, ExpectContinueTimeout: time.Minute},
}

// open sends a request and leaves the body to the caller.
func (s *server) open(t *testing.T, r request) (*http.Response, error) {
	t.Helper()
	target := r.target
	if target == "" {
		target = "/"
	}
	if len(r.args) > 0 {
		target += "?" + r.args.Encode()
	}
	method := r.method
	if method == "" {
		method = http.MethodGet
	}
	ctx := r.ctx
	if ctx == nil {
		ctx = t.Context()
	}
	sent, err := http.NewRequestWithContext(ctx, method, s.url("/"), r.body)
	if err != nil {
		t.Fatal(err)
	}
	// Opaque is sent as it is, whatever stands in it.
	path, query, _ := strings.Cut(target, "?")
	sent.URL.Opaque, sent.URL.RawQuery = "//"+s.address+path, query
	for name, values := range r.header {
		sent.Header[name] = values
	}
	if r.do != "" {
		sent.Header.Set("X-Do", r.do)
	}
	return client.Do(sent)
}

// send sends a request and reads the answer.
func (s *server) send(t *testing.T, r request) answer {
	t.Helper()
	response, err := s.open(t, r)
	if err != nil {
		t.Fatalf("%s %s %s: %v", r.method, r.target, r.do, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s %s: read the answer: %v", r.method, r.target, r.do, err)
	}
	return answer{status: response.StatusCode, header: response.Header, length: response.ContentLength, body: body}
}

// invoke calls the handler with an event.
func (s *server) invoke(t *testing.T, event string) answer {
	t.Helper()
	return s.send(t, request{method: http.MethodPost, target: "/_sless/invoke", body: strings.NewReader(event)})
}

// json reads a JSON body.
func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal(a.body, &value); err != nil {
		t.Fatalf("%d %q is no JSON object: %v", a.status, a.body, err)
	}
	return value
}

// wantProblem checks an answer that the runtime itself must have made, and returns its detail.
func (a answer) wantProblem(t *testing.T, status int, code string) string {
	t.Helper()
	if a.status != status || a.header.Get("Sless-Error") != code || a.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("got %d, Sless-Error %q, Content-Type %q, body %q; want %d %s", a.status, a.header.Get("Sless-Error"), a.header.Get("Content-Type"), a.body, status, code)
	}
	value := a.json(t)
	for _, field := range []string{"type", "title", "detail", "request_id"} {
		if _, ok := value[field].(string); !ok {
			t.Errorf("the problem has no text %s: %v", field, value)
		}
	}
	if value["status"] != float64(status) || value["code"] != code {
		t.Errorf("the problem says %v %v, want %d %s", value["status"], value["code"], status, code)
	}
	detail, _ := value["detail"].(string)
	return detail
}

// wantBody checks status and body.
func (a answer) wantBody(t *testing.T, status int, body string) {
	t.Helper()
	if a.status != status || !bytes.Equal(a.body, []byte(body)) {
		t.Fatalf("got %d %.200q, want %d %.200q", a.status, a.body, status, body)
	}
}

// signs is a directory through which a test and the kit tell each other where they are.
type signs string

func newSigns(t *testing.T) signs { return signs(t.TempDir()) }

// args are the arguments that name the directory.
func (s signs) args() url.Values { return url.Values{"dir": {string(s)}} }

// release lets the kit go on.
func (s signs) release(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(string(s), "release"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// await waits for a sign of the kit and returns what it says.
func (s signs) await(t *testing.T, sign string) string {
	t.Helper()
	var text []byte
	eventually(t, "the kit says "+sign, func() bool {
		var err error
		text, err = os.ReadFile(filepath.Join(string(s), sign))
		return err == nil
	})
	return string(text)
}

// has says whether the kit gave a sign.
func (s signs) has(sign string) bool {
	_, err := os.Stat(filepath.Join(string(s), sign))
	return err == nil
}

// later sends a request in the background.
func (s *server) later(t *testing.T, r request) <-chan answer {
	t.Helper()
	answers := make(chan answer, 1)
	go func() {
		defer close(answers)
		response, err := s.open(t, r)
		if err != nil {
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil {
			answers <- answer{status: response.StatusCode, header: response.Header, length: response.ContentLength, body: body}
		}
	}()
	return answers
}

// take waits for the answer of a request in the background.
func take(t *testing.T, answers <-chan answer) answer {
	t.Helper()
	select {
	case a, ok := <-answers:
		if !ok {
			t.Fatal("the request got no answer")
		}
		return a
	case <-time.After(patience):
		t.Fatal("the request got no answer in time")
	}
	return answer{}
}
