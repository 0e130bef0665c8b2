package rest

import (
	"fmt"
	"net/http"
	"strings"
)

// Codes of a Problem: what a program may decide by.
const (
	CodeBadRequest            = "bad_request"               // 400: the request can't be understood
	CodeIncompleteBody        = "incomplete_body"           // 400: the body ended before Content-Length
	CodeDigestMismatch        = "digest_mismatch"           // 400: the body has not the digest given
	CodeUnauthenticated       = "unauthenticated"           // 401: no token, or one that is not good
	CodeForbidden             = "forbidden"                 // 403: no right to do it there, whether it exists or not
	CodeQuotaExceeded         = "quota_exceeded"            // 403: a quota of the namespace
	CodeNotFound              = "not_found"                 // 404
	CodeNamespaceNotFound     = "namespace_not_found"       // 404
	CodeMethodNotAllowed      = "method_not_allowed"        // 405
	CodeBodyTimeout           = "body_timeout"              // 408: the body came too slowly
	CodeAlreadyExists         = "already_exists"            // 409
	CodeConflict              = "conflict"                  // 409: others change it all the time; try again
	CodeNamespaceTerminating  = "namespace_terminating"     // 409
	CodeNoCode                = "no_code"                   // 409: there is no code to give: nothing is deployed yet, or sless did not build it
	CodeContinueExpired       = "continue_expired"          // 410: start the list again
	CodePreconditionFailed    = "precondition_failed"       // 412: If-Match or If-None-Match
	CodeBodyTooLarge          = "body_too_large"            // 413
	CodeUnsupportedMediaType  = "unsupported_media_type"    // 415
	CodeInvalid               = "invalid"                   // 422: errors says which fields and why
	CodeNotAnArchive          = "not_an_archive"            // 422: the upload is no zip archive, or an empty one
	CodeRefusedByPolicy       = "refused_by_policy"         // 422: an admission policy of the cluster
	CodeIdempotencyKeyReused  = "idempotency_key_reused"    // 422: the key was used for another request
	CodeRateLimited           = "rate_limited"              // 429
	CodeInternal              = "internal"                  // 500
	CodeKubernetesUnavailable = "kubernetes_unavailable"    // 503
	CodeAuthUnavailable       = "authenticator_unavailable" // 503: no authenticator could say yes, and one is away
	CodeObjectStoreAway       = "object_store_unavailable"  // 503
	CodeGatewayUnavailable    = "gateway_unavailable"       // 503
	CodeLogsUnavailable       = "logs_unavailable"          // 503: the node of the pod does not answer
	CodeLedgerOff             = "ledger_off"                // 503: the installation keeps no records of what ran
	CodeLedgerUnavailable     = "ledger_unavailable"        // 503: the database with these records does not answer
	CodeNoRegistry            = "no_registry"               // 501: the server was not told of the registry that has the code
	CodeRegistryAway          = "registry_unavailable"      // 503
)

// Problem is an error answer, application/problem+json of RFC 9457. It is the error type of the client.
type Problem struct {
	Type      string       `json:"type" doc:"Always about:blank; the code says which problem it is."`
	Title     string       `json:"title" doc:"The status in words."`
	Status    int          `json:"status" doc:"The HTTP status."`
	Code      string       `json:"code" doc:"Which problem it is, for programs."`
	Detail    string       `json:"detail,omitempty" doc:"What went wrong, for people."`
	RequestID string       `json:"request_id,omitempty" doc:"What to name when you ask for help."`
	Errors    []FieldError `json:"errors,omitempty" doc:"The fields that are wrong."`
}

// FieldError is what is wrong with one field. It never has the field's value.
type FieldError struct {
	Location string `json:"location" doc:"The field, for example body.source.s3.key or query.limit." example:"body.timeout_sec"`
	Message  string `json:"message" doc:"The rule."`
}

// Error returns code, detail and fields in one line.
func (p *Problem) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d %s", p.Status, p.Code)
	if p.Detail != "" {
		text.WriteString(": " + p.Detail)
	}
	for _, field := range p.Errors {
		text.WriteString("; " + field.Location + ": " + field.Message)
	}
	if p.RequestID != "" {
		text.WriteString(" (request " + p.RequestID + ")")
	}
	return text.String()
}

// NewProblem returns a Problem with the title of its status.
func NewProblem(status int, code, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}
