package sources

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/config"
	"github.com/naeel/sless/apiserver/internal/problem"
)

// keyPrefix begins the keys of uploads, as a Function names them; uploadPrefix those of uploads that are not complete.
const (
	keyPrefix    = "sources/"
	uploadPrefix = "uploads/"
	root         = "tenants/"
	archiveType  = "application/zip"
	// storeTimeout bounds a call that moves no body.
	storeTimeout = 15 * time.Second
)

// Store is the platform's bucket.
type Store struct {
	client *minio.Client
	bucket string
	// ttl is how long an archive is kept that no function names.
	ttl time.Duration
}

// New returns the bucket of the configuration. It makes no call.
func New(settings config.ObjectStore, ttl time.Duration) (*Store, error) {
	endpoint, err := url.Parse(settings.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("object store: %w", err)
	}
	transport, err := minio.DefaultTransport(endpoint.Scheme == "https")
	if err != nil {
		return nil, fmt.Errorf("object store: %w", err)
	}
	if settings.CAFile != "" {
		if transport.TLSClientConfig, err = trust(settings.CAFile); err != nil {
			return nil, fmt.Errorf("object store: %w", err)
		}
	}
	lookup := minio.BucketLookupPath
	if settings.VirtualHost {
		lookup = minio.BucketLookupDNS
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds: credentials.New(&files{dir: settings.CredentialsDir}), Secure: endpoint.Scheme == "https", Region: settings.Region,
		BucketLookup: lookup, Transport: transport, MaxRetries: 3,
	})
	if err != nil {
		return nil, fmt.Errorf("object store: %w", err)
	}
	return &Store{client, settings.Bucket, ttl}, nil
}

func trust(caFile string) (*tls.Config, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", caFile)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// files are credentials in a directory, as a mounted Secret has them. They are read again every minute.
type files struct {
	dir  string
	read time.Time
}

// Retrieve implements credentials.Provider.
func (f *files) Retrieve() (credentials.Value, error) {
	var value credentials.Value
	for name, into := range map[string]*string{"accessKeyID": &value.AccessKeyID, "secretAccessKey": &value.SecretAccessKey} {
		text, err := os.ReadFile(filepath.Join(f.dir, name))
		if err != nil {
			return value, fmt.Errorf("object store credentials: %w", err)
		}
		*into = strings.TrimSpace(string(text))
	}
	value.SignerType = credentials.SignatureV4
	f.read = time.Now()
	return value, nil
}

// RetrieveWithCredContext implements credentials.Provider.
func (f *files) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return f.Retrieve()
}

// IsExpired implements credentials.Provider.
func (f *files) IsExpired() bool { return time.Since(f.read) > time.Minute }

// DeriveKey makes a key for one purpose from the object store's credentials: a secret that all replicas have and nobody else.
func DeriveKey(settings config.ObjectStore, purpose string) ([]byte, error) {
	value, err := (&files{dir: settings.CredentialsDir}).Retrieve()
	if err != nil {
		return nil, err
	}
	return hkdf.Key(sha256.New, []byte(value.SecretAccessKey), nil, "sless "+purpose, sha256.Size)
}

// Upload is an archive on its way in.
type Upload struct {
	// Tenant is the UID of the namespace.
	Tenant string
	Body   io.Reader
	// Size is the body's length; -1 when it is not known.
	Size int64
	// SHA256 is what the caller says the body has; nil when it does not say.
	SHA256 []byte
}

// Put stores an archive. When it fails there is nothing of it in the bucket: a small one is complete here before it is sent, and parts of a
// large one are no object until the last has been sent, which happens when the whole has turned out good.
func (s *Store) Put(ctx context.Context, upload Upload) (rest.SourceUpload, error) {
	checker := newChecker(upload.Body, upload.SHA256)
	// The store is told by the body's end that a caller has gone: a cancelled context would keep it from cleaning up.
	ctx = context.WithoutCancel(ctx)
	if err := s.put(ctx, upload, checker); err != nil {
		if checker.err != nil && !errors.Is(checker.err, io.EOF) {
			return rest.SourceUpload{}, checker.err // the caller's fault, whatever the store made of it
		}
		return rest.SourceUpload{}, unavailable(err)
	}
	sum := checker.sum()
	return rest.SourceUpload{Key: Key(sum), SHA256: sum, Size: checker.size}, nil
}

