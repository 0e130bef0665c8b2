package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/config"
)

// startOwn starts an apiserver for one test, and returns what ends it.
func startOwn(t testing.TB, extra string) (*instance, context.CancelFunc) {
	t.Helper()
	settings, err := around.settings(t.TempDir(), extra)
	if err != nil {
		t.Fatal(err)
	}
	return startWith(t, settings, slog.New(slog.DiscardHandler))
}

func startWith(t testing.TB, settings *config.Config, log *slog.Logger) (*instance, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	own, err := start(ctx, settings, log)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	return own, cancel
}

func clientOf(t testing.TB, own *instance, config rest.Config) *rest.Client {
	t.Helper()
	config.Endpoint, config.RetryFor = own.endpoint, -1
	client, err := rest.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestOneCallerCantTakeEverything(t *testing.T) {
	own, _ := startOwn(t, "apiserver: {limits: {requestsPerSecond: 0.001, burst: 3}}")
	one, other := newTenant(t), newTenant(t)
	greedy := clientOf(t, own, rest.Config{Token: one.token})
	for range 3 {
		if _, err := greedy.Functions(one.namespace).List(t.Context(), rest.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
	_, err := greedy.Functions(one.namespace).List(t.Context(), rest.ListOptions{})
	wantCode(t, err, 429, rest.CodeRateLimited)
	if _, err := clientOf(t, own, rest.Config{Token: other.token}).Functions(other.namespace).List(t.Context(), rest.ListOptions{}); err != nil {
		t.Errorf("another caller: %v", err)
	}
}

func TestGuessingTokensIsLimited(t *testing.T) {
	tenant := newTenant(t)
	path := "/v1/namespaces/" + tenant.namespace + "/functions"
	direct, _ := startOwn(t, "apiserver: {auth: {badTokensPerMinute: 3}}")
	behind, _ := startOwn(t, "apiserver: {auth: {badTokensPerMinute: 3}, trustedProxies: [127.0.0.0/8]}")
	for about, own := range map[string]*instance{"direct": direct, "behind a proxy": behind} {
		if response, body := sendTo(t, own, tenant.token, "GET", path, nil); response.StatusCode != 200 {
			t.Fatalf("%s: %d %s", about, response.StatusCode, body)
		}
		guess := func(token, caller string) (*http.Response, string) {
			return sendTo(t, own, token, "GET", path, nil, "X-Forwarded-For", caller)
		}
		for i := range 3 {
			response, body := guess(fmt.Sprint("guess-", i), "192.0.2.1")
			wantProblem(t, response, body, 401, rest.CodeUnauthenticated)
		}
		response, body := guess("guess", "192.0.2.1")
		wantProblem(t, response, body, 429, rest.CodeRateLimited)
		if wait := response.Header.Get("Retry-After"); wait == "" || wait == "0" {
			t.Errorf("%s: Retry-After %q", about, wait)
		}
		if response, _ := guess(tenant.token, "192.0.2.1"); response.StatusCode != 200 {
			t.Errorf("%s: who was known already gets %d", about, response.StatusCode)
		}
		// Without a trusted proxy nobody can say that he is somebody else.
		want := map[bool]int{true: 401, false: 429}[own == behind]
		if response, _ := guess("guess", "192.0.2.2"); response.StatusCode != want {
			t.Errorf("%s: another caller gets %d, want %d", about, response.StatusCode, want)
		}
	}
}

func TestABodyMustKeepComing(t *testing.T) {
	own, _ := startOwn(t, "apiserver: {limits: {bodyIdleSeconds: 1}}")
	tenant := newTenant(t)
	for _, path := range []string{"/functions", "/sources"} {
		connection, err := net.Dial("tcp", strings.TrimPrefix(own.endpoint, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		fmt.Fprintf(connection, "POST /v1/namespaces/%s%s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\nPK", tenant.namespace, path, tenant.token)
		if err := connection.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		response, body := readAnswer(t, connection)
		wantProblem(t, response, body, 408, rest.CodeBodyTimeout)
	}
}

func readAnswer(t *testing.T, connection net.Conn) (*http.Response, string) {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response, string(must[[]byte](t)(io.ReadAll(response.Body)))
}

func TestAnAnswerInFlightIsGivenBeforeTheEnd(t *testing.T) {
	own, end := startOwn(t, "")
	tenant := newTenant(t)
	client := clientOf(t, own, rest.Config{Token: tenant.token})
	ready := func() int {
		response, err := http.Get(own.admin + "/readyz")
		if err != nil {
			return 0
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	if ready() != 200 {
		t.Error("not ready")
	}
	answered := make(chan error, 1)
	go func() {
		_, err := client.Functions(tenant.namespace).Replace(t.Context(), "hello", hello(""), rest.WaitReady(time.Hour))
		answered <- err
	}()
	if err := eventually(func() error {
		_, err := tenant.Functions(tenant.namespace).Get(t.Context(), "hello", rest.Fresh())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	end()
	if err := <-answered; err != nil {
		t.Errorf("a wait that the end cut short: %v", err)
	}
	if err := <-own.ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if status := ready(); status == 200 {
		t.Error("ready after the end")
	}
}

func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "apiserver"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, text := range map[string][]byte{"tls.crt": cert, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own, _ := startOwn(t, fmt.Sprintf("apiserver: {tls: {certFile: %q, keyFile: %q}}", filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")))
	own.endpoint = strings.Replace(own.endpoint, "http:", "https:", 1)
	tenant := newTenant(t)
	if _, err := clientOf(t, own, rest.Config{Token: tenant.token, CACert: cert}).Functions(tenant.namespace).List(t.Context(), rest.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := clientOf(t, own, rest.Config{Token: tenant.token}).Functions(tenant.namespace).List(t.Context(), rest.ListOptions{}); err == nil {
		t.Error("a certificate of nobody was trusted")
	}
	old := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}
	if connection, err := tls.Dial("tcp", strings.TrimPrefix(own.endpoint, "https://"), old); err == nil {
		connection.Close()
		t.Error("TLS 1.1 was spoken")
	}
}

func TestMetricsHaveRoutesNotPaths(t *testing.T) {
	tenant := newTenant(t)
	for _, name := range []string{"series-a", "series-b"} {
		_, err := tenant.Functions(tenant.namespace).Get(t.Context(), name)
		wantCode(t, err, 404, rest.CodeNotFound)
		send(t, tenant.token, "GET", "/v1/"+name, nil)
	}
	response, err := http.Get(shared.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text := string(must[[]byte](t)(io.ReadAll(response.Body)))
	if strings.Contains(text, "series-") || strings.Contains(text, tenant.namespace) {
		t.Error("a path is in a label")
	}
	if !strings.Contains(text, `route="GET /v1/namespaces/{namespace}/functions/{name}",status="404"`) {
		t.Error("the route is not counted")
	}
}

// logged collects what is logged.
type logged struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

// Write implements io.Writer.
func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestEveryWriteIsInTheAuditLogWithoutSecrets(t *testing.T) {
	settings, err := around.settings(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	log := &logged{}
	own, _ := startWith(t, settings, slog.New(slog.NewJSONHandler(log, nil)))
	tenant := newTenant(t)
	client := clientOf(t, own, rest.Config{Token: tenant.token})
	fn := hello("hello")
	const secret = "hunter2-hunter2"
	fn.SecretEnv, fn.Env = map[string]string{"TOKEN": secret}, map[string]string{"PLAIN": secret}
	must[rest.Stored[rest.Function]](t)(client.Functions(tenant.namespace).Create(t.Context(), fn))
	fn.Name, fn.TimeoutSec = "refused", new(int32(4000))
	_, err = client.Functions(tenant.namespace).Create(t.Context(), fn)
	wantCode(t, err, 422, rest.CodeInvalid)
	must[rest.Stored[rest.Function]](t)(client.Functions(tenant.namespace).Get(t.Context(), "hello"))
	_, err = clientOf(t, own, rest.Config{Token: secret}).Functions(tenant.namespace).Get(t.Context(), "hello")
	wantCode(t, err, 401, rest.CodeUnauthenticated)
	if err := client.Functions(tenant.namespace).Delete(t.Context(), "hello"); err != nil {
		t.Error(err)
	}
	want := []string{`"create" functions hello 201`, `"create" functions refused 422`, `"delete" functions hello 204`}
	var got []string
	err = eventually(func() error { // the line comes after the answer
		got = nil
		for line := range strings.Lines(log.String()) {
			var entry struct {
				Msg, User, Action, Resource, Namespace, Name string
				Status                                       int
				RequestID                                    string `json:"request_id"`
			}
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				return err
			}
			if entry.Msg != "audit" {
				continue
			}
			if !strings.HasPrefix(entry.User, "system:serviceaccount:"+tenant.namespace) || entry.Namespace != tenant.namespace || entry.RequestID == "" {
				return fmt.Errorf("got %s", line)
			}
			got = append(got, fmt.Sprintf("%q %s %s %d", entry.Action, entry.Resource, entry.Name, entry.Status))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, hidden := range []string{secret, tenant.token} {
		if strings.Contains(log.String(), hidden) {
			t.Errorf("the log has a secret: %s", log.String())
		}
	}
}
