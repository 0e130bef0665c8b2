package source

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/dial"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/config"
)

// Object names an archive in a bucket.
type Object struct {
	// Key is the object's key: without credentials below the tenant's own folder of the platform's bucket.
	Key string
	// Bucket, Endpoint and Region are the platform's when empty, and always without credentials.
	Bucket, Endpoint, Region string
	// VersionID is the object's version; empty is the latest.
	VersionID string
	// SHA256 is the expected digest in hex; empty is not checked.
	SHA256 string
	// AccessKeyID and SecretAccessKey are the tenant's own credentials; empty stands for the platform's.
	AccessKeyID, SecretAccessKey string
	// NamespaceUID names the tenant's folder.
	NamespaceUID string
}

func (o Object) own() bool { return o.AccessKeyID == "" }

// S3 fetches objects.
type S3 struct {
	store   config.ObjectStore
	spool   spool
	trusted http.RoundTripper
	guarded http.RoundTripper
	hosts   sync.Map // the tenants' endpoints that are known to want buckets as hosts
}

func newS3(store config.ObjectStore, guard *dial.Guard, spool spool) (*S3, error) {
	trusted, err := dial.Trusted(store.CAFile)
	if err != nil {
		return nil, err
	}
	return &S3{store: store, spool: spool, trusted: trusted, guarded: guard.Transport()}, nil
}

// Fetch returns the object as a file that has no name any more, with its size and its ETag: closing the file frees the disk, and so
// does the end of the process.
func (s *S3) Fetch(ctx context.Context, object Object) (file *os.File, size int64, etag string, err error) {
	object = s.locate(object)
	err = s.ask(ctx, object, false, func(client *minio.Core) error {
		body, info, _, err := client.GetObject(ctx, object.Bucket, object.Key, minio.GetObjectOptions{VersionID: object.VersionID})
		if err != nil {
			return err
		}
		defer body.Close()
		etag = revision(info.ETag)
		file, size, err = s.take(object, body, info.Size)
		return err
	})
	return file, size, etag, err
}

func (s *S3) take(object Object, body io.Reader, declared int64) (*os.File, int64, error) {
	file, size, sum, err := s.spool.take(body, declared)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, 0, s.spool.tooLarge(s.name(object))
	case err != nil:
		return nil, 0, err
	case object.SHA256 != "" && sum != object.SHA256:
		file.Close()
		return nil, 0, otherBytes(s.name(object), sum, "source.s3.sha256", object.SHA256)
	}
	return file, size, nil
}

// Revision returns the object's ETag without reading it.
func (s *S3) Revision(ctx context.Context, object Object) (etag string, err error) {
	object = s.locate(object)
	err = s.ask(ctx, object, true, func(client *minio.Core) error {
		info, err := client.StatObject(ctx, object.Bucket, object.Key, minio.StatObjectOptions{VersionID: object.VersionID})
		etag = revision(info.ETag)
		return err
	})
	return etag, err
}

// ask asks an object store. A tenant's own may be one that wants buckets as hosts, which it says in an error. Where errors are silent, what
// is refused or not found in a path is looked for at a host.
func (s *S3) ask(ctx context.Context, object Object, silent bool, ask func(*minio.Core) error) error {
	lookup := s.lookup(object)
	client, err := s.client(object, lookup)
	if err != nil {
		return err
	}
	if err = ask(client); err == nil {
		return nil
	}
	if response := minio.ToErrorResponse(err); lookup == minio.BucketLookupAuto && (pathRefused[response.Code] || (silent && response.StatusCode/100 == 4)) {
		atHost, clientErr := s.client(object, minio.BucketLookupDNS)
		if clientErr == nil && ask(atHost) == nil {
			s.hosts.Store(object.Endpoint, true)
			return nil
		}
	}
	return s.explain(ctx, object, err)
}

// pathRefused are the codes with which object stores refuse a bucket in the path.
var pathRefused = map[string]bool{"PathStyleDomainForbidden": true, "SecondLevelDomainForbidden": true, "InvalidPathAccess": true}

// lookup is how the bucket is addressed: as the configuration says in the platform's own store, and elsewhere as the store's kind, where
// it is known, or experience says.
func (s *S3) lookup(object Object) minio.BucketLookupType {
	if object.Endpoint == "" {
		if s.store.VirtualHost {
			return minio.BucketLookupDNS
		}
		return minio.BucketLookupPath
	}
	if _, known := s.hosts.Load(object.Endpoint); known {
		return minio.BucketLookupDNS
	}
	return minio.BucketLookupAuto
}

// revision is an ETag as it may appear in a status: an object store may send anything of any length.
func revision(etag string) string {
	const longest = 128
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(etag) > longest || strings.ContainsFunc(etag, odd) {
		sum := sha256.Sum256([]byte(etag))
		return hex.EncodeToString(sum[:])
	}
	return etag
}

