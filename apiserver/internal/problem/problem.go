// Package problem makes the error answers: RFC 9457, each with a stable code, and never with a value that a caller sent.
package problem

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/naeel/sless/api/rest"
)

// Problem is an error that is answered as it stands.
type Problem struct {
	rest.Problem
	header http.Header
}

// New returns a problem. The detail is for people and must have nothing secret.
func New(status int, code, format string, args ...any) *Problem {
	detail := format
	if len(args) > 0 {
		detail = fmt.Sprintf(format, args...)
	}
	return &Problem{Problem: *rest.NewProblem(status, code, detail)}
}

// Invalid returns a 422 that names the wrong fields.
func Invalid(fields ...rest.FieldError) *Problem {
	p := New(http.StatusUnprocessableEntity, rest.CodeInvalid, "the request is not valid; errors names the fields")
	p.Errors = fields
	return p
}

// RetryAfter tells the caller when to come again.
func (p *Problem) RetryAfter(wait time.Duration) *Problem {
	p.header = http.Header{"Retry-After": {strconv.Itoa(max(1, int((wait+time.Second-1)/time.Second)))}}
	return p
}

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders are headers to send along.
func (p *Problem) GetHeaders() http.Header { return p.header }

// ContentType is the content type of a problem whatever was asked for.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// From returns err as a Problem, and false when it is none: then it is answered as internal, and must be logged.
func From(err error) (*Problem, bool) {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p, true
	}
	return New(http.StatusInternalServerError, rest.CodeInternal, "an error on the server's side; its log has the request id"), false
}

// FromHuma makes the problems that huma finds by itself: parameters that can't be parsed. Values are left out.
func FromHuma(status int, _ string, errs ...error) huma.StatusError {
	code := rest.CodeInternal
	detail := "an error on the server's side; its log has the request id"
	switch {
	case status == http.StatusUnprocessableEntity:
		code, detail = rest.CodeInvalid, "the request is not valid; errors names the fields"
	case status < 500:
		code, detail = rest.CodeBadRequest, http.StatusText(status)
	}
	p := New(status, code, "%s", detail)
	for _, err := range errs {
		if detailer, ok := err.(huma.ErrorDetailer); ok {
			found := detailer.ErrorDetail()
			p.Errors = append(p.Errors, rest.FieldError{Location: found.Location, Message: found.Message})
		}
	}
	return p
}
