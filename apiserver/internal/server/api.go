// Package server is the HTTP side of the apiserver: listeners, limits, authentication, and the OpenAPI document.
package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/authz"
	"github.com/naeel/sless/apiserver/internal/problem"
	"github.com/naeel/sless/apiserver/internal/request"
)

// huma makes errors through these two variables only.
func init() {
	huma.NewError = problem.FromHuma
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		if status >= http.StatusInternalServerError {
			return internal(ctx.Context(), errs...)
		}
		return problem.FromHuma(status, message, errs...)
	}
	huma.ValidateStrictCasing = true
}

// internal logs what went wrong and answers that something did.
func internal(ctx context.Context, errs ...error) *problem.Problem {
	err := errors.Join(errs...)
	if !errors.Is(err, context.Canceled) {
		request.From(ctx).Log.ErrorContext(ctx, "request failed", "error", err)
	}
	p, _ := problem.From(err)
	return p
}

// Authorize returns the question to RBAC that answers with a problem. Without the right the answer is the same whether or not the
// namespace, or anything in it, exists.
func Authorize(authorizer *authz.Authorizer) func(context.Context, authz.Action) error {
	return func(ctx context.Context, action authz.Action) error {
		allowed, err := authorizer.Allowed(ctx, request.From(ctx).Identity, action)
		if err != nil {
			request.From(ctx).Log.ErrorContext(ctx, "access review failed", "error", err)
			return problem.New(http.StatusServiceUnavailable, rest.CodeKubernetesUnavailable, "the cluster can't be asked who may do what; try again").RetryAfter(2 * time.Second)
		}
		if !allowed {
			resource := action.Resource
			if action.Subresource != "" {
				resource += "/" + action.Subresource
			}
			return problem.New(http.StatusForbidden, rest.CodeForbidden, "you may not %s %s in namespace %s", action.Verb, resource, action.Namespace)
		}
		return nil
	}
}

// NewAPI returns an API without operations on mux. Every operation must have the metadata of resources.Rights; authorize is asked
// before any handler runs.
func NewAPI(mux *http.ServeMux, authorize func(context.Context, authz.Action) error) huma.API {
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "sless", Version: "v1",
				Description: "Serverless functions on Kubernetes. Errors are application/problem+json with a stable code.",
			},
			Components: &huma.Components{
				Schemas:         huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{"bearer": {Type: "http", Scheme: "bearer"}},
			},
			Security: []map[string][]string{{"bearer": {}}},
		},
		Formats:       map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{withRequestID},
	}
	config.FieldsOptionalByDefault = false
	config.RejectUnknownQueryParameters = true
	api := humago.New(mux, config)
	api.UseMiddleware(gate(authorize))
	return api
}

func withRequestID(ctx huma.Context, _ string, value any) (any, error) {
	if p, ok := value.(*problem.Problem); ok {
		p.RequestID = request.From(ctx.Context()).ID
	}
	return value, nil
}

// gate asks for the operation's right and notes what is being done.
func gate(authorize func(context.Context, authz.Action) error) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		action, ok := ctx.Operation().Metadata["action"].(authz.Action)
		if !ok {
			writeError(ctx, internal(ctx.Context(), errors.New("operation without rights: "+ctx.Operation().OperationID)))
			return
		}
		action.Namespace, action.Name = ctx.Param("namespace"), ctx.Param("name")
		info := request.From(ctx.Context())
		info.Action, info.Namespace, info.Name, info.Resource = action.Verb, action.Namespace, action.Name, action.Resource
		if action.Subresource != "" {
			info.Resource += "/" + action.Subresource
		}
		if err := authorize(ctx.Context(), action); err != nil {
			writeError(ctx, err)
			return
		}
		if len(validation.IsDNS1123Label(action.Namespace)) > 0 {
			writeError(ctx, problem.New(http.StatusNotFound, rest.CodeNamespaceNotFound, "no namespace can have this name"))
			return
		}
		if empty := emptyParameter(ctx); empty != "" {
			writeError(ctx, problem.Invalid(rest.FieldError{Location: "query." + empty, Message: "is empty"}))
			return
		}
		next(ctx)
	}
}

// emptyParameter is the name of a parameter that is given, is no text, and has no value: huma takes it for absent.
func emptyParameter(ctx huma.Context) string {
	url := ctx.URL()
	given := url.Query()
	for _, parameter := range ctx.Operation().Parameters {
		if parameter.In == "query" && parameter.Schema.Type != huma.TypeString && given.Has(parameter.Name) && given.Get(parameter.Name) == "" {
			return parameter.Name
		}
	}
	return ""
}

func writeError(ctx huma.Context, err error) {
	_, w := humago.Unwrap(ctx)
	WriteProblem(w, request.From(ctx.Context()), err)
}
