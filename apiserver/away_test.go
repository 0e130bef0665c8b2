package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/api/rest"
)

// flaky is a connection to the cluster that can be away, for some paths or all.
type flaky struct {
	next http.RoundTripper
	away *atomic.Pointer[string] // what the path must contain
}

func (f flaky) RoundTrip(request *http.Request) (*http.Response, error) {
	if part := f.away.Load(); part != nil && strings.Contains(request.URL.Path, *part) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	return f.next.RoundTrip(request)
}

// TestAClusterThatIsAway takes away, one after the other, what a request needs of Kubernetes.
func TestAClusterThatIsAway(t *testing.T) {
	settings, err := around.settings(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	away := &atomic.Pointer[string]{}
	kube := asAPIServer()
	kube.Wrap(func(next http.RoundTripper) http.RoundTripper { return flaky{next, away} })
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	own, err := startOn(ctx, kube, settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for part, code := range map[string]string{
		"/tokenreviews": rest.CodeAuthUnavailable, "/subjectaccessreviews": rest.CodeKubernetesUnavailable, "/apis/sless.io": rest.CodeKubernetesUnavailable,
		"/pods": rest.CodeLogsUnavailable,
	} {
		tenant := newTenant(t) // nothing is known of its token yet
		operations := [][2]string{{"POST", "functions"}, {"GET", "functions"}, {"DELETE", "functions/hello"}, {"PUT", "functions/hello"}}
		if part == "/pods" {
			must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), hello("hello")))
			operations = [][2]string{{"GET", "functions/hello/logs"}}
		}
		for _, operation := range operations {
			away.Store(&part)
			response, body := sendTo(t, own, tenant.token, operation[0], "/v1/namespaces/"+tenant.namespace+"/"+operation[1],
				strings.NewReader(`{"runtime": "r", "source": {"image": "a/b"}}`))
			away.Store(nil)
			wantProblem(t, response, body, http.StatusServiceUnavailable, code)
			if response.Header.Get("Retry-After") == "" || strings.Contains(body, "refused") {
				t.Errorf("%s: %v %s", part, response.Header, body)
			}
		}
		if _, err := clientOf(t, own, rest.Config{Token: tenant.token}).Functions(tenant.namespace).List(t.Context(), rest.ListOptions{}); err != nil {
			t.Errorf("once it is back: %v", err)
		}
	}
}

func TestAnObjectStoreThatIsAway(t *testing.T) {
	settings, err := around.settings(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	settings.ObjectStore.Endpoint = "http://127.0.0.1:1"
	own, _ := startWith(t, settings, slog.New(slog.DiscardHandler))
	tenant := newTenant(t)
	must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), hello("hello")))
	archive := string(archiveOf(t, map[string]string{"handler.py": "x"}))
	for _, operation := range [][2]string{{"POST", "sources"}, {"PUT", "functions/hello/code"}} {
		response, body := sendTo(t, own, tenant.token, operation[0], "/v1/namespaces/"+tenant.namespace+"/"+operation[1], strings.NewReader(archive))
		wantProblem(t, response, body, http.StatusServiceUnavailable, rest.CodeObjectStoreAway)
		if response.Header.Get("Retry-After") == "" || strings.Contains(body, "127.0.0.1") {
			t.Errorf("%v %s", response.Header, body)
		}
	}
}

// raw sends bytes as they are and reads the answer; nothing more comes after them.
func raw(t *testing.T, text string) (*http.Response, string) {
	t.Helper()
	connection, err := net.Dial("tcp", strings.TrimPrefix(shared.endpoint, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, text); err != nil {
		t.Fatal(err)
	}
	if err := connection.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := connection.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return readAnswer(t, connection)
}

func TestABodyShorterThanItsLength(t *testing.T) {
	tenant := newTenant(t)
	must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), hello("hello")))
	for _, operation := range []string{"POST %s/functions", "POST %s/sources", "PUT %s/functions/hello/code", "PATCH %s/functions/hello"} {
		line := fmt.Sprintf(operation, "/v1/namespaces/"+tenant.namespace)
		response, body := raw(t, line+" HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "+tenant.token+"\r\nContent-Length: 100\r\n\r\nPK")
		wantProblem(t, response, body, http.StatusBadRequest, rest.CodeIncompleteBody)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	response, _ := raw(t, "GET /v1/docs HTTP/1.1\r\nHost: a\r\nX-Long: "+strings.Repeat("x", 200<<10)+"\r\n\r\n")
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %d", response.StatusCode)
	}
}

// TestTwoReplicas sends the requests of one program to two replicas in turn, as a Service does.
func TestTwoReplicas(t *testing.T) {
	var replicas []*url.URL
	for range 2 {
		own, _ := startOwn(t, "")
		replicas = append(replicas, must[*url.URL](t)(url.Parse(own.endpoint)))
	}
	var next atomic.Int64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := &http.Server{Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(replicas[next.Add(1)%2]) }}}
	go service.Serve(listener)
	t.Cleanup(func() { service.Close() })
	tenant := newTenant(t)
	client, err := rest.NewClient(rest.Config{Endpoint: "http://" + listener.Addr().String(), Token: tenant.token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	functions := client.Functions(tenant.namespace)
	fn := hello("hello")
	fn.SecretEnv = map[string]string{"TOKEN": "s3cr3t"}
	made := must[rest.Stored[rest.Function]](t)(functions.Create(t.Context(), fn))
	for range 4 {
		same := must[rest.Stored[rest.Function]](t)(functions.Replace(t.Context(), "hello", fn))
		read := must[rest.Stored[rest.Function]](t)(functions.Get(t.Context(), "hello", rest.Fresh()))
		if diff := cmp.Diff([]string{made.ETag, made.ETag}, []string{same.ETag, read.ETag}); diff != "" {
			t.Errorf("the other replica sees another state: %s", diff)
		}
	}
	for i := range 10 {
		now := must[rest.Stored[rest.Function]](t)(functions.Patch(t.Context(), "hello", map[string]any{"code_hash": fmt.Sprint(i)}))
		must[rest.Stored[rest.Function]](t)(functions.Patch(t.Context(), "hello", map[string]any{"timeout_sec": i + 1}, rest.IfMatch(now.ETag)))
	}
	job := rest.Job{Function: "hello", RunID: 1}
	first := must[rest.Stored[rest.Job]](t)(client.Jobs(tenant.namespace).Create(t.Context(), job, rest.IdempotencyKey("k")))
	again := must[rest.Stored[rest.Job]](t)(client.Jobs(tenant.namespace).Create(t.Context(), job, rest.IdempotencyKey("k")))
	if first.Object.UID != again.Object.UID {
		t.Error("the other replica ran it again")
	}
}
