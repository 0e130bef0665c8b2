// Package problem is the gateway's answers of its own: RFC 9457 problem documents with a stable code.
package problem

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// Code names a kind of refusal. Codes are part of the public contract and never change their meaning.
type Code string

// The codes.
const (
	NoRoute          Code = "no_route"
	Disabled         Code = "disabled"
	NoEndpoint       Code = "no_endpoint"
	ScaledToZero     Code = "scaled_to_zero"
	GatewayBusy      Code = "gateway_busy"
	MethodNotAllowed Code = "method_not_allowed"
	FunctionTimeout  Code = "function_timeout"
	FunctionFailed   Code = "function_failed"
	OverLimit        Code = "over_limit"
	BodyTooLarge     Code = "body_too_large"
	BodyTimeout      Code = "body_timeout"
	BadRequest       Code = "bad_request"
	Unauthorized     Code = "unauthorized"
	AuthUnavailable  Code = "auth_unavailable"
)

// ContentType is the media type of a problem document.
const ContentType = "application/problem+json"

// Problem is one refusal. It is an error, so that it can come out of any depth of the chain; its text is made for callers and has
// no address, name or message of the inside.
type Problem struct {
	Status int
	Code   Code
	// Title is the same for every occurrence of a code.
	Title string
	// Detail says what happened this time and what to do.
	Detail string
	// RetryAfter is in seconds; 0 leaves the header out.
	RetryAfter int
	// Allow is the Allow header of a 405.
	Allow string
}

// Error returns the code and the detail.
func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

type document struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Code      Code   `json:"code"`
	Detail    string `json:"detail,omitempty"`
	RequestID string `json:"request_id"`
}

// Write answers with the problem. Headers that were meant for another answer are removed.
func Write(w http.ResponseWriter, p *Problem, requestID string) {
	body, _ := json.Marshal(document{ // strings and a number always encode
		Type: "urn:sless:problem:" + string(p.Code), Title: p.Title, Status: p.Status,
		Code: p.Code, Detail: p.Detail, RequestID: requestID,
	})
	body = append(body, '\n')
	h := w.Header()
	clear(h)
	h.Set("Content-Type", ContentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Request-Id", requestID)
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if p.Allow != "" {
		h.Set("Allow", p.Allow)
	}
	if p.Code == Unauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // a caller that has gone needs no answer
}
