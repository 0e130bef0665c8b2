package build

import (
	"context"
	"io"
	"os"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/archive"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/build/layout"
	"github.com/naeel/sless/operator/internal/build/source"
)

// opened is a source that can be read until it is closed.
type opened struct {
	*archive.Tree
	io.Closer
	// revision is what it was read at: the ETag of s3, the commit of git.
	revision string
}

// open reads the source.
func (p *pipeline) open(ctx context.Context, request Request) (*opened, error) {
	switch from := request.Source; {
	case from.S3 != nil:
		return p.openObject(ctx, request)
	case from.HTTP != nil:
		file, size, err := p.sources.HTTP.Fetch(ctx, from.HTTP.URL, from.HTTP.SHA256)
		if err != nil {
			return nil, err
		}
		return p.openZip(request, file, size)
	case from.Git != nil:
		return p.openRepository(ctx, request)
	}
	tree, err := archive.FromFiles(request.Source.Inline, p.limits)
	return &opened{Tree: tree, Closer: io.NopCloser(nil)}, err
}

func (p *pipeline) openObject(ctx context.Context, request Request) (*opened, error) {
	wanted, err := object(request)
	if err != nil {
		return nil, err
	}
	file, size, etag, err := p.sources.S3.Fetch(ctx, wanted)
	if err != nil {
		return nil, err
	}
	tree, err := p.openZip(request, file, size)
	if err != nil {
		return nil, err
	}
	tree.revision = etag
	return tree, nil
}

// object names the archive that a request is made from.
func object(request Request) (source.Object, error) {
	from := request.Source.S3
	wanted := source.Object{
		Key: from.Key, Bucket: from.Bucket, Endpoint: from.Endpoint, Region: from.Region,
		VersionID: from.VersionID, SHA256: from.SHA256, NamespaceUID: request.NamespaceUID,
	}
	if own := from.Credentials; own != nil {
		wanted.AccessKeyID, wanted.SecretAccessKey = own.AccessKeyID, own.SecretAccessKey
		if own.AccessKeyID == "" || own.SecretAccessKey == "" {
			return wanted, fault.Terminal(v1alpha1.ReasonSourceNotFound, "the Secret that source.s3.secretName names has no accessKeyID or no secretAccessKey; add the key")
		}
	}
	return wanted, nil
}

// revision looks at what a polled source is at.
func (p *pipeline) revision(ctx context.Context, request Request) (string, error) {
	wanted, err := object(request)
	if err != nil {
		return "", err
	}
	return p.sources.S3.Revision(ctx, wanted)
}

func (p *pipeline) openZip(request Request, file *os.File, size int64) (*opened, error) {
	tree, err := archive.FromZip(file, size, p.limits, layout.Entrypoints(request.Runtime.Language, request.Entrypoint))
	if err != nil {
		file.Close()
		return nil, err
	}
	return &opened{Tree: tree, Closer: file}, nil
}

func (p *pipeline) openRepository(ctx context.Context, request Request) (*opened, error) {
	from := request.Source.Git
	repository := source.Repository{URL: from.URL, Ref: from.Ref, Path: from.Path}
	if own := from.Credentials; own != nil {
		repository.Username, repository.Password = own.Username, own.Password
	}
	checkout, err := p.sources.Git.Fetch(ctx, repository)
	if err != nil {
		return nil, err
	}
	tree, err := archive.FromEntries(checkout.Files(), p.limits, layout.Entrypoints(request.Runtime.Language, request.Entrypoint))
	if err != nil {
		checkout.Close()
		return nil, err
	}
	return &opened{Tree: tree, Closer: checkout, revision: checkout.Commit}, nil
}
