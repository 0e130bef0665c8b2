package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/net/websocket"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// entrance is a way in by HTTPS. Whatever host a URL names, its connections go to the local port that stands for the way.
type entrance struct {
	address string
	config  *tls.Config
}

// https returns the entrance at the local port that a variable names, which trusts the local cluster's own authority and nothing else.
func https(t *testing.T, variable, port string) *entrance {
	t.Helper()
	if set := os.Getenv(variable); set != "" {
		port = set
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(secret(t, "gateway-tls")["ca.crt"]) {
		t.Fatal("the Secret gateway-tls has no ca.crt")
	}
	return &entrance{address: net.JoinHostPort("127.0.0.1", port), config: &tls.Config{RootCAs: authorities}}
}

func atTheGateway(t *testing.T) *entrance { return https(t, "SLESS_GATEWAY_TLS_PORT", "8443") }
func atTheIngress(t *testing.T) *entrance { return https(t, "SLESS_INGRESS_PORT", "8444") }

// client speaks the best HTTP that is offered.
func (e *entrance) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: e.config.Clone(), ForceAttemptHTTP2: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, e.address)
		},
	}}
}

// do makes one request and returns status and body; the protocol must be HTTP/2.
func (e *entrance) do(t *testing.T, method, url string, body []byte, headers ...string) (int, []byte, error) {
	request, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := e.client().Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	if response.ProtoMajor != 2 {
		return 0, nil, fmt.Errorf("%s answers by %s", url, response.Proto)
	}
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, text, err
}

// answers waits until a URL is answered with this status, and returns the body. An Ingress controller may send a call after a gateway that is gone.
func (e *entrance) answers(t *testing.T, url string, status int, headers ...string) []byte {
	t.Helper()
	var body []byte
	eventually(t, fmt.Sprintf("%s is answered %d", url, status), func() error {
		got, text, err := e.do(t, "GET", url, nil, headers...)
		if err != nil {
			return err
		}
		if body = text; got != status {
			return fmt.Errorf("%d %.300s", got, text)
		}
		return nil
	})
	return body
}

// secureEcho answers with its event; /big with a digest of its body; /stream with a stream that goes on when /go is called.
const secureEcho = `import base64, hashlib, os, time
def stream():
    yield 'data: first\n\n'
    while not os.path.exists('/tmp/go'):
        time.sleep(0.05)
    yield 'data: last\n\n'
def handle(event):
    if event['path'] == '/big':
        body = base64.b64decode(event['body']) if event['isBase64Encoded'] else event['body'].encode()
        return {'bytes': len(body), 'sha256': hashlib.sha256(body).hexdigest()}
    if event['path'] == '/stream':
        return {'statusCode': 200, 'headers': {'Content-Type': 'text/event-stream'}, 'body': stream()}
    if event['path'] == '/go':
        open('/tmp/go', 'w').close()
        return 'gone'
    return {k: event[k] for k in ('path', 'headers')}
`

// arrives holds what a handler gets to know of a request that came by HTTPS.
func (e *entrance) arrives(t *testing.T, url, host, path, prefix string) {
	t.Helper()
	var event struct {
		Path    string
		Headers map[string]string
	}
	// What a caller says of itself is not what the handler hears.
	body := e.answers(t, url, http.StatusOK, "X-Forwarded-Proto", "gopher", "X-Forwarded-Host", "elsewhere.example.org")
	if err := json.Unmarshal(body, &event); err != nil {
		t.Fatalf("%s: %v: %s", url, err, body)
	}
	got := []string{event.Path, header(event.Headers, "X-Forwarded-Proto"), header(event.Headers, "X-Forwarded-Host"), header(event.Headers, "X-Forwarded-Prefix")}
	if want := []string{path, "https", host, prefix}; !slices.Equal(got, want) {
		t.Errorf("%s: path, protocol, host and prefix are %q, want %q", url, got, want)
	}
}

