package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

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
func (s *S3) Fetch(ctx context.Context, object Object) (*os.File, int64, string, error) {
	object = s.locate(object)
	client, err := s.client(object)
	if err != nil {
		return nil, 0, "", err
	}
	body, info, _, err := client.GetObject(ctx, object.Bucket, object.Key, minio.GetObjectOptions{VersionID: object.VersionID})
	if err != nil {
		return nil, 0, "", s.explain(ctx, object, err)
	}
	defer body.Close()
	file, size, sum, err := s.spool.take(body, info.Size)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, 0, "", s.spool.tooLarge(s.name(object))
	case err != nil:
		return nil, 0, "", s.explain(ctx, object, err)
	case object.SHA256 != "" && sum != object.SHA256:
		file.Close()
		return nil, 0, "", otherBytes(s.name(object), sum, "source.s3.sha256", object.SHA256)
	}
	return file, size, revision(info.ETag), nil
}

// Revision returns the object's ETag without reading it.
func (s *S3) Revision(ctx context.Context, object Object) (string, error) {
	object = s.locate(object)
	client, err := s.client(object)
	if err != nil {
		return "", err
	}
	info, err := client.StatObject(ctx, object.Bucket, object.Key, minio.StatObjectOptions{VersionID: object.VersionID})
	if err != nil {
		return "", s.explain(ctx, object, err)
	}
	return revision(info.ETag), nil
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
	if object.Region == "" {
		object.Region = s.store.Region
	}
	return object
}

func (s *S3) client(object Object) (*minio.Core, error) {
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
	lookup := minio.BucketLookupPath
	if s.store.VirtualHost && object.Endpoint == "" {
		lookup = minio.BucketLookupDNS
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
	return fault.Transient(v1alpha1.ReasonObjectStoreUnavailable, "read %s: %v", s.name(object), err)
}
