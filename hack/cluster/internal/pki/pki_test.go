package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIssuedCertificatesServeAndIdentify(t *testing.T) {
	dir := t.TempDir()
	ca, err := Open(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Issue("one", Subject{Name: "admin", Group: []string{"system:masters"}, DNS: []string{"kubernetes"}, IPs: []string{"10.96.0.1"}}); err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := ca.Files("one")
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(ca.CertFile())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	for _, name := range []string{"kubernetes", "10.96.0.1"} {
		options := x509.VerifyOptions{Roots: roots, DNSName: name, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
		if _, err := pair.Leaf.Verify(options); err != nil {
			t.Errorf("as server %s: %v", name, err)
		}
	}
	options := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := pair.Leaf.Verify(options); err != nil {
		t.Errorf("as client: %v", err)
	}
	if subject := pair.Leaf.Subject; subject.CommonName != "admin" || len(subject.Organization) != 1 {
		t.Errorf("subject: %v", subject)
	}
}

func TestOpenAndIssueKeepWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	var before []byte
	for range 2 {
		ca, err := Open(dir, "ca")
		if err != nil {
			t.Fatal(err)
		}
		if err := ca.Issue("one", Subject{Name: "one"}); err != nil {
			t.Fatal(err)
		}
		certFile, _ := ca.Files("one")
		now, err := os.ReadFile(certFile)
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !bytes.Equal(before, now) {
			t.Error("issued anew")
		}
		before = now
	}
}

func TestKubeconfigHoldsEverything(t *testing.T) {
	dir := t.TempDir()
	ca, err := Open(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Issue("one", Subject{Name: "one"}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "deep", "kubeconfig")
	if err := ca.Kubeconfig(path, "https://10.244.0.1:6443", "one"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(data); !strings.Contains(text, "server: https://10.244.0.1:6443\n") || strings.Contains(text, dir) || strings.Contains(text, "%!") {
		t.Errorf("kubeconfig:\n%s", text)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
