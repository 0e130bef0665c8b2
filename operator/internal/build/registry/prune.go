package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Prune deletes the images of a tenant's repository whose tags match. It deletes by digest, which every registry that deletes at all
// understands; tags of one digest go together, so match must hold for all of them or none.
func (r *Registry) Prune(ctx context.Context, namespace string, match func(tag string) bool) error {
	repository, err := name.NewRepository(r.Repository(namespace), r.nameOptions()...)
	if err != nil {
		return err
	}
	tags, err := remote.List(repository, r.push(ctx)...)
	if statusOf(err) == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return explain(ctx, "list the tags of "+repository.Name(), err)
	}
	var errs []error
	for _, tag := range tags {
		if match(tag) {
			errs = append(errs, r.delete(ctx, repository.Tag(tag)))
		}
	}
	return errors.Join(errs...)
}

// Delete deletes the image of one tag of a tenant's repository. It is harmless when there is none.
func (r *Registry) Delete(ctx context.Context, namespace, tag string) error {
	ref, err := name.NewTag(r.Repository(namespace)+":"+tag, r.nameOptions()...)
	if err != nil {
		return err
	}
	return r.delete(ctx, ref)
}

func (r *Registry) delete(ctx context.Context, tag name.Tag) error {
	descriptor, err := remote.Head(tag, r.push(ctx)...)
	if statusOf(err) == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return explain(ctx, "look up "+tag.String(), err)
	}
	err = remote.Delete(tag.Context().Digest(descriptor.Digest.String()), r.push(ctx)...)
	switch status := statusOf(err); {
	case err == nil || status == http.StatusNotFound || status == http.StatusAccepted:
		return nil
	case status == http.StatusMethodNotAllowed || status == http.StatusBadRequest:
		return fmt.Errorf("delete %s: %w", tag, ErrNoDelete)
	}
	return explain(ctx, "delete "+tag.String(), err)
}

// ErrNoDelete is the answer of a registry that keeps everything.
var ErrNoDelete = errors.New("the registry deletes no images")
