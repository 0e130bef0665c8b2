// Package auth finds out whose a bearer token is: through a chain of authenticators, with a bounded cache, failing closed.
package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Identity is who calls.
type Identity struct {
	Username string
	UID      string
	Groups   []string
	Extra    map[string][]string
}

// An Authenticator knows some tokens.
type Authenticator interface {
	// Name is for logs and metrics.
	Name() string
	// Authenticate returns whose the token is and when it stops being good (zero: not told). The error is ErrUnknown for a token that
	// another authenticator may know, ErrRefused for one that is this authenticator's and not good; any other error
	// means that it could not find out.
	Authenticate(ctx context.Context, token string) (Identity, time.Time, error)
}

// ErrUnknown is a token that this authenticator does not know.
var ErrUnknown = errors.New("unknown token")

// ErrRefused is a token that no other authenticator may be asked about.
var ErrRefused = errors.New("token refused")

// ErrUnavailable says that no authenticator knew the token and at least one could not be asked.
var ErrUnavailable = errors.New("authenticator unavailable")

// allAuthenticated is the group that Kubernetes gives to everybody with a good token.
const allAuthenticated = "system:authenticated"

// Chain asks authenticators one after the other.
type Chain []Authenticator

// Name returns chain.
func (Chain) Name() string { return "chain" }

// Authenticate returns the answer of the first that knows the token. One that can't be asked does not keep the others from
// saying yes; if none does, the error is ErrUnavailable.
func (c Chain) Authenticate(ctx context.Context, token string) (Identity, time.Time, error) {
	var away []error
	for _, authenticator := range c {
		identity, until, err := authenticator.Authenticate(ctx, token)
		switch {
		case err == nil:
			return identity, until, nil
		case errors.Is(err, ErrRefused):
			return Identity{}, time.Time{}, err
		case !errors.Is(err, ErrUnknown):
			away = append(away, fmt.Errorf("%s: %w", authenticator.Name(), err))
		}
	}
	if len(away) > 0 {
		return Identity{}, time.Time{}, fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(away...))
	}
	return Identity{}, time.Time{}, ErrUnknown
}

// Bearer returns the token of an Authorization header, and false when there is none that can be.
func Bearer(header string) (string, bool) {
	scheme, token, found := strings.Cut(header, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return "", false
	}
	for _, char := range token {
		if !strings.ContainsRune("-._~+/=", char) && (char < '0' || char > '9') && (char < 'A' || char > 'Z') && (char < 'a' || char > 'z') {
			return "", false
		}
	}
	return token, true
}

const maxToken = 32 << 10
