package resources

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
)

// Upload stores the body of the request that ctx belongs to as an archive of the namespace.
type Upload func(ctx context.Context, namespace string) (rest.SourceUpload, error)

type codeInput struct {
	Named
	Waiting
	Preconditions
	CodeHash string `query:"code_hash" maxLength:"256" doc:"The function's code_hash from now. Absent: the archive's SHA-256 in hex."`
}

// registerCode adds the upload of a function's code: an upload and one write of the function.
func registerCode(api huma.API, o *operations[rest.Function, *v1alpha1.Function], upload Upload) {
	operation := huma.Operation{
		OperationID: "put-code", Method: http.MethodPut, Path: "/v1/namespaces/{namespace}/functions/{name}/code",
		Summary: "Upload a function's code", Tags: []string{"functions"}, DefaultStatus: http.StatusOK,
		Description: "The body is a zip archive, which becomes the source of the function. The same archive again changes nothing.",
		Metadata:    Rights("update", "functions", "code"), Errors: append(CommonErrors(), 408, 409, 412, 413, 415, 422),
	}
	huma.Register(api, operation, func(ctx context.Context, in *codeInput) (*one[rest.Function], error) {
		object, err := o.putCode(ctx, in, upload)
		if err != nil {
			return nil, err
		}
		return o.answerWritten(ctx, http.StatusOK, object, in.Waiting)
	})
	DocumentArchive(api.OpenAPI().Paths[operation.Path].Put)
}

// DocumentArchive says that the body is an archive, which the handler reads by itself.
func DocumentArchive(operation *huma.Operation) {
	documentBody(operation, &huma.Schema{Type: huma.TypeString, Format: "binary"}, "application/zip")
	operation.Parameters = append(operation.Parameters, &huma.Param{
		Name: "Content-Digest", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
		Description: "RFC 9530: sha-256=:base64:. Other bytes are refused.",
	})
}

// putCode refuses what can be refused before it reads the archive.
func (o *operations[W, O]) putCode(ctx context.Context, in *codeInput, upload Upload) (object O, err error) {
	now, err := o.get(ctx, in.Key())
	if err != nil {
		return object, o.translate(o.named(in.Key()), err)
	}
	if err := in.present(o.etag(now)); err != nil {
		return object, err
	}
	uploaded, err := upload(ctx, in.Namespace)
	if err != nil {
		return object, err
	}
	if in.CodeHash == "" {
		in.CodeHash = uploaded.SHA256
	}
	patch, err := json.Marshal(map[string]any{
		"code_hash": in.CodeHash,
		"source":    archiveSource(uploaded),
	})
	if err != nil {
		return object, err
	}
	return o.patch(ctx, in.Key(), patch, in.Preconditions)
}

// archiveSource is the change that makes an archive the source, and leaves nothing of any other.
func archiveSource(uploaded rest.SourceUpload) map[string]any {
	s3 := map[string]any{}
	for field := range fieldsOf[rest.S3Source]() {
		s3[field] = nil
	}
	s3["key"], s3["sha256"] = uploaded.Key, uploaded.SHA256
	source := map[string]any{}
	for field := range fieldsOf[rest.Source]() {
		source[field] = nil
	}
	source["s3"] = s3
	return source
}

// fieldsOf yields the JSON names of a wire type's fields.
func fieldsOf[W any]() iter.Seq[string] {
	return func(yield func(string) bool) {
		for field := range reflect.TypeFor[W]().Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !yield(name) {
				return
			}
		}
	}
}
