package addons

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/naeel/sless/hack/cluster/internal/plan"
)

const (
	servingTimeout = 2 * time.Minute
	askTimeout     = 5 * time.Second
)

// Serving waits until registry and object store answer at their Services' addresses, and makes the bucket. A Service works a moment after
// its pod is Ready, and until then somebody outside may answer in its place.
func (a Addons) Serving(ctx context.Context, c Credentials) error {
	if askRegistry(ctx) == nil && ensureBucket(ctx, c) == nil {
		return nil
	}
	return a.Progress.Step("registry and object store answer", a.Place.Log("kube-proxy"), func() error {
		for _, ask := range []func() error{
			func() error { return askRegistry(ctx) },
			func() error { return ensureBucket(ctx, c) },
		} {
			if err := patiently(ctx, ask); err != nil {
				return err
			}
		}
		return nil
	})
}

func patiently(ctx context.Context, ask func() error) error {
	deadline := time.Now().Add(servingTimeout)
	for {
		err := ask()
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// askRegistry takes the question for a password as the sign that it is our registry.
func askRegistry(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d/v2/", plan.RegistryIP, plan.RegistryPort), nil)
	if err != nil {
		return err
	}
	response, err := direct.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("ask the registry: %w", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized || response.Header.Get("Docker-Distribution-Api-Version") == "" {
		return errors.New("something else answers at the registry's address: " + response.Status)
	}
	return nil
}

// direct never goes through a proxy: the addresses are on this machine.
var direct = &http.Transport{DisableKeepAlives: true}

func ensureBucket(ctx context.Context, c Credentials) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client, err := minio.New(fmt.Sprintf("%s:%d", plan.S3IP, plan.S3Port), &minio.Options{
		Creds:     credentials.NewStaticV4(c.S3AccessKey, c.S3SecretKey, ""),
		Transport: direct,
	})
	if err != nil {
		return err
	}
	exists, err := client.BucketExists(ctx, plan.Bucket)
	if err != nil {
		return fmt.Errorf("look for the bucket %s: %w", plan.Bucket, err)
	}
	if exists {
		return nil
	}
	if err := client.MakeBucket(ctx, plan.Bucket, minio.MakeBucketOptions{}); err != nil {
		return fmt.Errorf("make the bucket %s: %w", plan.Bucket, err)
	}
	return nil
}
