package contract

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEventOfARequest(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		a := s.send(t, request{
			method: http.MethodPost,
			target: "/a%2Fb//c/../d%20e%zz?x=%2F&x=2&empty&plus=a+b%2Bc&%C3%BC=%C3%9F&q=??",
			header: http.Header{
				"X-Forwarded-For":    {"192.0.2.7, 198.51.100.1"},
				"X-Forwarded-Prefix": {"/fn/space/fn"},
				"X-Request-Id":       {"id-1"},
				"User-Agent":         {"test/1"},
				"x-OWN-header":       {"1", "2"},
				"X-Utf8":             {"grüße"},
			},
			body: strings.NewReader("grüße\r\n\x00"),
		})
		if a.status != http.StatusOK || a.header.Get("Content-Type") != "application/json" {
			t.Fatalf("got %d %q %s", a.status, a.header.Get("Content-Type"), a.body)
		}
		event := a.json(t)
		got := map[string]any{}
		for _, field := range []string{"httpMethod", "path", "queryStringParameters", "multiValueQueryStringParameters", "rawQueryString", "body", "isBase64Encoded"} {
			got[field] = event[field]
		}
		want := map[string]any{
			"httpMethod":            "POST",
			"path":                  "/a%2Fb//c/../d%20e%zz",
			"rawQueryString":        "x=%2F&x=2&empty&plus=a+b%2Bc&%C3%BC=%C3%9F&q=??",
			"queryStringParameters": map[string]any{"x": "2", "empty": "", "plus": "a b+c", "ü": "ß", "q": "??"},
			"multiValueQueryStringParameters": map[string]any{
				"x": []any{"/", "2"}, "empty": []any{""}, "plus": []any{"a b+c"}, "ü": []any{"ß"}, "q": []any{"??"},
			},
			"body":            "grüße\r\n\x00",
			"isBase64Encoded": false,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
		headers, _ := event["headers"].(map[string]any)
		multi, _ := event["multiValueHeaders"].(map[string]any)
		if headers["X-Own-Header"] != "2" || !cmp.Equal(multi["X-Own-Header"], []any{"1", "2"}) || headers["X-Utf8"] != "grüße" {
			t.Errorf("headers %v, multiValueHeaders %v", headers, multi)
		}
		about, _ := event["requestContext"].(map[string]any)
		identity, _ := about["identity"].(map[string]any)
		if about["requestId"] != "id-1" || about["httpMethod"] != "POST" || about["path"] != "/fn/space/fn/a%2Fb//c/../d%20e%zz" ||
			about["protocol"] != "HTTP/1.1" || identity["sourceIp"] != "192.0.2.7" || identity["userAgent"] != "test/1" {
			t.Errorf("requestContext %v", about)
		}
		if epoch, _ := about["requestTimeEpoch"].(float64); epoch < 1e9 || epoch > 1e10 {
			t.Errorf("requestTimeEpoch %v is not a number of seconds", about["requestTimeEpoch"])
		}
	})
}

func TestEventWithNothingSaid(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		event := s.send(t, request{target: "/"}).json(t)
		about, _ := event["requestContext"].(map[string]any)
		identity, _ := about["identity"].(map[string]any)
		if event["path"] != "/" || event["body"] != "" || event["isBase64Encoded"] != false || identity["sourceIp"] != "127.0.0.1" {
			t.Errorf("event %v", event)
		}
		if !cmp.Equal(event["queryStringParameters"], any(map[string]any{})) {
			t.Errorf("queryStringParameters %v, want an empty object", event["queryStringParameters"])
		}
		if id, _ := about["requestId"].(string); len(id) < 16 {
			t.Errorf("requestId %q is not a new one", id)
		}
	})
}

func TestEveryMethodReachesTheHandler(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} {
			a := s.send(t, request{method: method, target: "/x/"})
			if a.status != http.StatusOK || a.json(t)["httpMethod"] != method {
				t.Errorf("%s: %d %s", method, a.status, a.body)
			}
		}
		get := s.send(t, request{do: "value", args: map[string][]string{"name": {"text"}}})
		head := s.send(t, request{method: "HEAD", do: "value", args: map[string][]string{"name": {"text"}}})
		if head.status != http.StatusOK || head.length != int64(len(get.body)) || len(head.body) != 0 || head.header.Get("Content-Type") != get.header.Get("Content-Type") {
			t.Errorf("HEAD: %d, Content-Length %d, %v", head.status, head.length, head.header)
		}
		// A stream has no length; its head must do, and the next request of the connection must work.
		if head := s.send(t, request{method: "HEAD", do: "stream", args: map[string][]string{"name": {"text"}}}); head.status != http.StatusOK {
			t.Errorf("HEAD of a stream: %d", head.status)
		}
	})
}

