package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Tags lists the tags of a tenant's repository; a repository that is not there has none.
func (r *Registry) Tags(ctx context.Context, namespace string) ([]string, error) {
	repository, err := name.NewRepository(r.Repository(namespace), r.nameOptions()...)
	if err != nil {
		return nil, err
	}
	tags, err := remote.List(repository, r.push(ctx)...)
	if statusOf(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, explain(ctx, "list the tags of "+repository.Name(), err)
	}
	return tags, nil
}

// Prune deletes the images of a tenant's repository whose tags match. It deletes by digest, which every registry that deletes at all
// understands; tags of one digest go together, so match must hold for all of them or none.
func (r *Registry) Prune(ctx context.Context, namespace string, match func(tag string) bool) error {
	tags, err := r.Tags(ctx, namespace)
	if err != nil {
		return err
	}
	var errs []error
	for _, tag := range tags {
		if match(tag) {
			errs = append(errs, r.Delete(ctx, namespace, tag))
		}
	}
	return errors.Join(errs...)
}

// Digest returns the digest of the image of one tag of a tenant's repository, and "" when there is none.
func (r *Registry) Digest(ctx context.Context, namespace, tag string) (string, error) {
	ref, err := name.NewTag(r.Repository(namespace)+":"+tag, r.nameOptions()...)
	if err != nil {
		return "", err
	}
	descriptor, err := remote.Head(ref, r.push(ctx)...)
	if statusOf(err) == http.StatusNotFound {
		return "", nil
	}
	if err != nil {
		return "", explain(ctx, "look up "+ref.String(), err)
	}
	return descriptor.Digest.String(), nil
}

// Delete deletes the image of one tag of a tenant's repository. It is harmless when there is none.
func (r *Registry) Delete(ctx context.Context, namespace, tag string) error {
	digest, err := r.Digest(ctx, namespace, tag)
	if err != nil || digest == "" {
		return err
	}
	ref, err := name.NewDigest(r.Repository(namespace)+"@"+digest, r.nameOptions()...)
	if err != nil {
		return err
	}
	err = remote.Delete(ref, r.push(ctx)...)
	switch status := statusOf(err); {
	case err == nil || status == http.StatusNotFound || status == http.StatusAccepted:
		return nil
	case status == http.StatusMethodNotAllowed || status == http.StatusBadRequest:
		return fmt.Errorf("delete %s: %w", ref, ErrNoDelete)
	}
	return explain(ctx, "delete "+ref.String(), err)
}

// ErrNoDelete is the answer of a registry that keeps everything.
var ErrNoDelete = errors.New("the registry deletes no images")
