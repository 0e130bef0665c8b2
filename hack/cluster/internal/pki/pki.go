// Package pki issues the certificates and kubeconfigs of the local cluster.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const validity = 3 * 365 * 24 * time.Hour

// Authority is a certificate authority whose files lie in one folder: NAME.crt and NAME.key.
type Authority struct {
	dir  string
	name string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Subject is who a certificate is for.
type Subject struct {
	Name  string   // common name: the user for a client
	Group []string // organisations: the user's groups
	DNS   []string
	IPs   []string
}

// Open reads the authority in dir, or makes it.
func Open(dir, name string) (*Authority, error) {
	a := &Authority{dir: dir, name: name}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	err := a.load()
	if errors.Is(err, os.ErrNotExist) {
		err = a.create()
	}
	if err != nil {
		return nil, fmt.Errorf("certificate authority %s: %w", name, err)
	}
	return a, nil
}

// CertFile is the authority's own certificate.
func (a *Authority) CertFile() string { return a.file(a.name, "crt") }

// Files are the paths of a certificate and its key.
func (a *Authority) Files(name string) (cert, key string) {
	return a.file(name, "crt"), a.file(name, "key")
}

func (a *Authority) file(name, ext string) string { return filepath.Join(a.dir, name+"."+ext) }

// Issue writes name.crt and name.key for the subject unless they are there, fit for a client and a server.
func (a *Authority) Issue(name string, subject Subject) error {
	certFile, keyFile := a.Files(name)
	if exists(certFile) && exists(keyFile) {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := newTemplate(pkix.Name{CommonName: subject.Name, Organization: subject.Group})
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	template.DNSNames = subject.DNS
	for _, ip := range subject.IPs {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("issue certificate %s: %w", name, err)
	}
	return writePair(certFile, keyFile, der, key)
}

// Kubeconfig writes a kubeconfig to path for a certificate issued before; everything is in the file itself.
func (a *Authority) Kubeconfig(path, server, certName string) error {
	certFile, keyFile := a.Files(certName)
	encoded := make([]any, 0, 3)
	for _, file := range []string{a.CertFile(), certFile, keyFile} {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		encoded = append(encoded, base64.StdEncoding.EncodeToString(data))
	}
	text := fmt.Sprintf(kubeconfig, append([]any{server}, encoded...)...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

const kubeconfig = `apiVersion: v1
kind: Config
current-context: sless
clusters:
- name: sless
  cluster:
    server: %s
    certificate-authority-data: %s
contexts:
- name: sless
  context: {cluster: sless, user: sless}
users:
- name: sless
  user:
    client-certificate-data: %s
    client-key-data: %s
`

// EnsureKey writes a private key (for signing service-account tokens) and its public half unless they are there.
func EnsureKey(privateFile, publicFile string) error {
	if exists(privateFile) && exists(publicFile) {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writeKey(privateFile, key); err != nil {
		return err
	}
	return writePEM(publicFile, "PUBLIC KEY", public, 0o644)
}

func (a *Authority) load() error {
	certPEM, err := os.ReadFile(a.file(a.name, "crt"))
	if err != nil {
		return err
	}
	keyPEM, err := os.ReadFile(a.file(a.name, "key"))
	if err != nil {
		return err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return errors.New("its files are not PEM")
	}
	if a.cert, err = x509.ParseCertificate(certBlock.Bytes); err != nil {
		return err
	}
	a.key, err = x509.ParseECPrivateKey(keyBlock.Bytes)
	return err
}

func (a *Authority) create() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := newTemplate(pkix.Name{CommonName: a.name})
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	if err := writePair(a.file(a.name, "crt"), a.file(a.name, "key"), der, key); err != nil {
		return err
	}
	return a.load()
}

func newTemplate(subject pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		panic(err) // the kernel's random source never fails
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(validity),
	}
}

// writePair writes the key first: a certificate that exists has its key.
func writePair(certFile, keyFile string, der []byte, key *ecdsa.PrivateKey) error {
	if err := writeKey(keyFile, key); err != nil {
		return err
	}
	return writePEM(certFile, "CERTIFICATE", der, 0o644)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der, 0o600)
}

func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