// header returns a header of an event, in whatever case its name is.
func header(headers map[string]string, name string) string {
	for key, value := range headers {
		if strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

func TestHTTPSAtTheGateway(t *testing.T) {
	t.Parallel()
	namespace, e := newNamespace(t), atTheGateway(t)
	apply(t, namespace, python("f", secureEcho)+httpTrigger("f"))
	waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
	url := "https://localhost:8443" + names.FunctionPath(namespace, "f")
	var event struct{ Headers map[string]string }
	status, body, err := e.do(t, "GET", url, nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d %.300s %v", status, body, err)
	}
	if err := json.Unmarshal(body, &event); err != nil {
		t.Fatal(err)
	}
	if proto := header(event.Headers, "X-Forwarded-Proto"); proto != "https" {
		t.Errorf("the handler hears of %q", proto)
	}
	var unknown x509.UnknownAuthorityError
	if _, _, err := (&entrance{e.address, &tls.Config{}}).do(t, "GET", url, nil); !errors.As(err, &unknown) {
		t.Errorf("without the authority: %v", err)
	}
	var wrongHost x509.HostnameError
	if _, _, err := e.do(t, "GET", "https://elsewhere.example.org"+names.FunctionPath(namespace, "f"), nil); !errors.As(err, &wrongHost) {
		t.Errorf("by another name: %v", err)
	}
	e.streams(t, url)
}

// The operator makes an Ingress for the host of each function, and the platform has one for the paths; both lead through the controller.
func TestHTTPSThroughAnIngress(t *testing.T) {
	t.Parallel()
	namespace, e := newNamespace(t), atTheIngress(t)
	apply(t, namespace, python("f", secureEcho, `resources: {limits: {memory: 1Gi}}`, "timeoutSeconds: 300")+httpTrigger("f"))
	waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
	trigger := waitTrigger(t, namespace, "f", "True", v1alpha1.ReasonReady)
	if want := gateway + names.FunctionPath(namespace, "f"); trigger.Status.URL != want {
		t.Errorf("the URL is %s, want %s", trigger.Status.URL, want)
	}
	host, pathHost := functionHost(t, namespace, "f"), ingressHost(t, "gateway")
	e.answers(t, "https://"+host+"/", http.StatusOK)
	e.arrives(t, "https://"+host+"/a/b?c=d", host, "/a/b", "")
	e.arrives(t, "https://"+pathHost+names.FunctionPath(namespace, "f")+"/a/b", pathHost, "/a/b", names.FunctionPath(namespace, "f"))

	big := bytes.Repeat([]byte("0123456789abcdef"), 50<<20/16)
	sum := sha256.Sum256(big)
	status, body, err := e.do(t, "POST", "https://"+host+"/big", big)
	if err != nil || status != http.StatusOK || !strings.Contains(string(body), hex.EncodeToString(sum[:])) {
		t.Errorf("50 MiB: %d %.300s %v", status, body, err)
	}
	e.streams(t, "https://"+host)

	// No Trigger, no host.
	kubectl(t, "", "delete", "trigger", "f", "-n", namespace)
	e.answers(t, "https://"+pathHost+names.FunctionPath(namespace, "f"), http.StatusNotFound)
	ingresses := &networkingv1.IngressList{}
	if err := kube.List(t.Context(), ingresses); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(ingresses.Items, func(i networkingv1.Ingress) bool { return i.Spec.Rules[0].Host == host }) {
		t.Errorf("the Ingress of %s is still there", host)
	}
}

// streams holds that the beginning of an answer comes before its end is made.
func (e *entrance) streams(t *testing.T, url string) {
	t.Helper()
	response, err := e.client().Get(url + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	next := func() string {
		for lines.Scan() {
			if lines.Text() != "" {
				return lines.Text()
			}
		}
		return fmt.Sprint("end: ", lines.Err())
	}
	if got := next(); got != "data: first" {
		t.Fatalf("the stream begins %q", got)
	}
	if status, body, err := e.do(t, "GET", url+"/go", nil); err != nil || status != http.StatusOK {
		t.Fatalf("%d %.300s %v", status, body, err)
	}
	if got := next(); got != "data: last" {
		t.Errorf("the stream goes on %q", got)
	}
}

func functionHost(t *testing.T, namespace, function string) string {
	t.Helper()
	domain := readPlatform(t).Domain
	if domain == "" {
		t.Fatal("the platform has no domain")
	}
	return names.IngressHost(namespace, function, domain)
}

// ingressHost returns the host of one of the platform's Ingresses.
func ingressHost(t *testing.T, name string) string {
	t.Helper()
	ingress := &networkingv1.Ingress{}
	if err := get(t, names.SystemNamespace, name, ingress); err != nil {
		t.Fatal(err)
	}
	return ingress.Spec.Rules[0].Host
}

// webSocketServer keeps as much of the runtime contract as serving needs, and sends back the text of each short frame.
const webSocketServer = `
const server = require('http').createServer((request, answer) => {
  answer.setHeader('Sless-Revision', process.env.SLESS_REVISION);
  answer.end('fine');
});
server.on('upgrade', (request, socket) => {
  const key = request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  const accept = require('crypto').createHash('sha1').update(key).digest('base64');
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ' + accept + '\r\n\r\n');
  socket.on('error', () => {});
  socket.on('data', (frame) => {
    const text = frame.subarray(6, 6 + (frame[1] & 127)).map((byte, i) => byte ^ frame[2 + i % 4]);
    socket.write(Buffer.concat([Buffer.from([0x81, text.length]), text]));
  });
});
server.listen(8080);
process.on('SIGTERM', () => process.exit(0));
`

func TestWebSocketByHTTPS(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	image := changedImage(t, catalogueImage(t, "nodejs20"), tenantRepository(t, namespace), func(config *v1.Config) {
		config.Entrypoint = []string{"node", "-e", webSocketServer}
	})
	apply(t, namespace, fmt.Sprintf("apiVersion: sless.io/v1alpha1\nkind: Function\nmetadata: {name: ws}\nspec: {source: {image: %q}}\n", image)+httpTrigger("ws"))
	waitFunction(t, namespace, "ws", "True", v1alpha1.ReasonReady)
	ingress, host := atTheIngress(t), functionHost(t, namespace, "ws")
	ingress.answers(t, "https://"+host+"/", http.StatusOK)
	for url, e := range map[string]*entrance{
		"wss://localhost" + names.FunctionPath(namespace, "ws"): atTheGateway(t),
		"wss://" + host + "/": ingress,
	} {
		config, err := websocket.NewConfig(url, "https://example.org")
		if err != nil {
			t.Fatal(err)
		}
		secure := e.config.Clone()
		secure.ServerName, secure.NextProtos = config.Location.Hostname(), []string{"http/1.1"}
		conn, err := tls.Dial("tcp", e.address, secure)
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		defer conn.Close()
		socket, err := websocket.NewClient(config, conn)
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		for _, said := range []string{"hello", "and again"} {
			var heard string
			if err := websocket.Message.Send(socket, said); err != nil {
				t.Fatalf("%s: %v", url, err)
			}
			if err := websocket.Message.Receive(socket, &heard); err != nil || heard != said {
				t.Fatalf("%s: heard %q, said %q: %v", url, heard, said, err)
			}
		}
	}
}
