package build

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/archive"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/build/install"
	"github.com/naeel/sless/operator/internal/build/layout"
	"github.com/naeel/sless/operator/internal/build/registry"
	"github.com/naeel/sless/operator/internal/build/source"
	"github.com/naeel/sless/operator/internal/config"
)

// Where the layers put their files; see runtimes/CONTRACT.md.
const (
	codeFolder     = "function/code"
	manifestFolder = "manifests"
	// builtFolder is where an install step leaves what it made of the code, below the folder that it fills.
	builtFolder = "built"
)

// Labels of images, beside registry.NamespaceUIDLabel. They keep two tags from ever sharing one digest, so that deleting an image by
// its digest, the only way every registry knows, takes one tag.
const (
	functionLabel = "io.sless.function"
	tagLabel      = "io.sless.tag"
)

// pipeline is the part of a build that runs in this process. One attempt leaves nothing behind but what it pushed, and finds what
// an earlier one pushed.
type pipeline struct {
	config   config.Config
	limits   archive.Limits
	sources  *source.Sources
	registry *registry.Registry
	maker    maker
	checked  atomic.Bool // the registry was found fit
}

// outcome is how an attempt ended: with a result, or with a Job that must have ended well before the next.
type outcome struct {
	result *Result
	job    *install.Spec
}

// attempt builds the image as far as it can. report is told of each step.
func (p *pipeline) attempt(ctx context.Context, request Request, report func(Step)) (outcome, error) {
	report(Fetching)
	if err := p.checkRegistry(ctx); err != nil {
		return outcome{}, err
	}
	if request.Source.Image != "" {
		return p.resolve(ctx, request)
	}
	code, err := p.open(ctx, request)
	if err != nil {
		return outcome{}, err
	}
	defer code.Close()
	needs, err := p.dependencies(request, code.Tree)
	if err != nil {
		return outcome{}, err
	}
	layer, err := newLayer(p.config.Build.SpoolDir, code.Tree, codeFolder)
	if err != nil {
		return outcome{}, err
	}
	defer layer.Close()
	out, err := p.assemble(ctx, request, needs, layer, report)
	if err == nil && out.result != nil {
		out.result.Revision = code.revision
	}
	return out, err
}

// checkRegistry keeps anything from being pushed before the registry is known to be fit.
func (p *pipeline) checkRegistry(ctx context.Context) error {
	if p.checked.Load() {
		return nil
	}
	if err := p.registry.Check(ctx); err != nil {
		return err
	}
	p.checked.Store(true)
	return nil
}

func (p *pipeline) resolve(ctx context.Context, request Request) (outcome, error) {
	image, err := p.registry.Resolve(ctx, request.Source.Image, request.Owner.Namespace, request.NamespaceUID)
	if err != nil {
		return outcome{}, err
	}
	_, digest, _ := strings.Cut(image, "@")
	return outcome{result: &Result{Image: image, SourceDigest: digest, BuiltAt: time.Now()}}, nil
}

func checkEntrypoint(request Request, tree *archive.Tree) error {
	wanted := layout.Entrypoints(request.Runtime.Language, request.Entrypoint)
	if slices.ContainsFunc(wanted, tree.Has) {
		return nil
	}
	const shown = 5
	found := tree.Paths()
	more := ""
	if len(found) > shown {
		found, more = found[:shown], ", …"
	}
	return fault.Terminal(v1alpha1.ReasonSourceInvalid, "the entrypoint %s needs one of %s, and the source has none of them (it has %q%s); add the file, or correct spec.entrypoint",
		request.Entrypoint, strings.Join(wanted, ", "), found, more)
}

// newLayer writes a tree below a folder as a layer.
func newLayer(spoolDir string, tree *archive.Tree, folder string) (*registry.Layer, error) {
	file, err := source.Spool(spoolDir)
	if err != nil {
		return nil, err
	}
	return registry.NewLayer(file, func(w io.Writer) error { return tree.WriteTar(w, folder) })
}

// assemble puts the code on the runtime, or on the runtime with the dependencies, unless that was done before.
func (p *pipeline) assemble(ctx context.Context, request Request, needs needs, layer *registry.Layer, report func(Step)) (outcome, error) {
	diffID, err := layer.DiffID()
	if err != nil {
		return outcome{}, err
	}
	tag := functionTag(request, needs.key, diffID.String())
	image, err := p.registry.Find(ctx, request.Owner.Namespace, tag)
	if err != nil {
		return outcome{}, err
	}
	if image == nil {
		report(Pushing)
		var job *install.Spec
		if image, job, err = p.make(ctx, request, needs, layer, tag); err != nil || job != nil {
			return outcome{job: job}, err
		}
	}
	return outcome{result: &Result{Image: image.Reference, SourceDigest: diffID.String(), Size: image.Size, BuiltAt: time.Now()}}, nil
}

