package build

import (
	"context"
	"time"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/operator/internal/build/install"
	"github.com/naeel/sless/operator/internal/build/registry"
	"github.com/naeel/sless/operator/internal/build/source"
)

// parcelAge is when a parcel was left for sure: no Job that may still fetch one is that old.
const parcelAge = 3 * time.Hour

// kanikoMaker has every image made in a Job, which gets the files by the object store: a parcel of its own for each, so that what one
// attempt takes away is never what another needs.
type kanikoMaker struct {
	spoolDir string
	registry *registry.Registry
	objects  *source.S3
}

func (k *kanikoMaker) image(ctx context.Context, request Request, base string, code *registry.Layer, tag string) (*registry.Image, *install.Spec, error) {
	namespace := request.Owner.Namespace
	job := &install.Spec{
		Key: names.Hash("image", namespace, tag)[:dependencyKeyLen], Namespace: namespace, Base: base,
		Destination: k.registry.Repository(namespace) + ":" + tag, Labels: imageLabels(request, tag), TimeoutSeconds: request.TimeoutSeconds,
	}
	return nil, job, k.send(ctx, job, code)
}

func (k *kanikoMaker) dependencies(ctx context.Context, request Request, wanted needs) (*install.Spec, error) {
	layer, err := newLayer(k.spoolDir, wanted.manifests, manifestFolder)
	if err != nil {
		return nil, err
	}
	defer layer.Close()
	job := dependencyJob(request, wanted, k.registry)
	job.Installer = request.Runtime.Image
	return job, k.send(ctx, job, layer)
}

func (k *kanikoMaker) send(ctx context.Context, job *install.Spec, layer *registry.Layer) error {
	content, size, digest := layer.File()
	object, err := k.objects.PutParcel(ctx, job.Key, content, size)
	job.Parcel = &install.Parcel{Object: object, SHA256: digest.Hex}
	return err
}

// release deletes the Job's parcel. A Job that an earlier process made has one that is not known any more; tidy finds it.
func (k *kanikoMaker) release(ctx context.Context, spec install.Spec) error {
	if spec.Parcel == nil {
		return nil
	}
	return k.objects.RemoveParcel(ctx, spec.Parcel.Object)
}