func (s *Store) put(ctx context.Context, upload Upload, body *checker) error {
	head := make([]byte, partSize)
	if upload.Size >= 0 {
		head = head[:min(partSize, upload.Size+1)] // one more, to see the end
	}
	n, err := io.ReadFull(body, head)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return s.putSmall(ctx, upload.Tenant, head[:n], body.sum())
	case err != nil:
		return err
	}
	whole := io.MultiReader(bytes.NewReader(head), body)
	if upload.SHA256 != nil && upload.Size > 0 {
		return s.putKnown(ctx, upload, whole)
	}
	return s.putUnknown(ctx, upload.Tenant, whole, body)
}

// Key is the key of an archive with that SHA-256 in hex, as a Function names it.
func Key(sum string) string { return keyPrefix + sum + ".zip" }

// object is the key in the bucket.
func object(tenant, key string) string { return root + tenant + "/" + key }

// putSmall stores a body that is complete.
func (s *Store) putSmall(ctx context.Context, tenant string, body []byte, sum string) error {
	target := object(tenant, Key(sum))
	if present, err := s.renew(ctx, target, int64(len(body))); err != nil || present {
		return err
	}
	_, err := s.client.PutObject(ctx, s.bucket, target, bytes.NewReader(body), int64(len(body)), minio.PutObjectOptions{ContentType: archiveType})
	return err
}

// putKnown stores a body whose hash is known before, at its place.
func (s *Store) putKnown(ctx context.Context, upload Upload, body io.Reader) error {
	target := object(upload.Tenant, Key(hex.EncodeToString(upload.SHA256)))
	present, err := s.renew(ctx, target, upload.Size)
	switch {
	case err != nil:
		return err
	case present:
		_, err = io.Copy(io.Discard, body)
	default:
		err = s.putParts(ctx, target, body)
	}
	return err
}

// putUnknown stores a body under a name that nobody knows, and moves it once its hash is known.
func (s *Store) putUnknown(ctx context.Context, tenant string, body io.Reader, checker *checker) error {
	aside := object(tenant, uploadPrefix+rand.Text())
	if err := s.putParts(ctx, aside, body); err != nil {
		return err
	}
	defer func() {
		_ = s.remove(ctx, aside) // the collector removes it later
	}()
	target := object(tenant, Key(checker.sum()))
	present, err := s.renew(ctx, target, checker.size)
	if err != nil || present {
		return err
	}
	return s.copy(ctx, aside, target)
}

// renew says whether there is such an object, of that size, and makes it young again if it is old enough to be collected soon.
func (s *Store) renew(ctx context.Context, key string, size int64) (bool, error) {
	info, err := s.stat(ctx, key)
	if isAbsent(err) || err == nil && info.Size != size {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if time.Since(info.LastModified) > s.ttl/2 {
		return true, s.copy(ctx, key, key)
	}
	return true, nil
}

func (s *Store) stat(ctx context.Context, key string) (minio.ObjectInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return s.client.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
}

func (s *Store) copy(ctx context.Context, from, to string) error {
	target := minio.CopyDestOptions{Bucket: s.bucket, Object: to}
	if from == to {
		target.ReplaceMetadata = true // or the store would see no reason to write anything
		target.UserMetadata = map[string]string{"Content-Type": archiveType}
	}
	_, err := s.client.CopyObject(ctx, target, minio.CopySrcOptions{Bucket: s.bucket, Object: from})
	return err
}

func (s *Store) remove(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return s.client.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{})
}

func isAbsent(err error) bool {
	return err != nil && minio.ToErrorResponse(err).StatusCode == http.StatusNotFound
}

// unavailable hides the object store's words, which may name buckets and keys, behind a problem that keeps them for the log.
func unavailable(err error) error {
	return &storeError{problem.New(http.StatusServiceUnavailable, rest.CodeObjectStoreAway, "the object store does not take or give it now; try again").RetryAfter(2 * time.Second), err}
}

// storeError is answered as the problem and logged as the cause.
type storeError struct {
	*problem.Problem
	cause error
}

// Unwrap is for errors.As.
func (e *storeError) Unwrap() []error { return []error{e.Problem, e.cause} }

// Error has the cause, for logs.
func (e *storeError) Error() string { return e.cause.Error() }
