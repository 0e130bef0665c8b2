package source

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// parcels is the folder of the platform's bucket for files on their way to a Job; tenants' own folders lie beside it.
const parcels = "builds/"

// PutParcel stores files for a Job and returns the object's key, which no other call returns.
func (s *S3) PutParcel(ctx context.Context, job string, content io.Reader, size int64) (string, error) {
	key := parcels + job + "-" + strings.ToLower(rand.Text()[:10]) + ".tar.gz"
	client, err := s.platform()
	if err != nil {
		return "", err
	}
	_, err = client.Client.PutObject(ctx, s.store.Bucket, key, content, size, minio.PutObjectOptions{ContentType: "application/gzip"})
	return key, explainParcel(ctx, "store the build's files", err)
}

// SignParcel returns an address at which anybody may read the object, and nothing else, for a while.
func (s *S3) SignParcel(ctx context.Context, key string, valid time.Duration) (string, error) {
	client, err := s.platform()
	if err != nil {
		return "", err
	}
	address, err := client.PresignedGetObject(ctx, s.store.Bucket, key, valid, nil)
	if err != nil {
		return "", explainParcel(ctx, "sign an address for the build's files", err)
	}
	return address.String(), nil
}

// RemoveParcel deletes the object. It is harmless when there is none.
func (s *S3) RemoveParcel(ctx context.Context, key string) error {
	client, err := s.platform()
	if err != nil {
		return err
	}
	return explainParcel(ctx, "delete the build's files", client.RemoveObject(ctx, s.store.Bucket, key, minio.RemoveObjectOptions{}))
}

// RemoveParcels deletes all objects of that age.
func (s *S3) RemoveParcels(ctx context.Context, age time.Duration) error {
	client, err := s.platform()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx) // ends the listing
	defer cancel()
	var errs []error
	for object := range client.Client.ListObjects(ctx, s.store.Bucket, minio.ListObjectsOptions{Prefix: parcels, Recursive: true}) {
		if object.Err != nil {
			errs = append(errs, explainParcel(ctx, "list the files of builds", object.Err))
			break
		}
		if time.Since(object.LastModified) > age {
			errs = append(errs, s.RemoveParcel(ctx, object.Key))
		}
	}
	return errors.Join(errs...)
}

// platform speaks to the platform's bucket with the platform's credentials.
func (s *S3) platform() (*minio.Core, error) {
	object := s.locate(Object{})
	return s.client(object, s.lookup(object))
}

func explainParcel(ctx context.Context, what string, err error) error {
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return fault.Transient(v1alpha1.ReasonObjectStoreUnavailable, "%s: %v; the platform's account needs to write below %s of its bucket", what, err, parcels)
}
