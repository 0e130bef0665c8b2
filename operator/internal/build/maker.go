package build

import (
	"context"
	"fmt"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/operator/internal/build/install"
	"github.com/naeel/sless/operator/internal/build/registry"
	"github.com/naeel/sless/operator/internal/build/source"
	"github.com/naeel/sless/operator/internal/config"
)

// Kind says which builder makes the images.
type Kind string

// The builders. They give images of the same contents under the same tags, so that a change of builder builds nothing again.
const (
	// Append adds the code to an image as a layer, in this process; kaniko makes the images of dependencies.
	Append Kind = "append"
	// Kaniko has every image made by kaniko, in Jobs: this process pushes nothing.
	Kaniko Kind = "kaniko"
)

// String implements flag.Value.
func (k *Kind) String() string { return string(*k) }

// Set implements flag.Value.
func (k *Kind) Set(text string) error {
	if text != string(Append) && text != string(Kaniko) {
		return fmt.Errorf("it must be %s or %s", Append, Kaniko)
	}
	*k = Kind(text)
	return nil
}

// maker makes images of what an attempt has read and laid out; it is all in which the two builders differ.
type maker interface {
	// dependencies returns the Job that makes the image of the runtime with the dependencies.
	dependencies(ctx context.Context, request Request, wanted needs) (*install.Spec, error)
	// image puts the code on a base, or returns the Job that does.
	image(ctx context.Context, request Request, base string, code *registry.Layer, tag string) (*registry.Image, *install.Spec, error)
	// release lets go of what the two above stored for a Job.
	release(ctx context.Context, spec install.Spec) error
}

func newMaker(kind Kind, cfg config.Config, images *registry.Registry, objects *source.S3) maker {
	if kind == Kaniko {
		return &kanikoMaker{spoolDir: cfg.Build.SpoolDir, registry: images, objects: objects}
	}
	return &appender{spoolDir: cfg.Build.SpoolDir, registry: images}
}

// appender adds layers in this process.
type appender struct {
	spoolDir string
	registry *registry.Registry
}

func (a *appender) image(ctx context.Context, request Request, base string, code *registry.Layer, tag string) (*registry.Image, *install.Spec, error) {
	image, err := a.registry.Append(ctx, base, code, request.Owner.Namespace, tag, imageLabels(request, tag))
	return image, nil, err
}

// dependencies pushes the image whose install step is run: the runtime with the manifests in it. So manifests of any size, and all
// code where it is needed, come to the step by the way images go, and no object of the cluster holds them.
func (a *appender) dependencies(ctx context.Context, request Request, wanted needs) (*install.Spec, error) {
	layer, err := newLayer(a.spoolDir, wanted.manifests, manifestFolder)
	if err != nil {
		return nil, err
	}
	defer layer.Close()
	job := dependencyJob(request, wanted, a.registry)
	tag := installerPrefix + job.Key
	installer, err := a.registry.Append(ctx, request.Runtime.Image, layer, request.Owner.Namespace, tag, sharedLabels(request, tag))
	if err != nil {
		return nil, err
	}
	job.Installer = installer.Reference
	return job, nil
}

// release deletes the image of an install step that has ended.
func (a *appender) release(ctx context.Context, spec install.Spec) error {
	return a.registry.Delete(ctx, spec.Namespace, installerPrefix+spec.Key)
}

// dependencyJob is the Job that makes a dependency image, but for where it has the manifests from.
func dependencyJob(request Request, wanted needs, images *registry.Registry) *install.Spec {
	tag := dependencyPrefix + wanted.key
	job := &install.Spec{
		Key: wanted.key, Namespace: request.Owner.Namespace, Base: request.Runtime.Image, Wanted: wanted.wanted,
		Destination: images.Repository(request.Owner.Namespace) + ":" + tag, Labels: sharedLabels(request, tag), TimeoutSeconds: request.TimeoutSeconds,
	}
	if request.Index != nil {
		// Another Job, for it may fail where this one does not; the image that either makes serves both.
		job.Key, job.Index = names.Hash(wanted.key, request.Index.SecretName)[:dependencyKeyLen], request.Index.Files
	}
	return job
}
