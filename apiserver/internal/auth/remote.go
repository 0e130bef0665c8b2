package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/naeel/sless/apiserver/internal/config"
)

// remoteTimeout bounds one call of an identity provider.
const remoteTimeout = 5 * time.Second

// newClient returns a client that trusts caFile besides the system's roots and follows no redirect: a token is shown to the
// address that was configured and to no other.
func newClient(caFile string) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("read CA bundle: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CA bundle %s has no certificate", caFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{
		Transport: transport, Timeout: remoteTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// introspector asks an endpoint of RFC 7662.
type introspector struct {
	config config.Introspection
	client *http.Client
}

// NewIntrospection returns an authenticator for the tokens that an RFC 7662 endpoint knows.
func NewIntrospection(settings config.Introspection) (Authenticator, error) {
	client, err := newClient(settings.CAFile)
	if err != nil {
		return nil, err
	}
	return &introspector{config: settings, client: client}, nil
}

// Name returns introspection.
func (*introspector) Name() string { return "introspection" }

// Authenticate asks whether the token is active.
func (i *introspector) Authenticate(ctx context.Context, token string) (Identity, time.Time, error) {
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, i.config.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return Identity{}, time.Time{}, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if err := i.addCredentials(request); err != nil {
		return Identity{}, time.Time{}, err
	}
	status, found, err := ask(i.client, request)
	if err != nil {
		return Identity{}, time.Time{}, err
	}
	if status != http.StatusOK {
		return Identity{}, time.Time{}, fmt.Errorf("introspection endpoint answers %d", status)
	}
	if active, _ := found["active"].(bool); !active {
		return Identity{}, time.Time{}, ErrUnknown
	}
	until := found.time("exp")
	if !until.IsZero() && until.Before(time.Now()) {
		return Identity{}, time.Time{}, fmt.Errorf("%w: it has expired", ErrRefused)
	}
	if len(i.config.Audiences) > 0 && !found.audience(i.config.Audiences) {
		return Identity{}, time.Time{}, fmt.Errorf("%w: it is for another audience", ErrRefused)
	}
	identity, err := found.identity(i.config.Claims)
	return identity, until, err
}

// addCredentials reads the files each time, so that a change needs no restart.
func (i *introspector) addCredentials(request *http.Request) error {
	if i.config.ClientIDFile == "" {
		return nil
	}
	id, err := os.ReadFile(i.config.ClientIDFile)
	if err != nil {
		return fmt.Errorf("read client id: %w", err)
	}
	secret, err := os.ReadFile(i.config.ClientSecretFile)
	if err != nil {
		return fmt.Errorf("read client secret: %w", err)
	}
	// RFC 6749, 2.3.1: both are form-encoded first.
	request.SetBasicAuth(url.QueryEscape(strings.TrimSpace(string(id))), url.QueryEscape(strings.TrimSpace(string(secret))))
	return nil
}

// userInfo shows the token to an endpoint that answers whose it is.
type userInfo struct {
	config config.UserInfo
	client *http.Client
}

// NewUserInfo returns an authenticator for the tokens with which a userinfo-style URL can be read.
func NewUserInfo(settings config.UserInfo) (Authenticator, error) {
	client, err := newClient(settings.CAFile)
	if err != nil {
		return nil, err
	}
	return &userInfo{config: settings, client: client}, nil
}

// Name returns userinfo.
func (*userInfo) Name() string { return "userinfo" }

// Authenticate reads the URL with the token.
func (u *userInfo) Authenticate(ctx context.Context, token string) (Identity, time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.config.URL, nil)
	if err != nil {
		return Identity{}, time.Time{}, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", "application/json")
	status, found, err := ask(u.client, request)
	switch {
	case err != nil:
		return Identity{}, time.Time{}, err
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Identity{}, time.Time{}, ErrUnknown
	case status != http.StatusOK:
		return Identity{}, time.Time{}, fmt.Errorf("userinfo endpoint answers %d", status)
	}
	identity, err := found.identity(u.config.Claims)
	return identity, found.time("exp"), err
}

// ask returns the status and, when it is 200, the JSON object of the body.
func ask(client *http.Client, request *http.Request) (int, claims, error) {
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return 0, nil, fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return response.StatusCode, nil, nil
	}
	found, err := parseClaims(body)
	if err != nil {
		return 0, nil, fmt.Errorf("answer is no JSON object: %w", err)
	}
	return http.StatusOK, found, nil
}
