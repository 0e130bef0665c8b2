// Package subresources is the part of the API below one function: its code, its logs, and calling it.
package subresources

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/apiserver/internal/problem"
	"github.com/naeel/sless/apiserver/internal/resources"
	"github.com/naeel/sless/apiserver/internal/sources"
	"github.com/naeel/sless/apiserver/internal/store"
)

// Handlers serve the subresources.
type Handlers struct {
	Store   *store.Store
	Kube    kubernetes.Interface
	Sources *sources.Store
	// Tenant returns the UID of a namespace.
	Tenant  func(ctx context.Context, namespace string) (string, error)
	Gateway *Gateway
}

// Register adds the operations to api.
func (h *Handlers) Register(api huma.API) {
	function := "/v1/namespaces/{namespace}/functions/{name}"
	huma.Register(api, huma.Operation{
		OperationID: "get-code", Method: http.MethodGet, Path: function + "/code", Summary: "Download a function's code", Tags: []string{"functions"},
		Description: "The zip archive that the function names, or one made of its inline files. The header Sless-Deployed says whether it is what serves.",
		Metadata:    resources.Rights("get", "functions", "code"), Errors: append(resources.CommonErrors(), 409),
		Responses: streamed("application/zip"),
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

func (h *Handlers) getCode(ctx context.Context, in *struct{ resources.Named }) (*huma.StreamResponse, error) {
	fn, err := h.function(ctx, in.Named)
	if err != nil {
		return nil, err
	}
	archive, size, err := h.archive(ctx, fn)
	if err != nil {
		return nil, sources.Explain(ctx, err)
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		defer archive.Close()
		_, w := humago.Unwrap(ctx)
		w.Header().Set("Content-Type", "application/zip")
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		w.Header().Set("Sless-Deployed", strconv.FormatBool(isDeployed(fn)))
		_, _ = io.Copy(w, archive) // a body that is too short tells the caller
	}}, nil
}

// isDeployed says whether what the function names is what serves.
func isDeployed(fn *v1alpha1.Function) bool {
	built := meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.Built)
	return built != nil && built.Status == "True" && built.ObservedGeneration >= fn.Generation && fn.Status.CodeHash == fn.Spec.CodeHash
}

// archive opens what the function names as its source.
func (h *Handlers) archive(ctx context.Context, fn *v1alpha1.Function) (io.ReadCloser, int64, error) {
	source := &fn.Spec.Source
	switch {
	case len(source.Inline) > 0:
		packed, err := pack(source.Inline)
		return io.NopCloser(bytes.NewReader(packed)), int64(len(packed)), err
	case source.S3 != nil && source.S3.SecretName == "":
		tenant, err := h.Tenant(ctx, fn.Namespace)
		if err != nil {
			return nil, 0, err
		}
		return h.Sources.Open(ctx, tenant, source.S3.Key, source.S3.VersionID)
	}
	return nil, 0, problem.New(http.StatusConflict, rest.CodeNoArchive, "the code is in an image or in a bucket of yours, not here")
}

// pack makes an archive of inline files, always the same of the same files.
func pack(files map[string]v1alpha1.InlineFile) ([]byte, error) {
	var out bytes.Buffer
	writer := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file, err := writer.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
		if err != nil {
			return nil, err
		}
		if _, err := io.WriteString(file, string(files[name])); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
