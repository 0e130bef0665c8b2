package resources

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/problem"
	"github.com/naeel/sless/apiserver/internal/request"
)

// maxJSON is the largest JSON body: more than the largest object that a cluster stores.
const maxJSON = 2 << 20

// readJSON returns the body of the request as it came.
func readJSON(ctx context.Context, patch bool) ([]byte, error) {
	info := request.From(ctx)
	if err := checkMediaType(info.Request.Header.Get("Content-Type"), patch); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(info.Writer, info.Request.Body, maxJSON))
	if err != nil {
		return nil, BodyError(err)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, problem.New(http.StatusBadRequest, rest.CodeBadRequest, "the request has no body")
	}
	return body, nil
}

func checkMediaType(header string, patch bool) error {
	if header == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(header)
	if err == nil && (media == "application/json" || patch && media == "application/merge-patch+json") {
		return nil
	}
	want := "application/json"
	if patch {
		want = "application/merge-patch+json"
	}
	return problem.New(http.StatusUnsupportedMediaType, rest.CodeUnsupportedMediaType, "the body must be %s", want)
}

// BodyError says why a body could not be read.
func BodyError(err error) error {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem.New(http.StatusRequestEntityTooLarge, rest.CodeBodyTooLarge, "the body is larger than %d bytes", tooLarge.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return problem.New(http.StatusRequestTimeout, rest.CodeBodyTimeout, "the next part of the body did not come in time")
	}
	return problem.New(http.StatusBadRequest, rest.CodeIncompleteBody, "the body broke off")
}

// decoder turns JSON into a wire type. Fields that are unknown or of a wrong type are refused by name.
type decoder[W any] struct {
	registry huma.Registry
	schema   *huma.Schema
}

func newDecoder[W any](registry huma.Registry) decoder[W] {
	return decoder[W]{registry, registry.Schema(reflect.TypeFor[W](), true, "")}
}

// decode reads a whole document. Null means absent.
func (d decoder[W]) decode(text []byte) (*W, error) {
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return nil, notJSON(err)
	}
	plain = withoutNulls(plain)
	result := &huma.ValidateResult{}
	path := huma.NewPathBuffer(nil, 0)
	path.Push("body")
	huma.Validate(d.registry, d.schema, path, huma.ModeWriteToServer, withKeys(plain, hideDots.Replace), result)
	if len(result.Errors) > 0 {
		return nil, refusal(result.Errors)
	}
	wire := new(W)
	if err := json.Unmarshal(exact(text), wire); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, problem.Invalid(rest.FieldError{Location: "body." + wrong.Field, Message: "expected " + typeName(wrong.Type)})
		}
		return nil, notJSON(err)
	}
	return wire, nil
}

// hideDots and showDots replace what huma takes for the end of a path's part in a name such as handler.py.
var (
	hideDots = strings.NewReplacer(".", "\x00", "[", "\x01")
	showDots = strings.NewReplacer("\x00", ".", "\x01", "[")
)

// withKeys changes the names of all fields.
func withKeys(value any, change func(string) string) any {
	switch value := value.(type) {
	case map[string]any:
		changed := make(map[string]any, len(value))
		for name, field := range value {
			changed[change(name)] = withKeys(field, change)
		}
		return changed
	case []any:
		for i := range value {
			value[i] = withKeys(value[i], change)
		}
	}
	return value
}

// required is how huma says that a field is not there; it names the object.
var required = regexp.MustCompile(`^expected required property (\S+) to be present$`)

// refusal names the fields that a schema refuses, each once.
func refusal(errs []error) error {
	found := problem.FromHuma(http.StatusUnprocessableEntity, "", errs...).(*problem.Problem)
	for i := range found.Errors {
		field := &found.Errors[i]
		if missing := required.FindStringSubmatch(field.Message); missing != nil {
			field.Location, field.Message = field.Location+"."+missing[1], "is required"
		}
		field.Location = showDots.Replace(field.Location)
	}
	found.Errors = slices.CompactFunc(found.Errors, func(a, b rest.FieldError) bool { return a.Location == b.Location })
	return found
}

func typeName(kind reflect.Type) string {
	switch kind.Kind() {
	case reflect.Int32:
		return "an integer of 32 bits"
	case reflect.Int64:
		return "an integer of 64 bits"
	}
	return "another type"
}

func notJSON(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return problem.New(http.StatusBadRequest, rest.CodeBadRequest, "the body is not JSON: error at byte %d", syntax.Offset)
	}
	return problem.New(http.StatusBadRequest, rest.CodeBadRequest, "the body is not JSON that can be read")
}

// exact returns the document without nulls and with its numbers as they were written.
func exact(text []byte) []byte {
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.UseNumber()
	var document any
	if reader.Decode(&document) != nil {
		return text
	}
	encoded, err := json.Marshal(withoutNulls(document))
	if err != nil {
		return text
	}
	return encoded
}

// withoutNulls takes out fields that are null.
func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			if field == nil {
				delete(value, name)
			} else {
				value[name] = withoutNulls(field)
			}
		}
	case []any:
		for i := range value {
			value[i] = withoutNulls(value[i])
		}
	}
	return value
}

// mergePatch applies an RFC 7396 patch to a document.
func mergePatch(document, patch []byte) ([]byte, error) {
	var changes any
	if err := json.Unmarshal(patch, &changes); err != nil {
		return nil, notJSON(err)
	}
	if _, ok := changes.(map[string]any); !ok {
		return nil, problem.Invalid(rest.FieldError{Location: "body", Message: "expected an object"})
	}
	reader := json.NewDecoder(bytes.NewReader(patch))
	reader.UseNumber()
	if err := reader.Decode(&changes); err != nil {
		return nil, notJSON(err)
	}
	reader = json.NewDecoder(bytes.NewReader(document))
	reader.UseNumber()
	var target any
	if err := reader.Decode(&target); err != nil {
		return nil, err
	}
	return json.Marshal(merge(target, changes))
}

func merge(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	object, ok := target.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	for name, change := range changes {
		if change == nil {
			delete(object, name)
		} else {
			object[name] = merge(object[name], change)
		}
	}
	return object
}

// ETags splits a header If-Match or If-None-Match.
func ETags(header string) []string {
	var all []string
	for _, tag := range strings.Split(header, ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			all = append(all, tag)
		}
	}
	return all
}