// locate fills in where the object is. Without credentials of the tenant's own that is below the tenant's folder, whatever else was
// named: the platform's keys open nothing that a tenant names freely.
func (s *S3) locate(object Object) Object {
	if object.own() {
		object.Endpoint, object.Bucket, object.Region = "", "", ""
		object.Key = "tenants/" + object.NamespaceUID + path.Clean("/"+object.Key)
	}
	if object.Bucket == "" {
		object.Bucket = s.store.Bucket
	}
	if object.Region == "" && object.Endpoint == "" {
		object.Region = s.store.Region
	}
	if object.Region == "" {
		object.Region = "us-east-1"
	}
	return object
}

func (s *S3) client(object Object, lookup minio.BucketLookupType) (*minio.Core, error) {
	address, transport := object.Endpoint, s.guarded
	if address == "" {
		address, transport = s.store.Endpoint, s.trusted
	}
	endpoint, err := url.Parse(address)
	if err != nil || endpoint.Host == "" {
		return nil, fault.Terminal(v1alpha1.ReasonSourceInvalid, "object store endpoint %q is no URL; write it as https://s3.example.org", address)
	}
	keyID, secret := object.AccessKeyID, object.SecretAccessKey
	if object.own() {
		if keyID, secret, err = s.platformKeys(); err != nil {
			return nil, fault.Transient(v1alpha1.ReasonObjectStoreUnavailable, "the platform's object store credentials can't be read: %v", err)
		}
	}
	client, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds:        credentials.NewStaticV4(keyID, secret, ""),
		Secure:       endpoint.Scheme == "https",
		Transport:    transport,
		Region:       object.Region,
		BucketLookup: lookup,
		MaxRetries:   3,
	})
	if err != nil {
		return nil, fault.Terminal(v1alpha1.ReasonSourceInvalid, "object store endpoint %q can't be used: %v", address, err)
	}
	return client, nil
}

func (s *S3) platformKeys() (keyID, secret string, err error) {
	for name, value := range map[string]*string{"accessKeyID": &keyID, "secretAccessKey": &secret} {
		text, err := os.ReadFile(filepath.Join(s.store.CredentialsDir, name))
		if err != nil {
			return "", "", err
		}
		*value = strings.TrimSpace(string(text))
	}
	return keyID, secret, nil
}

func (s *S3) name(object Object) string {
	text := fmt.Sprintf("object %q of bucket %q", object.Key, object.Bucket)
	if object.VersionID != "" {
		text += fmt.Sprintf(" (version %q)", object.VersionID)
	}
	return text
}

// explain tells what only the user can mend from what passes by itself.
func (s *S3) explain(ctx context.Context, object Object, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return known
	}
	if forbidden, ok := errors.AsType[*dial.ForbiddenError](err); ok {
		return fault.Terminal(v1alpha1.ReasonSourceInvalid, "source.s3.endpoint: %v", forbidden)
	}
	if certificate, ok := errors.AsType[*tls.CertificateVerificationError](err); ok && object.Endpoint != "" {
		return untrusted(s.name(object), certificate)
	}
	response := minio.ToErrorResponse(err)
	switch response.Code {
	case "NoSuchKey", "NoSuchVersion", "MethodNotAllowed", "InvalidArgument":
		return fault.Terminal(v1alpha1.ReasonSourceNotFound, "%s does not exist; upload it, or correct source.s3", s.name(object))
	case "NoSuchBucket":
		if !object.own() {
			return fault.Terminal(v1alpha1.ReasonSourceNotFound, "bucket %q does not exist; correct source.s3.bucket or source.s3.endpoint", object.Bucket)
		}
	case "AccessDenied", "AllAccessDisabled":
		return fault.Terminal(v1alpha1.ReasonSourceNotFound, "%s does not exist or may not be read with these credentials; upload it, or grant s3:GetObject", s.name(object))
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidSecurity", "ExpiredToken", "InvalidToken":
		if !object.own() {
			return fault.Terminal(v1alpha1.ReasonSourceNotFound, "the object store refuses the credentials for %s (%s); correct the Secret that source.s3.secretName names", s.name(object), response.Code)
		}
	}
	busy := response.StatusCode == http.StatusRequestTimeout || response.StatusCode == http.StatusTooManyRequests
	if !object.own() && response.StatusCode/100 == 4 && !busy {
		return fault.Terminal(v1alpha1.ReasonSourceNotFound, "the object store refuses to read %s: %.500v; correct source.s3, or the Secret that source.s3.secretName names", s.name(object), err)
	}
	return fault.Transient(v1alpha1.ReasonObjectStoreUnavailable, "read %s: %.500v", s.name(object), err)
}