func TestBodiesAreExact(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	bodies := map[string][]byte{
		"every byte":      all,
		"latin-1":         []byte("gr\xfc\xdfe"),
		"byte order mark": []byte("\xef\xbb\xbfx"),
		"line ends":       []byte("a\r\nb\rc\nd"),
		"101 KB":          bytes.Repeat([]byte("y"), 101<<10),
		"over 1 MB":       append(bytes.Repeat([]byte("äx"), 350<<10), '!'),
		"10 MB":           bytes.Repeat(all, 40<<10),
		"nothing":         {},
	}
	eachKit(t, nil, func(t *testing.T, s *server) {
		for name, body := range bodies {
			for _, chunked := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/chunked=%v", name, chunked), func(t *testing.T) {
					r := request{method: "POST", do: "raw", header: http.Header{"Content-Type": {"text/plain; charset=iso-8859-1"}}, body: bytes.NewReader(body)}
					if chunked {
						r.body = io.MultiReader(r.body) // hides the length
					}
					a := s.send(t, r)
					if a.status != http.StatusOK || sha256.Sum256(a.body) != sha256.Sum256(body) {
						t.Errorf("%d, %d bytes in, %d out", a.status, len(body), len(a.body))
					}
					if a.header.Get("Content-Type") != "application/octet-stream" || a.length != int64(len(body)) {
						t.Errorf("Content-Type %q, Content-Length %d", a.header.Get("Content-Type"), a.length)
					}
				})
			}
		}
		a := s.send(t, request{method: "POST", do: "raw64", body: bytes.NewReader(all)})
		if a.header.Get("Content-Type") != "image/png" {
			t.Errorf("Content-Type %q", a.header.Get("Content-Type"))
		}
		a.wantBody(t, http.StatusOK, string(all))
		event := s.send(t, request{method: "POST", body: bytes.NewReader(all)}).json(t)
		if event["isBase64Encoded"] != true || event["body"] != base64.StdEncoding.EncodeToString(all) {
			t.Errorf("a body that is not UTF-8 is %v %.40v", event["isBase64Encoded"], event["body"])
		}
	})
}

func TestExpectContinue(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		s.send(t, request{method: "POST", do: "raw", header: http.Header{"Expect": {"100-continue"}}, body: strings.NewReader("hello")}).wantBody(t, 200, "hello")
	})
}

// An upgrade that the runtime does not speak is none: the request is a request, with its body.
func TestUpgradeIsIgnored(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		for _, protocol := range []string{"h2c", "websocket"} {
			header := http.Header{"Connection": {"Upgrade, HTTP2-Settings"}, "Upgrade": {protocol}, "Http2-Settings": {"AAMAAABkAAQCAAAAAAIAAAAA"}}
			for range 2 { // on the same connection
				s.send(t, request{method: "POST", do: "raw", header: header, body: strings.NewReader("hello")}).wantBody(t, 200, "hello")
			}
		}
	})
}

func TestLargeHeaders(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		for _, size := range []int{8 << 10, 16 << 10, 64 << 10} {
			token := "Bearer " + strings.Repeat("x", size)
			a := s.send(t, request{header: http.Header{"Authorization": {token}}})
			if a.status == http.StatusRequestHeaderFieldsTooLarge {
				continue
			}
			headers, _ := a.json(t)["headers"].(map[string]any)
			if a.status != http.StatusOK || headers["Authorization"] != token {
				t.Errorf("%d bytes: %d", size, a.status)
			}
		}
		// One without end must end, whether or not the answer survives the bytes still on their way.
		a, err := s.open(t, request{header: http.Header{"X-Long": {strings.Repeat("x", 8<<20)}}})
		if err == nil {
			a.Body.Close()
			if a.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("8 MiB: %d", a.StatusCode)
			}
		}
		if a := s.send(t, request{}); a.status != http.StatusOK {
			t.Errorf("after it: %d", a.status)
		}
	})
}

