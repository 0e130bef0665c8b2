package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/naeel/sless/api/rest"
)

// addError adds what the API said, at the attributes that it names. fields says where in the schema a field of the API is when not
// under its own name at the top. Neither the API's messages nor these have values in them.
func addError(diags *diag.Diagnostics, summary string, err error, fields map[string]path.Path) {
	problem, ok := errors.AsType[*rest.Problem](err)
	if !ok {
		diags.AddError(summary, explained(err))
		return
	}
	placed := 0
	for _, field := range problem.Errors {
		if at, ok := place(field.Location, fields); ok {
			placed++
			diags.AddAttributeError(at, summary, field.Message+requestID(problem))
		}
	}
	if placed == 0 || placed < len(problem.Errors) {
		diags.AddError(summary, explained(err))
	}
}

// explained is what an error of a call means for the user, and what to do.
func explained(err error) string {
	problem, ok := errors.AsType[*rest.Problem](err)
	switch {
	case errors.Is(err, context.Canceled):
		return "Interrupted. What was begun goes on; run terraform apply again."
	case !ok:
		return fmt.Sprintf("The API can't be reached, or what it answered can't be read: %s.", err)
	case problem.Status == http.StatusUnauthorized:
		return "The token is not good, or not any more: " + problem.Error() + ". Get a new one; with token_file a new one in that file is taken while terraform runs."
	case problem.Status == http.StatusForbidden:
		return "The token has no right to do this: " + problem.Error() + ". Whoever runs the platform gives rights in a namespace."
	case problem.Status == http.StatusTooManyRequests:
		return "The API is asked too often: " + problem.Error() + ". Run terraform with a smaller -parallelism, or again later."
	}
	return problem.Error() + "."
}

func requestID(problem *rest.Problem) string {
	if problem.RequestID == "" {
		return ""
	}
	return " (request " + problem.RequestID + ")"
}

// place finds the attribute of body.field… or query.field.
func place(location string, fields map[string]path.Path) (path.Path, bool) {
	where, field, _ := strings.Cut(location, ".")
	if where != "body" && where != "query" {
		return path.Empty(), false
	}
	for name := field; name != ""; {
		if at, known := fields[name]; known {
			return at, true
		}
		cut := strings.LastIndexAny(name, ".[")
		if cut < 0 {
			break
		}
		name = name[:cut]
	}
	return path.Empty(), false
}

// attributes makes the map for fields that have their own names.
func attributes(names ...string) map[string]path.Path {
	fields := map[string]path.Path{}
	for _, name := range names {
		fields[name] = path.Root(name)
	}
	return fields
}
