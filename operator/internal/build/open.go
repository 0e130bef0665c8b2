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

// open reads the source. The tree can be read until the closer is closed.
func (p *pipeline) open(ctx context.Context, request Request) (*archive.Tree, io.Closer, error) {
	switch from := request.Source; {
	case from.S3 != nil:
		return p.openObject(ctx, request)
	case from.HTTP != nil:
		file, size, err := p.sources.HTTP.Fetch(ctx, from.HTTP.URL, from.HTTP.SHA256)
		if err != nil {
			return nil, nil, err
		}
		return p.openZip(request, file, size)
	}
	tree, err := archive.FromFiles(request.Source.Inline, p.limits)
	return tree, io.NopCloser(nil), err
}

func (p *pipeline) openObject(ctx context.Context, request Request) (*archive.Tree, io.Closer, error) {
	object := request.Source.S3
	wanted := source.Object{
		Key: object.Key, Bucket: object.Bucket, Endpoint: object.Endpoint, Region: object.Region,
		VersionID: object.VersionID, SHA256: object.SHA256, NamespaceUID: request.NamespaceUID,
	}
	if own := object.Credentials; own != nil {
		wanted.AccessKeyID, wanted.SecretAccessKey = own.AccessKeyID, own.SecretAccessKey
		if own.AccessKeyID == "" || own.SecretAccessKey == "" {
			return nil, nil, fault.Terminal(v1alpha1.ReasonSourceNotFound, "the Secret that source.s3.secretName names has no accessKeyID or no secretAccessKey; add the key")
		}
	}
	file, size, err := p.sources.S3.Fetch(ctx, wanted)
	if err != nil {
		return nil, nil, err
	}
	return p.openZip(request, file, size)
}

func (p *pipeline) openZip(request Request, file *os.File, size int64) (*archive.Tree, io.Closer, error) {
	tree, err := archive.FromZip(file, size, p.limits, layout.Entrypoints(request.Runtime.Language, request.Entrypoint))
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return tree, file, nil
}
