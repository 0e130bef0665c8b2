package source

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/dial"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/config"
)

// insideForms are ways to name this machine and the link's metadata service.
var insideForms = []string{
	"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]",
	"169.254.169.254", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[fe80::1]", "10.0.0.1", "[fd00:ec2::254]",
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func newTestGuard(t *testing.T, network config.Network) *dial.Guard {
	t.Helper()
	guard, err := dial.NewGuard(network)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// loopback lets a test's own servers be called.
var loopback = config.Network{AllowedCIDRs: []string{"127.0.0.1/32"}}

func testHTTP(t *testing.T, network config.Network) *HTTP {
	t.Helper()
	return newHTTP(newTestGuard(t, network), spool{t.TempDir(), maxBytes})
}

// check holds an error against what it should be, and reads a file to the end otherwise.
func check(t *testing.T, file *os.File, size int64, err error, want, reason string, terminal bool, says string) {
	t.Helper()
	if reason != "" {
		known, ok := errors.AsType[*fault.Error](err)
		if !ok || known.Reason != reason || known.Terminal != terminal || !strings.Contains(known.Message, says) {
			t.Errorf("got %v, want %s that says %q", err, reason, says)
		}
		if strings.Contains(fmt.Sprint(err), "s3cr3t") {
			t.Errorf("a secret is in the message %q", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	got := make([]byte, size)
	if _, err := file.ReadAt(got, 0); err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestFetchHTTP(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/code.zip", func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Authorization", "Cookie", "Referer", "Accept-Encoding"} {
			if r.Header.Get(name) != "" {
				t.Errorf("it is asked with %s: %s", name, r.Header.Get(name))
			}
		}
		fmt.Fprint(w, "code")
	})
	mux.HandleFunc("/large.zip", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("0", maxBytes+1)) })
	mux.HandleFunc("/endless.zip", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/cut.zip", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "50")
		fmt.Fprint(w, "code")
	})
	mux.HandleFunc("/gzip.zip", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		fmt.Fprint(w, "code")
	})
	for _, code := range []int{204, 400, 401, 403, 404, 410, 429, 500, 503} {
		mux.HandleFunc(fmt.Sprintf("/%d", code), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	mux.Handle("/moved", http.RedirectHandler("/code.zip", http.StatusFound))
	mux.Handle("/loop", http.RedirectHandler("/loop?signature=s3cr3t", http.StatusFound))
	mux.Handle("/ftp", http.RedirectHandler("ftp://127.0.0.1/code.zip", http.StatusFound))
	server := httptest.NewServer(mux)
	defer server.Close()

	for path, test := range map[string]struct {
		sha256, want, reason string
		terminal             bool
		says                 string
	}{
		"/code.zip":                  {sha256: sumOf("code"), want: "code"},
		"/moved":                     {sha256: sumOf("code"), want: "code"},
		"/gzip.zip":                  {sha256: sumOf("code"), want: "code"},
		"/code.zip?signature=s3cr3t": {sha256: sumOf("other"), reason: v1alpha1.ReasonSourceInvalid, terminal: true, says: sumOf("code") + ", and source.http.sha256 says " + sumOf("other")},
		"/large.zip":                 {reason: v1alpha1.ReasonSourceTooLarge, terminal: true, says: "100 bytes"},
		"/endless.zip":               {reason: v1alpha1.ReasonSourceTooLarge, terminal: true, says: "100 bytes"},
		"/cut.zip":                   {reason: v1alpha1.ReasonSourceUnavailable},
		"/204":                       {reason: v1alpha1.ReasonSourceNotFound, terminal: true},
		"/400":                       {reason: v1alpha1.ReasonSourceNotFound, terminal: true},
		"/401":                       {reason: v1alpha1.ReasonSourceNotFound, terminal: true, says: "may not be read"},
		"/403?signature=s3cr3t":      {reason: v1alpha1.ReasonSourceNotFound, terminal: true, says: "/403 may not be read"},
		"/404":                       {reason: v1alpha1.ReasonSourceNotFound, terminal: true, says: "404"},
		"/410":                       {reason: v1alpha1.ReasonSourceNotFound, terminal: true},
		"/429":                       {reason: v1alpha1.ReasonSourceUnavailable},
		"/500":                       {reason: v1alpha1.ReasonSourceUnavailable},
		"/503":                       {reason: v1alpha1.ReasonSourceUnavailable, says: "503"},
		"/loop":                      {reason: v1alpha1.ReasonSourceInvalid, terminal: true, says: "more than 5 times"},
		"/ftp":                       {reason: v1alpha1.ReasonSourceInvalid, terminal: true, says: "ftp"},
	} {
		t.Run(path, func(t *testing.T) {
			fetcher := testHTTP(t, loopback)
			file, size, err := fetcher.Fetch(t.Context(), server.URL+path, test.sha256)
			check(t, file, size, err, test.want, test.reason, test.terminal, test.says)
			if left, err := os.ReadDir(fetcher.spool.dir); err != nil || len(left) > 0 {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
	t.Run("away", func(t *testing.T) {
		_, _, err := testHTTP(t, loopback).Fetch(t.Context(), "http://127.0.0.1:1/code.zip?signature=s3cr3t", "")
		check(t, nil, 0, err, "", v1alpha1.ReasonSourceUnavailable, false, "refused")
	})
}

func TestHTTPReachesNothingInside(t *testing.T) {
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request got inside") }))
	defer inside.Close()
	address, err := url.Parse(inside.URL)
	if err != nil {
		t.Fatal(err)
	}
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.URL.Query().Get("to")+":"+address.Port()+"/code.zip", http.StatusFound)
	}))
	defer outside.Close()
	outsideAddress, err := url.Parse(outside.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range insideForms {
		_, _, err := testHTTP(t, config.Network{}).Fetch(t.Context(), "http://"+host+":"+address.Port()+"/code.zip", "")
		check(t, nil, 0, err, "", v1alpha1.ReasonSourceInvalid, true, "functions may not name")
		if host == "localhost" {
			continue // the outside's name in what follows
		}
		_, _, err = testHTTP(t, config.Network{AllowedHosts: []string{"localhost"}}).Fetch(t.Context(), "http://localhost:"+outsideAddress.Port()+"/?to="+host, "")
		check(t, nil, 0, err, "", v1alpha1.ReasonSourceInvalid, true, "functions may not name")
	}
}

func TestHTTPSTrustsThePlatformsAuthorities(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "code") }))
	defer server.Close()
	_, _, err := testHTTP(t, loopback).Fetch(t.Context(), server.URL, sumOf("code"))
	check(t, nil, 0, err, "", v1alpha1.ReasonSourceInvalid, true, "network.caFile")
	trusting := loopback
	trusting.CAFile = filepath.Join(t.TempDir(), "ca.crt")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(trusting.CAFile, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	file, size, err := testHTTP(t, trusting).Fetch(t.Context(), server.URL, sumOf("code"))
	check(t, file, size, err, "code", "", false, "")
}