func TestContext(t *testing.T) {
	eachKit(t, []string{"SLESS_TIMEOUT_SECONDS=300"}, func(t *testing.T, s *server) {
		got := s.send(t, request{do: "context", header: http.Header{"X-Request-Id": {"id-2"}}}).json(t)
		remaining, _ := got["remaining"].(float64)
		if remaining <= 0 || remaining > 300_000 {
			t.Errorf("remaining time %v", got["remaining"])
		}
		delete(got, "remaining")
		if diff := cmp.Diff(map[string]any{"request_id": "id-2", "name": "fn", "namespace": "space", "version": "rev-1", "traceparent": ""}, got); diff != "" {
			t.Errorf("context (-want +got):\n%s", diff)
		}
	})
}

func TestInvokeAndPayloadBody(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		payload := func(body string) answer {
			return s.send(t, request{method: "POST", target: "/any/path", header: http.Header{"Sless-Payload": {"body"}}, body: strings.NewReader(body)})
		}
		invoke := func(body string) answer { return s.invoke(t, body) }
		for name, call := range map[string]func(string) answer{"payload": payload, "invoke": invoke} {
			t.Run(name, func(t *testing.T) {
				for _, c := range []struct{ event, want string }{
					{`{"do":"echo","x":[1,null,"ü"]}`, `{"do":"echo","x":[1,null,"ü"]}`},
					{``, `null`},
					{`null`, `null`},
					{`{"do":"value","name":"text"}`, `"grüße"`},
					{`{"do":"value","name":"none"}`, `null`},
					{`{"do":"value","name":"object"}`, `{"a":{"b":"ü"}}`},
					{`{"do":"value","name":"not-modified"}`, `{"statusCode":304,"headers":{"ETag":"\"x\""}}`},
					{`{"do":"stream","name":"json"}`, `[{"n":1},{"n":2}]`},
					{`{"do":"stream","name":"json","async":true}`, `[{"n":1},{"n":2}]`},
					{`{"do":"stream","name":"bytes"}`, `["AP8=","gA=="]`},
				} {
					a := call(c.event)
					var got, want any
					if err := json.Unmarshal(a.body, &got); err != nil {
						t.Errorf("%s: %d %q is no JSON: %v", c.event, a.status, a.body, err)
						continue
					}
					if err := json.Unmarshal([]byte(c.want), &want); err != nil {
						t.Fatal(err)
					}
					if a.status != http.StatusOK || a.header.Get("Content-Type") != "application/json" || !cmp.Equal(got, want) {
						t.Errorf("%s: %d %s, want %s", c.event, a.status, a.body, c.want)
					}
				}
				call(`{"a":`).wantProblem(t, http.StatusBadRequest, "bad_request")
			})
		}
		// What an exception says is for the function's own people.
		if detail := invoke(`{"do":"raise"}`).wantProblem(t, 500, "function_failed"); !strings.Contains(detail, "Error: secret of the handler") {
			t.Errorf("invoke hides the error: %q", detail)
		}
		if detail := payload(`{"do":"raise"}`).wantProblem(t, 500, "function_failed"); strings.Contains(detail, "secret") {
			t.Errorf("the outside sees the error: %q", detail)
		}
	})
}

func TestControlPaths(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		health := s.send(t, request{target: "/_sless/health"})
		if health.status != http.StatusOK || health.header.Get("Sless-Revision") != "rev-1" {
			t.Errorf("health: %d, Sless-Revision %q", health.status, health.header.Get("Sless-Revision"))
		}
		s.send(t, request{method: "POST", target: "/_sless/health"}).wantProblem(t, http.StatusMethodNotAllowed, "method_not_allowed")
		s.send(t, request{target: "/_sless/invoke"}).wantProblem(t, http.StatusMethodNotAllowed, "method_not_allowed")
		s.send(t, request{target: "/_sless/"}).wantProblem(t, http.StatusNotFound, "not_found")
		s.send(t, request{target: "/_sless/health/"}).wantProblem(t, http.StatusNotFound, "not_found")
		// The prefix is matched on the raw path: these are the handler's.
		for _, path := range []string{"/_sless", "/_sless%2Fhealth", "/%5Fsless/health", "//_sless/health", "/x/_sless/health", "/_SLESS/health"} {
			if event := s.send(t, request{target: path}).json(t); event["path"] != path {
				t.Errorf("%s reached the handler as %v", path, event["path"])
			}
		}
	})
}