// make has the image made, or says which Job makes it or what it extends.
func (p *pipeline) make(ctx context.Context, request Request, wanted needs, code *registry.Layer, tag string) (*registry.Image, *install.Spec, error) {
	base := request.Runtime.Image
	if wanted.key != "" {
		found, err := p.registry.Find(ctx, request.Owner.Namespace, dependencyPrefix+wanted.key)
		if err != nil {
			return nil, nil, err
		}
		if found == nil {
			job, err := p.maker.dependencies(ctx, request, wanted)
			return nil, job, err
		}
		base = found.Reference
	}
	return p.maker.image(ctx, request, base, code, tag)
}

// needs is what a source wants installed; its key is empty when that is nothing.
type needs struct {
	key       string
	manifests *archive.Tree
	// wanted are the files of which the install step must make one.
	wanted []string
}

// dependencies finds what is to be installed, once the entrypoint is there or a build script is that may make it.
func (p *pipeline) dependencies(request Request, tree *archive.Tree) (needs, error) {
	manifest, err := layout.FindManifest(request.Runtime.Language, tree)
	if err != nil {
		return needs{}, err
	}
	if manifest == nil || !manifest.Build {
		err = checkEntrypoint(request, tree)
	}
	if err != nil || manifest == nil {
		return needs{}, err
	}
	manifests := tree
	if !manifest.AllCode {
		manifests = tree.Only(manifest.Files)
	}
	key, err := dependencyKey(request, manifest, manifests, p.config.Build)
	found := needs{key: key, manifests: manifests}
	if manifest.Build {
		for _, name := range layout.Entrypoints(request.Runtime.Language, request.Entrypoint) {
			found.wanted = append(found.wanted, builtFolder+"/"+name)
		}
	}
	return found, err
}

// sharedLabels are the labels of an image that several functions may need: the same, whichever asks for it.
func sharedLabels(request Request, tag string) map[string]string {
	return map[string]string{registry.NamespaceUIDLabel: request.NamespaceUID, tagLabel: tag}
}

func imageLabels(request Request, tag string) map[string]string {
	labels := sharedLabels(request, tag)
	labels[functionLabel] = request.Owner.Name
	return labels
}

// forget deletes images. With last, those that belong to no single function as well.
func (p *pipeline) forget(ctx context.Context, owner Owner, last bool) error {
	return p.registry.Prune(ctx, owner.Namespace, func(tag string) bool {
		return tagOf(tag, owner.Name) || (last && dependencyTag(tag))
	})
}

// release lets go of what was stored for a Job.
func (p *pipeline) release(ctx context.Context, spec install.Spec) error {
	return p.maker.release(ctx, spec)
}

// tidy lets go of what an earlier process stored for a Job and did not release.
func (p *pipeline) tidy(ctx context.Context) error {
	return p.sources.S3.RemoveParcels(ctx, parcelAge)
}

func (p *pipeline) tags(ctx context.Context, namespace string) ([]string, error) {
	return p.registry.Tags(ctx, namespace)
}

func (p *pipeline) digest(ctx context.Context, namespace, tag string) (string, error) {
	return p.registry.Digest(ctx, namespace, tag)
}

func (p *pipeline) remove(ctx context.Context, namespace, tag string) error {
	return p.registry.Delete(ctx, namespace, tag)
}

// asFault returns why an attempt failed, in terms of its time limit where that was it.
func asFault(ctx context.Context, err error, seconds int32) *fault.Error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return fault.Terminal(v1alpha1.ReasonBuildTimeout, "fetching the source and pushing the image took longer than %d seconds; use less code, or raise spec.build.timeoutSeconds", seconds)
	}
	if errors.Is(err, registry.ErrAnonymousPush) {
		return fault.Transient(v1alpha1.ReasonRegistryDenied, "%v", err)
	}
	if errors.Is(err, syscall.ENOSPC) {
		return fault.Transient(v1alpha1.ReasonBuildOutOfDisk, "the operator's disk has no room for the source; the platform's operator must give build.spoolDir more")
	}
	return fault.As(err, v1alpha1.ReasonBuildFailed)
}
