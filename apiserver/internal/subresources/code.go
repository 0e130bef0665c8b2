// Package subresources is the part of the API below one function: its code, its logs, and calling it.
package subresources

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"k8s.io/client-go/kubernetes"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/apiserver/internal/deployed"
	"github.com/naeel/sless/apiserver/internal/problem"
	"github.com/naeel/sless/apiserver/internal/request"
	"github.com/naeel/sless/apiserver/internal/resources"
	"github.com/naeel/sless/apiserver/internal/store"
)

// Handlers serve the subresources.
type Handlers struct {
	Store    *store.Store
	Kube     kubernetes.Interface
	Registry *deployed.Registry
	Gateway  *Gateway
	// Downloads has room for the downloads of code that there may be at a time.
	Downloads chan struct{}
	// WriteIdle is how long a caller may take for the next part of a download.
	WriteIdle time.Duration
}

// Register adds the operations to api.
func (h *Handlers) Register(api huma.API) {
	function := "/v1/namespaces/{namespace}/functions/{name}"
	code := streamed("application/zip")
	code["200"].Headers = map[string]*huma.Param{"ETag": {Schema: &huma.Schema{Type: huma.TypeString}, Description: "Stands for the files that are deployed."}}
	code["304"] = &huma.Response{Description: "Not Modified"}
	huma.Register(api, huma.Operation{
		OperationID: "get-code", Method: http.MethodGet, Path: function + "/code", Summary: "Download a function's code", Tags: []string{"functions"},
		Description: "The files that are deployed, as a zip archive made of them; after a build that failed, those of the build before. " +
			"The ETag stands for the files: the same files give the same archive. 409 no_code when nothing is deployed yet, or when it is an image that was built elsewhere.",
		Metadata: resources.Rights("get", "functions", "code"), Errors: append(resources.CommonErrors(), 409, 501),
		Responses: code,
	}, h.getCode)
	huma.Register(api, huma.Operation{
		OperationID: "get-logs", Method: http.MethodGet, Path: function + "/logs", Summary: "Read a function's log", Tags: []string{"functions"},
		Description: "Lines of all replicas, each after the pod's name. Lines that begin with --- are the server's own: what is left out, and why a log ends.",
		Metadata:    resources.Rights("get", "functions", "logs"), Errors: append(resources.CommonErrors(), 422),
		Responses: streamed("text/plain"),
	}, h.getLogs)
	huma.Register(api, huma.Operation{
		OperationID: "invoke", Method: http.MethodPost, Path: function + "/invoke", Summary: "Call a function", Tags: []string{"functions"},
		Description: "The body is the event as JSON, the answer the JSON of what the handler returns. Needs no trigger. " +
			"Errors of the function and of the gateway are passed on as they come, such as 500 function_failed, 503 scaled_to_zero, 504 function_timeout.",
		Metadata: resources.Rights("create", "functions", "invoke"), Errors: append(resources.CommonErrors(), 405, 408, 413, 500, 502, 504),
		Responses: streamed("application/json"),
	}, h.invoke)
	api.OpenAPI().Paths[function+"/invoke"].Post.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{}}}}
}

// streamed documents an answer that a handler writes by itself.
func streamed(media string) map[string]*huma.Response {
	schema := &huma.Schema{}
	if media != "application/json" {
		schema.Type = huma.TypeString
	}
	return map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{media: {Schema: schema}}}}
}

// function reads the function of a request.
func (h *Handlers) function(ctx context.Context, in resources.Named) (*v1alpha1.Function, error) {
	fn := &v1alpha1.Function{}
	err := h.Store.Read(ctx, in.Key(), fn)
	return fn, problem.FromKubernetes(err, problem.Object{Kind: "function", Namespace: in.Namespace, Name: in.Name})
}

type codeInput struct {
	resources.Named
	IfNoneMatch string `header:"If-None-Match" doc:"ETag of code that the caller has: 304 when it is still the same."`
}

// getCode answers with the code that is deployed: after a failed build that is the old one.
func (h *Handlers) getCode(ctx context.Context, in *codeInput) (*huma.StreamResponse, error) {
	fn, err := h.function(ctx, in.Named)
	if err != nil {
		return nil, err
	}
	if fn.Status.Image == "" {
		return nil, problem.New(http.StatusConflict, rest.CodeNoCode, "nothing is deployed yet; the function's status says what is in progress or wrong")
	}
	etag := codeETag(fn)
	if slices.Contains(resources.ETags(in.IfNoneMatch), etag) {
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			ctx.SetHeader("ETag", etag)
			ctx.SetStatus(http.StatusNotModified)
		}}, nil
	}
	select {
	case h.Downloads <- struct{}{}:
	default:
		return nil, problem.New(http.StatusTooManyRequests, rest.CodeRateLimited, "too many downloads at a time").RetryAfter(2 * time.Second)
	}
	code, err := h.Registry.Open(ctx, fn.Namespace, fn.Status.Image, fn.Status.SourceDigest)
	if err != nil {
		<-h.Downloads
		return nil, h.noCode(ctx, err)
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		defer func() { <-h.Downloads }()
		defer code.Close()
		_, w := humago.Unwrap(ctx)
		w.Header().Set("Content-Type", "application/zip")
		w.Header().Set("ETag", etag)
		if err := code.WriteZip(&paced{w, http.NewResponseController(w), h.WriteIdle}); err != nil {
			request.From(ctx.Context()).Log.WarnContext(ctx.Context(), "download broke off", "error", err)
			panic(http.ErrAbortHandler) // or what the caller has got would look complete
		}
	}}, nil
}

// codeETag stands for the code whatever runtime it is on, and so for the archive that is made of it.
func codeETag(fn *v1alpha1.Function) string {
	return `"` + strings.TrimPrefix(fn.Status.SourceDigest, "sha256:") + `"`
}

// noCode says why there is no code to give.
func (h *Handlers) noCode(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, deployed.ErrNoCode):
		return problem.New(http.StatusConflict, rest.CodeNoCode, "what is deployed is an image that sless did not build, or that its registry has lost; get the code where the image comes from")
	case errors.Is(err, deployed.ErrNotConfigured):
		return problem.New(http.StatusNotImplemented, rest.CodeNoRegistry, "this server has no access to the registry with the code; the platform's operator can configure it")
	}
	request.From(ctx).Log.ErrorContext(ctx, "registry", "error", err)
	return problem.New(http.StatusServiceUnavailable, rest.CodeRegistryAway, "the registry with the code does not answer now; try again").RetryAfter(2 * time.Second)
}

// paced ends an answer whose caller does not take the next part of it within idle.
type paced struct {
	io.Writer
	control *http.ResponseController
	idle    time.Duration
}

// Write implements io.Writer.
func (p *paced) Write(data []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.idle)) // a writer that has no deadlines is a test's
	return p.Writer.Write(data)
}
