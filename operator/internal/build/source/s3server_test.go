package source

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
)

// storeHost is the name of the real object store; its buckets are hosts below it.
const storeHost = "s3.example.test"

// realStore is versitygw, the object store of the local cluster.
type realStore struct {
	scheme, address, caFile string
	client                  *minio.Client
}

// startStore starts an object store on loopback, by https when it gets a certificate.
func startStore(t *testing.T, secure bool) *realStore {
	t.Helper()
	program := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "versitygw")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v; make kubernetes builds it, and KUBEBUILDER_ASSETS names its folder", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &realStore{scheme: "http", address: listener.Addr().String()}
	listener.Close()
	data, versions := t.TempDir(), t.TempDir()
	args := []string{"--port", s.address, "--access", "tenant", "--secret", "s3cr3t", "--quiet", "--virtual-domain", storeHost}
	if secure {
		s.scheme = "https"
		var key string
		s.caFile, key = certificate(t)
		args = append(args, "--cert", s.caFile, "--key", key)
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, program, append(args, "posix", "--versioning-dir", versions, data)...)
	server.Stdout, server.Stderr = io.Discard, io.Discard
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); server.Wait() }) //nolint:errcheck // it was killed
	fetcher := s.fetcher(t, "sless", false)
	s.client, err = minio.New(storeHost, &minio.Options{
		Creds: credentials.NewStaticV4("tenant", "s3cr3t", ""), Secure: secure, Transport: fetcher.trusted, Region: "us-east-1", BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if err = s.client.MakeBucket(t.Context(), "sless", minio.MakeBucketOptions{}); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if err := s.client.MakeBucket(t.Context(), "own", minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.client.EnableVersioning(t.Context(), "own"); err != nil {
		t.Fatal(err)
	}
	return s
}

// certificate makes one for the store and its buckets, and its key.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: storeHost}, DNSNames: []string{storeHost, "*." + storeHost},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	certFile, keyFile = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func (s *realStore) put(t *testing.T, bucket, key, text string) minio.UploadInfo {
	t.Helper()
	info, err := s.client.PutObject(t.Context(), bucket, key, bytes.NewReader([]byte(text)), int64(len(text)), minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// fetcher reads from the store, under its name and those of its buckets.
func (s *realStore) fetcher(t *testing.T, bucket string, virtualHost bool) *S3 {
	t.Helper()
	credentials := t.TempDir()
	for name, value := range map[string]string{"accessKeyID": "tenant", "secretAccessKey": "s3cr3t"} {
		if err := os.WriteFile(filepath.Join(credentials, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := config.ObjectStore{
		Endpoint: s.scheme + "://" + storeHost, Region: "us-east-1", Bucket: bucket, VirtualHost: virtualHost, CAFile: s.caFile, CredentialsDir: credentials,
	}
	fetcher, err := newS3(store, newTestGuard(t, config.Network{CAFile: s.caFile}), spool{t.TempDir(), maxBytes})
	if err != nil {
		t.Fatal(err)
	}
	for _, transport := range []http.RoundTripper{fetcher.trusted, fetcher.guarded} {
		transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.address)
		}
	}
	return fetcher
}

// hostsOf notes the hosts that a fetcher asks.
type hostsOf struct {
	next  http.RoundTripper
	hosts map[string]bool
}

func (h *hostsOf) RoundTrip(r *http.Request) (*http.Response, error) {
	h.hosts[r.URL.Host] = true
	return h.next.RoundTrip(r)
}

// Each way to address a real object store, by http and https: whole objects, versions, ETags, and what is not there.
func TestRealObjectStore(t *testing.T) {
	for name, secure := range map[string]bool{"http": false, "https": true} {
		t.Run(name, func(t *testing.T) {
			store := startStore(t, secure)
			first := store.put(t, "own", "dir/code.zip", "first")
			second := store.put(t, "own", "dir/code.zip", "second")
			store.put(t, "sless", "tenants/uid/code.zip", "platform's")
			for style, virtualHost := range map[string]bool{"path": false, "virtual host": true} {
				t.Run(style, func(t *testing.T) { testStore(t, store.fetcher(t, "sless", virtualHost), virtualHost, first, second) })
			}
			if !secure {
				return
			}
			t.Run("authority not trusted", func(t *testing.T) {
				fetcher := (&realStore{scheme: "https", address: store.address}).fetcher(t, "sless", false)
				_, _, _, err := fetcher.Fetch(t.Context(), Object{Key: "code.zip", NamespaceUID: "uid"})
				checkFault(t, err, v1alpha1.ReasonObjectStoreUnavailable, false, "certificate")
				own := Object{Key: "dir/code.zip", Bucket: "own", Endpoint: "https://" + storeHost, AccessKeyID: "tenant", SecretAccessKey: "s3cr3t"}
				_, _, _, err = fetcher.Fetch(t.Context(), own)
				checkFault(t, err, v1alpha1.ReasonSourceInvalid, true, "network.caFile")
			})
		})
	}
}

func testStore(t *testing.T, fetcher *S3, virtualHost bool, first, second minio.UploadInfo) {
	asked := &hostsOf{next: fetcher.trusted, hosts: map[string]bool{}}
	fetcher.trusted = asked
	own := Object{Key: "dir/code.zip", Bucket: "own", Endpoint: fetcher.store.Endpoint, AccessKeyID: "tenant", SecretAccessKey: "s3cr3t"}
	changed := func(edit func(*Object)) Object {
		object := own
		edit(&object)
		return object
	}
	for name, test := range map[string]struct {
		object             Object
		want, etag, reason string
	}{
		"platform's":     {object: Object{Key: "code.zip", NamespaceUID: "uid"}, want: "platform's"},
		"another's":      {object: Object{Key: "code.zip", NamespaceUID: "other"}, reason: v1alpha1.ReasonSourceNotFound},
		"latest":         {object: own, want: "second", etag: second.ETag},
		"version":        {object: changed(func(o *Object) { o.VersionID = first.VersionID }), want: "first", etag: first.ETag},
		"no version":     {object: changed(func(o *Object) { o.VersionID = "01KB0000000000000000000000" }), reason: v1alpha1.ReasonSourceNotFound},
		"no object":      {object: changed(func(o *Object) { o.Key = "absent.zip" }), reason: v1alpha1.ReasonSourceNotFound},
		"no bucket":      {object: changed(func(o *Object) { o.Bucket = "absent" }), reason: v1alpha1.ReasonSourceNotFound},
		"wrong secret":   {object: changed(func(o *Object) { o.SecretAccessKey = "wrong-s3cr3t" }), reason: v1alpha1.ReasonSourceNotFound},
		"unknown key":    {object: changed(func(o *Object) { o.AccessKeyID = "nobody" }), reason: v1alpha1.ReasonSourceNotFound},
		"platform's own": {object: changed(func(o *Object) { o.Endpoint = "" }), want: "second"},
	} {
		t.Run(name, func(t *testing.T) {
			file, size, etag, err := fetcher.Fetch(t.Context(), test.object)
			check(t, file, size, err, test.want, test.reason, true, "")
			looked, lookErr := fetcher.Revision(t.Context(), test.object)
			if test.reason == "" && (lookErr != nil || looked != etag || (test.etag != "" && etag != test.etag)) {
				t.Errorf("ETag %q, looked at %q, %v, want %q", etag, looked, lookErr, test.etag)
			}
			if test.reason != "" {
				checkFault(t, lookErr, test.reason, true, "")
			}
		})
	}
	if asked.hosts["sless."+storeHost] != virtualHost || asked.hosts[storeHost] == virtualHost {
		t.Errorf("asked %v", asked.hosts)
	}
}
