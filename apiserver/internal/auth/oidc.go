package auth

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/naeel/sless/apiserver/internal/config"
)

// issuer verifies the JWTs of one OpenID Connect issuer.
type issuer struct {
	config config.OIDC
	client *http.Client
	// failed is set while the issuer's last answer was no good, so that a token whose key can't be fetched is told from a forged one.
	failed *atomic.Bool

	mu       sync.Mutex // guards verifier
	verifier *oidc.IDTokenVerifier
}

// NewOIDC returns an authenticator for the JWTs of one issuer. The issuer is asked for its keys when the first token comes.
func NewOIDC(settings config.OIDC) (Authenticator, error) {
	client, err := newClient(settings.CAFile)
	if err != nil {
		return nil, err
	}
	failed := &atomic.Bool{}
	client.Transport = watched{client.Transport, failed}
	return &issuer{config: settings, client: client, failed: failed}, nil
}

// watched notes whether the last answer was good.
type watched struct {
	next   http.RoundTripper
	failed *atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (w watched) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(r)
	w.failed.Store(err != nil || response.StatusCode != http.StatusOK)
	return response, err
}

// Name returns oidc.
func (*issuer) Name() string { return "oidc" }

// Authenticate verifies the token when it says that it is this issuer's.
func (i *issuer) Authenticate(ctx context.Context, token string) (Identity, time.Time, error) {
	if unverifiedIssuer(token) != i.config.Issuer {
		return Identity{}, time.Time{}, ErrUnknown
	}
	verifier, err := i.getVerifier(ctx)
	if err != nil {
		return Identity{}, time.Time{}, err
	}
	verified, err := verifier.Verify(ctx, token)
	if err != nil {
		if i.failed.Load() {
			return Identity{}, time.Time{}, fmt.Errorf("fetch keys of issuer %s: %w", i.config.Issuer, err)
		}
		return Identity{}, time.Time{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	var raw json.RawMessage
	if err := verified.Claims(&raw); err != nil {
		return Identity{}, time.Time{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	found, err := parseClaims(raw)
	if err != nil {
		return Identity{}, time.Time{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if !found.audience(i.config.Audiences) {
		return Identity{}, time.Time{}, fmt.Errorf("%w: it is for another audience", ErrRefused)
	}
	identity, err := found.identity(i.config.Claims)
	return identity, verified.Expiry, err
}

// getVerifier asks for the issuer's configuration until it has it once.
func (i *issuer) getVerifier(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.verifier != nil {
		return i.verifier, nil
	}
	// The key set keeps this context for as long as it lives.
	provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), i.client), i.config.Issuer)
	if err != nil {
		return nil, fmt.Errorf("discover issuer %s: %w", i.config.Issuer, err)
	}
	i.verifier = provider.Verifier(&oidc.Config{SkipClientIDCheck: true}) // audiences are checked by us, there may be several
	return i.verifier, nil
}

// unverifiedIssuer is what a token says of itself; empty when it is no JWT.
func unverifiedIssuer(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var body struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(payload, &body) != nil {
		return ""
	}
	return body.Issuer
}

// parseClaims reads JSON and keeps numbers as they are.
func parseClaims(text []byte) (claims, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var found claims
	if err := decoder.Decode(&found); err != nil {
		return nil, err
	}
	return found, nil
}
