package contract

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func value(name string) request {
	return request{do: "value", args: url.Values{"name": {name}}}
}

func TestReturnedValues(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	cases := []struct {
		name, contentType, body string
		status                  int
		json                    bool
	}{
		{name: "text", status: 200, contentType: "text/plain; charset=utf-8", body: "grüße"},
		{name: "empty", status: 200, contentType: "text/plain; charset=utf-8"},
		{name: "bytes", status: 200, contentType: "application/octet-stream", body: string(all)},
		{name: "none", status: 204},
		{name: "number", status: 200, contentType: "application/json", body: "42"},
		{name: "false", status: 200, contentType: "application/json", body: "false"},
		{name: "list", status: 200, contentType: "application/json", body: `[1,"a",null]`},
		{name: "object", status: 200, contentType: "application/json", body: `{"a":{"b":"ü"}}`},
		{name: "described", status: 201, contentType: "application/json", body: `{"made":true}`},
		{name: "cookies", status: 200, contentType: "text/plain; charset=utf-8", body: "ok"},
		{name: "no-content", status: 204},
		{name: "not-modified", status: 304},
		{name: "redirect", status: 302},
		{name: "own-status", status: 500, contentType: "text/plain; charset=utf-8", body: "mine"},
		{name: "platform-headers", status: 200, contentType: "text/plain; charset=utf-8", body: "four"},
	}
	eachKit(t, nil, func(t *testing.T, s *server) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				a := s.send(t, value(c.name))
				a.wantBody(t, c.status, c.body)
				if a.header.Get("Content-Type") != c.contentType {
					t.Errorf("Content-Type %q, want %q", a.header.Get("Content-Type"), c.contentType)
				}
				if a.header.Get("Sless-Error") != "" || a.header.Get("Sless-Overload") != "" {
					t.Errorf("the handler's own answer is marked as the runtime's: %v", a.header)
				}
			})
		}
		if a := s.send(t, value("described")); a.header.Get("X-One") != "1" || a.header.Get("X-Two") != "2" {
			t.Errorf("headers %v", a.header)
		}
		if a := s.send(t, value("cookies")); !cmp.Equal(a.header["Set-Cookie"], []string{"a=1", "b=2"}) {
			t.Errorf("Set-Cookie %q", a.header["Set-Cookie"])
		}
		if a := s.send(t, value("redirect")); a.header.Get("Location") != "/else%2Fwhere" {
			t.Errorf("Location %q", a.header.Get("Location"))
		}
	})
}

func TestAnswersThatCannotBe(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		for _, name := range []string{"bad-status", "bad-header", "bad-header-name", "bad-base64", "no-json"} {
			s.send(t, value(name)).wantProblem(t, http.StatusInternalServerError, "function_failed")
		}
		s.send(t, value("text")).wantBody(t, 200, "grüße")
	})
}

func TestHandlerRaises(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		a := s.send(t, request{do: "raise", header: http.Header{"X-Request-Id": {"id-of-the-raise"}}})
		if detail := a.wantProblem(t, http.StatusInternalServerError, "function_failed"); strings.Contains(detail, "secret") {
			t.Errorf("the outside sees the error: %q", detail)
		}
		if a.json(t)["request_id"] != "id-of-the-raise" {
			t.Errorf("request_id %v", a.json(t)["request_id"])
		}
		eventually(t, "the log has the error, its place and the request's id", func() bool {
			log := s.log(t)
			return strings.Contains(log, "[id-of-the-raise] sless: the handler ") && strings.Contains(log, "secret of the handler") && strings.Contains(log, "kit.")
		})
	})
}

func TestStreams(t *testing.T) {
	cases := []struct{ name, contentType, body string }{
		{"text", "text/plain; charset=utf-8", "one two"},
		{"bytes", "application/octet-stream", "\x00\xff\x80"},
		{"json", "text/plain; charset=utf-8", "{\"n\":1}\n{\"n\":2}\n"},
		{"none", "text/plain; charset=utf-8", ""},
	}
	eachKit(t, nil, func(t *testing.T, s *server) {
		for _, c := range cases {
			for _, kind := range []string{"", "async", "described"} {
				t.Run(c.name+"/"+kind, func(t *testing.T) {
					args := url.Values{"name": {c.name}}
					status, contentType := 200, c.contentType
					if kind != "" {
						args.Set(kind, "1")
					}
					if kind == "described" {
						status, contentType = 201, "text/event-stream"
					}
					a := s.send(t, request{do: "stream", args: args})
					compact := strings.NewReplacer(`": `, `":`)
					a.body = []byte(compact.Replace(string(a.body)))
					a.wantBody(t, status, c.body)
					if a.header.Get("Content-Type") != contentType {
						t.Errorf("Content-Type %q, want %q", a.header.Get("Content-Type"), contentType)
					}
				})
			}
		}
		a := s.send(t, request{do: "flood", args: url.Values{"parts": {"300"}}})
		if a.status != 200 || len(a.body) != 300*65536 {
			t.Errorf("a long stream: %d, %d bytes", a.status, len(a.body))
		}
	})
}

func TestStreamIsFlushed(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		signs := newSigns(t)
		response, err := s.open(t, request{do: "events", args: signs.args()})
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		lines := bufio.NewReader(response.Body)
		// The handler goes on only after this line was read, so a runtime that waits for the end would never end.
		if line, err := lines.ReadString('\n'); line != "data: 1\n" {
			t.Fatalf("first line %q, %v", line, err)
		}
		signs.release(t)
		rest, err := io.ReadAll(lines)
		if err != nil || string(rest) != "\ndata: 2\n\n" {
			t.Errorf("rest %q, %v", rest, err)
		}
		signs.await(t, "closed")
	})
}

// A stream that fails must not look complete.
func TestStreamBreaks(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		response, err := s.open(t, request{do: "broken"})
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if string(body) != "first" || err == nil {
			t.Errorf("got %q, %v; want an error after the first part", body, err)
		}
		eventually(t, "the error is in the log", func() bool { return strings.Contains(s.log(t), "secret of the stream") })
		s.send(t, value("text")).wantBody(t, 200, "grüße")
	})
}

func TestBodyLimit(t *testing.T) {
	eachKit(t, []string{"SLESS_MAX_BODY_BYTES=1000"}, func(t *testing.T, s *server) {
		s.send(t, request{method: "POST", do: "raw", body: strings.NewReader(strings.Repeat("x", 1000))}).wantBody(t, 200, strings.Repeat("x", 1000))
		long := strings.Repeat("x", 1001)
		s.send(t, request{method: "POST", do: "raw", body: strings.NewReader(long)}).wantProblem(t, http.StatusRequestEntityTooLarge, "body_too_large")
		s.send(t, request{method: "POST", do: "raw", body: io.MultiReader(strings.NewReader(long))}).wantProblem(t, http.StatusRequestEntityTooLarge, "body_too_large")
		s.send(t, value("text")).wantBody(t, 200, "grüße")
	})
}

func TestBodyThatStopsComing(t *testing.T) {
	eachKit(t, []string{"SLESS_BODY_IDLE_SECONDS=1"}, func(t *testing.T, s *server) {
		reader, writer := io.Pipe()
		defer writer.Close()
		go func() { _, _ = writer.Write([]byte("a part")) }()
		s.send(t, request{method: "POST", do: "raw", body: reader}).wantProblem(t, http.StatusRequestTimeout, "body_timeout")
	})
}
