// Package request carries what the server knows of a request to the handlers: id, caller, and what the audit line will say.
package request

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"regexp"

	"github.com/naeel/sless/apiserver/internal/auth"
)

// Header has the id of a request, in the request (if the caller has one) and in every answer.
const Header = "X-Request-Id"

// Info is what is known of one request. It belongs to the goroutine that serves the request.
type Info struct {
	// ID is in every log line, in the answer, and goes on to the gateway and the function.
	ID string
	// Identity is the caller, once authenticated.
	Identity auth.Identity
	// Request and Writer are the HTTP request and answer, for handlers that stream.
	Request *http.Request
	Writer  http.ResponseWriter
	// Log has the request id.
	Log *slog.Logger
	// Action, Namespace, Resource and Name are what was asked for, once known: verb and object of the audit line.
	Action, Namespace, Resource, Name string
	// Draining is closed when the server wants long answers to end.
	Draining <-chan struct{}
}

type key struct{}

// With returns ctx with info.
func With(ctx context.Context, info *Info) context.Context {
	return context.WithValue(ctx, key{}, info)
}

// From returns the Info of the request that ctx belongs to.
func From(ctx context.Context) *Info {
	if info, ok := ctx.Value(key{}).(*Info); ok {
		return info
	}
	return &Info{Log: slog.Default()}
}

var goodID = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// ID returns the caller's id when it is one that may stand in logs and headers, else a new one.
func ID(given string) string {
	if goodID.MatchString(given) {
		return given
	}
	return rand.Text()
}

// IsWrite says whether the action is one that the audit log must have.
func (i *Info) IsWrite() bool {
	switch i.Action {
	case "create", "update", "patch", "delete":
		return true
	}
	return false
}
