package sources

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/problem"
	"github.com/naeel/sless/apiserver/internal/request"
	"github.com/naeel/sless/apiserver/internal/resources"
)

// Receiver takes archives from requests.
type Receiver struct {
	Store *Store
	// Tenant returns the UID of a namespace.
	Tenant func(ctx context.Context, namespace string) (string, error)
	// MaxBytes is the largest archive.
	MaxBytes int64
	slots    chan struct{}
}

// NewReceiver returns a Receiver that takes so many archives at a time.
func NewReceiver(store *Store, tenant func(context.Context, string) (string, error), maxBytes int64, atATime int) *Receiver {
	return &Receiver{store, tenant, maxBytes, make(chan struct{}, atATime)}
}

// Receive stores the body of the request that ctx belongs to.
func (r *Receiver) Receive(ctx context.Context, namespace string) (rest.SourceUpload, error) {
	info := request.From(ctx)
	upload, err := r.accept(info.Request)
	if err != nil {
		return rest.SourceUpload{}, err
	}
	if upload.Tenant, err = r.Tenant(ctx, namespace); err != nil {
		return rest.SourceUpload{}, err
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	default:
		return rest.SourceUpload{}, problem.New(http.StatusTooManyRequests, rest.CodeRateLimited, "too many uploads at a time").RetryAfter(2 * time.Second)
	}
	upload.Body = failing{http.MaxBytesReader(info.Writer, info.Request.Body, r.MaxBytes)}
	uploaded, err := r.Store.Put(ctx, upload)
	return uploaded, Explain(ctx, err)
}

// Explain logs what the object store said, and returns what the caller may know of it.
func Explain(ctx context.Context, err error) error {
	if away, ok := errors.AsType[*storeError](err); ok {
		request.From(ctx).Log.ErrorContext(ctx, "object store", "error", away.cause)
		return away.Problem
	}
	return err
}

// failing translates errors of the request's body.
type failing struct{ body io.Reader }

// Read implements io.Reader.
func (f failing) Read(into []byte) (int, error) {
	n, err := f.body.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		err = resources.BodyError(err)
	}
	return n, err
}

// accept refuses what can be refused before the body is read.
func (r *Receiver) accept(request *http.Request) (Upload, error) {
	upload := Upload{Size: request.ContentLength}
	if header := request.Header.Get("Content-Type"); header != "" {
		switch media, _, _ := mime.ParseMediaType(header); media {
		case "application/zip", "application/x-zip-compressed", "application/octet-stream":
		default:
			return upload, problem.New(http.StatusUnsupportedMediaType, rest.CodeUnsupportedMediaType, "the body must be application/zip")
		}
	}
	if request.ContentLength > r.MaxBytes {
		return upload, problem.New(http.StatusRequestEntityTooLarge, rest.CodeBodyTooLarge, "the archive is larger than %d bytes", r.MaxBytes)
	}
	var err error
	upload.SHA256, err = digest(request.Header.Get("Content-Digest"))
	return upload, err
}

// digest reads a header Content-Digest of RFC 9530; nil when there is none.
func digest(header string) ([]byte, error) {
	if header == "" {
		return nil, nil
	}
	for _, member := range strings.Split(header, ",") {
		algorithm, value, _ := strings.Cut(strings.TrimSpace(member), "=")
		if !strings.EqualFold(algorithm, "sha-256") {
			continue
		}
		sum, err := base64.StdEncoding.DecodeString(strings.Trim(value, ":"))
		if err == nil && len(sum) == 32 && len(value) > 2 && value[0] == ':' && value[len(value)-1] == ':' {
			return sum, nil
		}
	}
	return nil, problem.New(http.StatusBadRequest, rest.CodeBadRequest, "Content-Digest must have sha-256=:base64 of 32 bytes:")
}

type uploadOutput struct {
	Body rest.SourceUpload
}

// Register adds the upload to api.
func Register(api huma.API, receiver *Receiver) {
	operation := huma.Operation{
		OperationID: "upload-source", Method: http.MethodPost, Path: "/v1/namespaces/{namespace}/sources",
		Summary: "Upload an archive", Tags: []string{"sources"}, DefaultStatus: http.StatusCreated,
		Description: "The body is a zip archive. The same bytes twice are stored once. An archive that no function names is removed after 24 hours.",
		Metadata:    resources.Rights("create", "sources", ""), Errors: append(resources.CommonErrors(), 408, 409, 413, 415, 422),
	}
	huma.Register(api, operation, func(ctx context.Context, in *struct{ resources.InNamespace }) (*uploadOutput, error) {
		uploaded, err := receiver.Receive(ctx, in.Namespace)
		return &uploadOutput{uploaded}, err
	})
	resources.DocumentArchive(api.OpenAPI().Paths[operation.Path].Post)
}
