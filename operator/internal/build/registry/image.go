package registry

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/dial"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// NamespaceUIDLabel is a label of every image sless makes: the UID of the namespace it was made for.
const NamespaceUIDLabel = "io.sless.namespace-uid"

// Image is an image that exists.
type Image struct {
	// Reference is its name by digest.
	Reference string
	// Size is how many bytes it takes in the registry; layers that it shares are counted.
	Size int64
}

// Find looks a tag of a tenant's repository up, and returns nil when it is not there. Some registries say of a repository that nothing
// was pushed to yet that it may not be read; what is true of credentials that are wrong shows when something is pushed.
func (r *Registry) Find(ctx context.Context, namespace, tag string) (*Image, error) {
	ref, err := name.NewTag(r.Repository(namespace)+":"+tag, r.nameOptions()...)
	if err != nil {
		return nil, err
	}
	descriptor, err := remote.Get(ref, r.push(ctx)...)
	switch statusOf(err) {
	case http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden:
		return nil, nil
	}
	if err != nil {
		return nil, explain(ctx, "look up "+ref.String(), err)
	}
	image, err := descriptor.Image()
	if err != nil {
		return nil, explain(ctx, "read "+ref.String(), err)
	}
	return describe(ref.Context(), image)
}

// Append makes an image of base, which is given by digest, and one more layer, and pushes it to a tag of the tenant's repository.
func (r *Registry) Append(ctx context.Context, base string, layer *Layer, namespace, tag string, labels map[string]string) (*Image, error) {
	ref, err := name.NewTag(r.Repository(namespace)+":"+tag, r.nameOptions()...)
	if err != nil {
		return nil, err
	}
	below, err := r.base(ctx, base)
	if err != nil {
		return nil, err
	}
	image, err := r.extend(below, layer, labels)
	if err != nil {
		return nil, explain(ctx, "read "+base, err)
	}
	if err := remote.Write(ref, image, r.push(ctx)...); err != nil {
		return nil, explain(ctx, "push "+ref.String(), err)
	}
	return describe(ref.Context(), image)
}

// base reads an image that the platform's configuration or a build of its own names. Its layers are copied from repository to
// repository inside the registry when it is there, and streamed when it is not.
func (r *Registry) base(ctx context.Context, base string) (v1.Image, error) {
	ref, err := name.NewDigest(base, r.nameOptions()...)
	if err != nil {
		return nil, fault.Transient(v1alpha1.ReasonBuildFailed, "the catalogue's image %q is no image by digest; the platform's operator must correct it", base)
	}
	image, err := remote.Image(ref, r.pull(ctx)...)
	if statusOf(err) == http.StatusNotFound {
		return nil, fault.Transient(v1alpha1.ReasonImagePullFailed, "the base image %s is not in its registry; the platform's operator must push it or correct the catalogue", base)
	}
	if err != nil {
		return nil, explain(ctx, "read "+base, err)
	}
	return image, nil
}

func (r *Registry) extend(below v1.Image, layer *Layer, labels map[string]string) (v1.Image, error) {
	mediaType, err := below.MediaType()
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(below, mutate.Addendum{
		Layer:   layer.as(mediaType),
		History: v1.History{CreatedBy: "sless"},
	})
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	if file.Config.Labels == nil {
		file.Config.Labels = map[string]string{}
	}
	for key, value := range labels {
		file.Config.Labels[key] = value
	}
	return mutate.ConfigFile(image, file)
}

func describe(repository name.Repository, image v1.Image) (*Image, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	size := manifest.Config.Size
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	return &Image{Reference: repository.Digest(digest.String()).String(), Size: size}, nil
}

// Resolve returns, by digest, an image that a tenant names. One in the platform's registry must lie in the tenant's own repository
// and, when sless made it, must have been made for this very namespace. Elsewhere it must be public: no credentials are sent to a
// host that a tenant names, and no address is connected to that tenants may not name.
func (r *Registry) Resolve(ctx context.Context, image, namespace, namespaceUID string) (string, error) {
	ref, err := name.ParseReference(image, r.nameOptions()...)
	if err != nil {
		return "", fault.Terminal(v1alpha1.ReasonSourceInvalid, "source.image %q is no image name; write it as registry/name@sha256:…", image)
	}
	if ref.Context().RegistryStr() == registryName(r.config.Host) {
		return r.resolveOwn(ctx, ref, namespace, namespaceUID)
	}
	// Insecure is the platform's registry's property, not that of others.
	if ref, err = name.ParseReference(image); err != nil {
		return "", err
	}
	descriptor, err := remote.Head(ref, remote.WithContext(ctx), remote.WithTransport(r.guarded), remote.WithAuth(authn.Anonymous))
	if err != nil {
		return "", explainForeign(ctx, image, err)
	}
	return ref.Context().Digest(descriptor.Digest.String()).String(), nil
}

func (r *Registry) resolveOwn(ctx context.Context, ref name.Reference, namespace, namespaceUID string) (string, error) {
	own, err := name.NewRepository(r.Repository(namespace), r.nameOptions()...)
	if err != nil {
		return "", err
	}
	if ref.Context().Name() != own.Name() {
		return "", fault.Terminal(v1alpha1.ReasonImageNotAllowed, "source.image %s is in the platform's registry and not in this namespace's own repository %s; push it there, or use another registry", ref, own)
	}
	descriptor, err := remote.Get(ref, r.pull(ctx)...)
	if statusOf(err) == http.StatusNotFound {
		return "", fault.Terminal(v1alpha1.ReasonSourceNotFound, "source.image %s does not exist; push it, or correct the name", ref)
	}
	if err != nil {
		return "", explain(ctx, "read "+ref.String(), err)
	}
	image, err := descriptor.Image()
	if err != nil {
		return "", explain(ctx, "read "+ref.String(), err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return "", explain(ctx, "read "+ref.String(), err)
	}
	if uid := file.Config.Labels[NamespaceUIDLabel]; uid != "" && uid != namespaceUID {
		return "", fault.Terminal(v1alpha1.ReasonImageNotAllowed, "source.image %s was made for an earlier namespace of the name %s; use an image of this one", ref, namespace)
	}
	return own.Digest(descriptor.Digest.String()).String(), nil
}

func explainForeign(ctx context.Context, image string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if forbidden, ok := errors.AsType[*dial.ForbiddenError](err); ok {
		return fault.Terminal(v1alpha1.ReasonImageNotAllowed, "source.image: %v", forbidden)
	}
	switch statusOf(err) {
	case http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden:
		return fault.Terminal(v1alpha1.ReasonSourceNotFound, "source.image %s does not exist or is not public; push it, or correct the name", image)
	}
	return fault.Transient(v1alpha1.ReasonRegistryUnavailable, "read source.image %s: %v", image, err)
}
