// Package registry reads and writes images: in the platform's registry with the platform's credentials, and elsewhere without any.
package registry

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/dial"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/config"
)

// Registry is the platform's registry, seen from the operator.
type Registry struct {
	config  config.Registry
	trusted http.RoundTripper
	guarded http.RoundTripper
}

// New returns the registry that the configuration names.
func New(cfg config.Registry, guard *dial.Guard) (*Registry, error) {
	trusted, err := dial.Trusted(cfg.CAFile)
	if err != nil {
		return nil, err
	}
	r := &Registry{config: cfg, trusted: trusted, guarded: guard.Transport()}
	if _, err := name.NewRegistry(cfg.Host); err != nil {
		return nil, fmt.Errorf("registry.host: %w", err)
	}
	if _, err := name.NewRepository(r.Repository("example"), r.nameOptions()...); err != nil {
		return nil, fmt.Errorf("registry.host and registry.repository make no repository: %w", err)
	}
	return r, nil
}

// Repository returns the repository of a tenant's namespace.
func (r *Registry) Repository(namespace string) string {
	return r.config.Host + "/" + strings.ReplaceAll(r.config.Repository, "{namespace}", namespace)
}

func (r *Registry) nameOptions() []name.Option {
	if r.config.Insecure {
		return []name.Option{name.Insecure}
	}
	return nil
}

// pull and push are the options for the platform's registry with one or the other credentials, which are read anew each time so
// that they can be rotated.
func (r *Registry) pull(ctx context.Context) []remote.Option {
	return r.options(ctx, r.config.PullConfigFile)
}

func (r *Registry) push(ctx context.Context) []remote.Option {
	return r.options(ctx, r.config.PushConfigFile)
}

func (r *Registry) options(ctx context.Context, configFile string) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(r.trusted),
		remote.WithAuthFromKeychain(keychain{host: r.config.Host, file: configFile}),
		remote.WithPlatform(platform),
	}
}

// platform is the operator's own; nodes of another kind need their own runtime images.
var platform = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}

// CheckAccount says whether there is an account to push with, which a registry that is fit asks for.
func (r *Registry) CheckAccount() error {
	if r.config.AllowAnonymousPush {
		return nil
	}
	host, err := name.NewRegistry(r.config.Host)
	if err != nil {
		return fmt.Errorf("registry.host: %w", err)
	}
	account, err := keychain{host: r.config.Host, file: r.config.PushConfigFile}.Resolve(host)
	if err == nil && account == authn.Anonymous {
		err = fmt.Errorf("%s has no account for registry.host %s; make the Secret with a login there", r.config.PushConfigFile, r.config.Host)
	}
	if err != nil {
		return fmt.Errorf("registry.pushConfigFile: %w", err)
	}
	return nil
}

// Check says whether the registry can be trusted with tenants' images: one that takes pushes without credentials gives
// ErrAnonymousPush, unless the configuration insists.
func (r *Registry) Check(ctx context.Context) error {
	if r.config.AllowAnonymousPush {
		return nil
	}
	probe, err := name.NewTag(r.Repository("sless-probe")+":probe", r.nameOptions()...)
	if err != nil {
		return err
	}
	err = remote.CheckPushPermission(probe, anonymous{}, contextTransport{ctx: ctx, next: r.trusted})
	if err == nil {
		return ErrAnonymousPush
	}
	if status := statusOf(err); status == http.StatusUnauthorized || status == http.StatusForbidden {
		return nil
	}
	return explain(ctx, "ask "+r.config.Host+" for its rights", err)
}

// ErrAnonymousPush is the verdict on a registry in which anybody may replace anybody's images.
var ErrAnonymousPush = errors.New("the registry takes pushes without credentials, so that anybody could replace any function's image; make it ask for a password, or set registry.allowAnonymousPush")

// contextTransport bounds requests of a function that takes no context.
type contextTransport struct {
	ctx  context.Context
	next http.RoundTripper
}

func (t contextTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	return t.next.RoundTrip(request.WithContext(t.ctx))
}

type anonymous struct{}

func (anonymous) Resolve(authn.Resource) (authn.Authenticator, error) { return authn.Anonymous, nil }

// keychain has the credentials of a Docker config.json for one host, and none for any other.
type keychain struct {
	host, file string
}

func (k keychain) Resolve(target authn.Resource) (authn.Authenticator, error) {
	if target.RegistryStr() != registryName(k.host) {
		return authn.Anonymous, nil
	}
	text, err := os.ReadFile(k.file)
	if err != nil {
		return nil, fmt.Errorf("read registry credentials: %w", err)
	}
	var parsed struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if err := json.Unmarshal(text, &parsed); err != nil {
		return nil, fmt.Errorf("registry credentials in %s are no Docker config.json", k.file) // the cause may quote them
	}
	for _, key := range []string{k.host, target.RegistryStr(), "https://" + k.host, "http://" + k.host, "https://" + target.RegistryStr() + "/v1/"} {
		if auth, ok := parsed.Auths[key]; ok {
			return authn.FromConfig(auth), nil
		}
	}
	return authn.Anonymous, nil
}

// registryName is a registry's host as image names have it: some hosts have aliases.
func registryName(host string) string {
	if parsed, err := name.NewRegistry(host); err == nil {
		return parsed.RegistryStr()
	}
	return host
}

// explain tells a registry that is away from one that refuses.
func explain(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return known
	}
	switch statusOf(err) {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.Terminal(v1alpha1.ReasonRegistryDenied, "%s: the registry refuses the platform's credentials for it; the platform's operator must correct them", what)
	}
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return fault.Transient(v1alpha1.ReasonRegistryUnavailable, "%s: the registry's certificate is not trusted (%v); the platform's operator must put the certificate of the authority that signed it into registry.caFile", what, err)
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return fault.Transient(v1alpha1.ReasonRegistryUnavailable, "%s: the registry speaks plain HTTP; the platform's operator must give it a certificate, or set registry.insecure", what)
	}
	return fault.Transient(v1alpha1.ReasonRegistryUnavailable, "%s: %v", what, err)
}

func statusOf(err error) int {
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		return answer.StatusCode
	}
	return 0
}
