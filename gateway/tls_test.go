package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/naeel/sless/api/names"
)

// writeCertificate writes a certificate for localhost with a serial number of its own.
func writeCertificate(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyText, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: keyText}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// echoFunction makes a function whose pod says what it got.
func echoFunction(t *testing.T, ns string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI == names.HealthPath {
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprintf(w, "%s %s %s %s %s", r.Proto, r.Header.Get("X-Forwarded-Proto"), r.Host, r.RequestURI, body)
		w.Header().Set("X-Sum", "7")
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	create(t, namespace(ns, nil), namespace("sless-fn-"+ns, managed), function(ns, "f"), trigger(ns, "f", "f"))
	endpoint := discoveryv1.Endpoint{Addresses: []string{"10.77.0.9"}, TargetRef: &corev1.ObjectReference{UID: "echo"}}
	create(t, slice("sless-fn-"+ns, ns, "f", endpoint, server))
}

// exchange sends a body with a transport and says what came back, as which protocol.
func (p *program) exchange(transport *http.Transport, scheme, ns string) string {
	p.Helper()
	defer transport.CloseIdleConnections()
	listener := map[string]string{"http": "public", "https": "tls"}[scheme]
	url := scheme + strings.TrimPrefix(p.url(listener, "/fn/"+ns+"/f/a%2Fb//..?x=%2F"), "http")
	request, err := http.NewRequestWithContext(p.Context(), http.MethodPost, url, io.MultiReader(strings.NewReader("bo"), strings.NewReader("dy")))
	if err != nil {
		p.Fatal(err)
	}
	request.Host = "localhost"
	response, err := transport.RoundTrip(request)
	if err != nil {
		p.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return fmt.Sprint(response.Proto, " ", response.StatusCode, ": ", string(text), " ", response.Trailer.Get("X-Sum"), " ", err)
}

func transportOf(config *tls.Config, set func(*http.Protocols)) *http.Transport {
	protocols := &http.Protocols{}
	set(protocols)
	return &http.Transport{TLSClientConfig: config.Clone(), Protocols: protocols}
}

func TestTLS(t *testing.T) {
	ns := unique("tls")
	echoFunction(t, ns)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writeCertificate(t, cert, key, 1)
	p := startWith(t, func(g *gateway) { g.certificate.every = 10 * time.Millisecond }, "-tls-cert-file", cert, "-tls-key-file", key)
	p.becomes("admin", "/readyz", 200, "")
	config := &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"}
	want := ": HTTP/1.1 https localhost /a%2Fb//..?x=%2F body 7 <nil>"
	if got := p.exchange(transportOf(config, func(p *http.Protocols) { p.SetHTTP2(true) }), "https", ns); got != "HTTP/2.0 200"+want {
		t.Errorf("HTTP/2: %s", got)
	}
	if got := p.exchange(transportOf(config, func(p *http.Protocols) { p.SetHTTP1(true) }), "https", ns); got != "HTTP/1.1 200"+want {
		t.Errorf("HTTP/1.1: %s", got)
	}
	if got := p.exchange(transportOf(nil, func(p *http.Protocols) { p.SetHTTP1(true) }), "http", ns); !strings.HasPrefix(got, "HTTP/1.1 200: HTTP/1.1 http ") {
		t.Errorf("without TLS: %s", got)
	}
	serial := func() int64 {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(p.url("tls", ""), "http://"), config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	becomes := func(want int64) {
		t.Helper()
		for end := time.Now().Add(soon); serial() != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("certificate stays %d, want %d", serial(), want)
			}
		}
	}
	becomes(1)
	writeCertificate(t, cert, key, 2)
	becomes(2)
	if err := os.WriteFile(key, []byte("half a fi"), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // some readings of what can't be used
	becomes(2)
	writeCertificate(t, cert, key, 3)
	becomes(3)
}

// An Ingress in front may speak HTTP/2 without TLS.
func TestUnencryptedHTTP2(t *testing.T) {
	ns := unique("h2c")
	echoFunction(t, ns)
	p := start(t)
	p.becomes("admin", "/readyz", 200, "")
	want := "HTTP/2.0 200: HTTP/1.1 http localhost /a%2Fb//..?x=%2F body 7 <nil>"
	if got := p.exchange(transportOf(nil, func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }), "http", ns); got != want {
		t.Errorf("got %s", got)
	}
}

func TestTLSFlags(t *testing.T) {
	for _, args := range [][]string{{"-tls-cert-file", "x"}, {"-tls-key-file", "x"}, {"-public-address", ""}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
	file := filepath.Join(t.TempDir(), "tls.crt")
	if err := os.WriteFile(file, []byte("half a fi"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newCertificate(file, file); err == nil {
		t.Error("a certificate out of nothing")
	}
}

// A Secret that comes after the gateway needs no restart.
func TestCertificateThatComesLater(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	p := startWith(t, func(g *gateway) { g.certificate.every = 10 * time.Millisecond }, "-tls-cert-file", cert, "-tls-key-file", key)
	p.becomes("admin", "/readyz", 200, "")
	handshake := func() error {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(p.url("tls", ""), "http://"), &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	if handshake() == nil {
		t.Error("a handshake without a certificate")
	}
	writeCertificate(t, cert, key, 1)
	for end := time.Now().Add(soon); handshake() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(handshake())
		}
	}
}

// Whoever wants TLS alone turns the other public listener off.
func TestTLSAlone(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writeCertificate(t, cert, key, 1)
	p := start(t, "-public-address", "", "-tls-cert-file", cert, "-tls-key-file", key)
	p.becomes("admin", "/readyz", 200, "")
	var open []string
	for _, l := range p.listeners {
		open = append(open, l.name)
	}
	if !slices.Equal(open, []string{"internal", "admin", "tls"}) {
		t.Errorf("the listeners are %v", open)
	}
}

// Profiles, metrics and health are for the admin listener alone.
func TestAdminPathsAreOnTheAdminListenerOnly(t *testing.T) {
	p := start(t)
	p.becomes("admin", "/readyz", 200, "")
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/cmdline", "/metrics", "/healthz", "/readyz"} {
		if status, _ := p.get("admin", path); status != 200 {
			t.Errorf("%s on the admin listener: %d", path, status)
		}
		for listener, want := range map[string]int{"public": 404, "internal": 401} {
			if status, text := p.get(listener, path); status != want {
				t.Errorf("%s on the %s listener: %d %.100s", path, listener, status, text)
			}
		}
	}
}
