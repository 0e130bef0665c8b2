package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

const pythonEcho = `import base64
def handle(event, context):
    if event['path'] == '/redirect':
        return {'statusCode': 302, 'headers': {'Location': '/elsewhere'}}
    if event['path'] == '/stream':
        return ('data: %d\n\n' % n for n in range(3))
    if event['path'] == '/bytes':
        return base64.b64decode(event['body']) if event['isBase64Encoded'] else event['body'].encode()
    return {k: event[k] for k in ('httpMethod', 'path', 'rawQueryString', 'headers', 'body', 'requestContext')}
`

const nodeEcho = `exports.handle = async (event) => {
  if (event.path === '/redirect') return { statusCode: 302, headers: { Location: '/elsewhere' } };
  if (event.path === '/stream') return (async function* () { for (let n = 0; n < 3; n++) yield ` + "`data: ${n}\\n\\n`" + `; })();
  if (event.path === '/bytes') return Buffer.from(event.body, event.isBase64Encoded ? 'base64' : 'utf8');
  const { httpMethod, path, rawQueryString, headers, body, requestContext } = event;
  return { httpMethod, path, rawQueryString, headers, body, requestContext };
};
`

// What a caller sends reaches the handler as sent, and what it answers the caller, with both runtimes.
func TestHTTP(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	for name, manifest := range map[string]string{"echo-python": python("echo-python", pythonEcho), "echo-node": node("echo-node", nodeEcho)} {
		apply(t, namespace, manifest+httpTrigger(name))
	}
	for _, name := range []string{"echo-python", "echo-node"} {
		waitFunction(t, namespace, name, "True", v1alpha1.ReasonReady)
		echo := func(method, rest, body string) map[string]any {
			t.Helper()
			got := mustCall(t, method, namespace, name, rest, body, 200)
			event := map[string]any{}
			if err := json.Unmarshal([]byte(got.body), &event); err != nil {
				t.Fatalf("%s: %v: %s", name, err, got.body)
			}
			return event
		}
		for rest, path := range map[string]string{"": "/", "/": "/", "/x/y": "/x/y", "/a%2Fb%20c?x=%2F&x=2": "/a%2Fb%20c", "//a/../b": "//a/../b"} {
			event := echo("GET", rest, "")
			if event["path"] != path {
				t.Errorf("%s %s: path %v, want %s", name, rest, event["path"], path)
			}
			if strings.Contains(rest, "?") && event["rawQueryString"] != "x=%2F&x=2" {
				t.Errorf("%s: query %v", name, event["rawQueryString"])
			}
		}
		if event := echo("PATCH", "", "täxt"); event["httpMethod"] != "PATCH" || event["body"] != "täxt" {
			t.Errorf("%s: %v %v", name, event["httpMethod"], event["body"])
		}

		head := mustCall(t, "HEAD", namespace, name, "/bytes", "", 200)
		if head.body != "" {
			t.Errorf("%s: HEAD with a body", name)
		}
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		response, err := client.Get(gateway + names.FunctionPath(namespace, name) + "/redirect")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 302 || response.Header.Get("Location") != "/elsewhere" {
			t.Errorf("%s: redirect answered %d to %q", name, response.StatusCode, response.Header.Get("Location"))
		}

		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		big := bytes.Repeat(all, 8192) // 2 MiB, sent without a length
		request, _ := http.NewRequestWithContext(t.Context(), "POST", gateway+names.FunctionPath(namespace, name)+"/bytes", io.MultiReader(bytes.NewReader(big)))
		response, err = http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !bytes.Equal(got, big) {
			t.Errorf("%s: bytes out are not the bytes in: %d of %d, %v: %.100s", name, len(got), len(big), err, base64.StdEncoding.EncodeToString(got[:min(len(got), 60)]))
		}

		response, err = http.Get(gateway + names.FunctionPath(namespace, name) + "/stream")
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(response.Body)
		var events []string
		for lines.Scan() {
			if lines.Text() != "" {
				events = append(events, lines.Text())
			}
		}
		response.Body.Close()
		if strings.Join(events, " ") != "data: 0 data: 1 data: 2" {
			t.Errorf("%s: streamed %q", name, events)
		}

		// The platform's own paths and headers stay inside.
		if got, err := call(t, "POST", namespace, name, "/_sless/invoke", "{}"); err != nil || got.status == 200 {
			t.Errorf("%s: the internal path answers from outside: %d %s %v", name, got.status, got.body, err)
		}
	}
}

// A handler past its time-out is answered 504 and the function goes on; one that raises is answered 500 without its secrets.
func TestHandlerFaults(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	apply(t, namespace, python("f", `import time
def handle(event):
    if event['path'] == '/slow':
        time.sleep(600)
    if event['path'] == '/raise':
        raise ValueError('the secret is Sesame')
    return 'fine'
`, "timeoutSeconds: 2")+httpTrigger("f"))
	waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
	if got := mustCall(t, "GET", namespace, "f", "/slow", "", 504); !strings.Contains(got.body, "function_timeout") {
		t.Errorf("got %s", got.body)
	}
	if got := mustCall(t, "GET", namespace, "f", "/raise", "", 500); strings.Contains(got.body, "Sesame") {
		t.Errorf("the caller is told %s", got.body)
	}
	eventually(t, "the function goes on", func() error { return answers(t, "GET", namespace, "f", 200, "fine") })
}
