// Package deployed reads from the platform's registry the code of the image that serves, as a zip archive.
package deployed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/naeel/sless/apiserver/internal/config"
)

var (
	// ErrNoCode is an image whose code sless did not put there: one that was built elsewhere, or that is gone from the registry.
	ErrNoCode = errors.New("the image has no code of which sless knows")
	// ErrNotConfigured says that the configuration names no registry.
	ErrNotConfigured = errors.New("no registry is configured")
)

// answerTimeout is how long the registry may take to begin an answer.
const answerTimeout = 10 * time.Second

// patience is how often a call that failed is repeated: once, because the caller can repeat it as well.
var patience = remote.Backoff{Duration: 100 * time.Millisecond, Factor: 1, Steps: 2}

// Registry is the platform's registry, with the credentials that may only pull.
type Registry struct {
	config    config.Registry
	transport http.RoundTripper
}

// New returns the registry of the configuration. It makes no call.
func New(settings config.Registry) (*Registry, error) {
	direct := http.DefaultTransport.(*http.Transport).Clone()
	direct.ResponseHeaderTimeout = answerTimeout
	if settings.CAFile != "" {
		pem, err := os.ReadFile(settings.CAFile)
		if err != nil {
			return nil, fmt.Errorf("registry: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("registry: %s has no certificate", settings.CAFile)
		}
		direct.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &Registry{settings, direct}, nil
}

// Code is the code of one image.
type Code struct {
	layer io.ReadCloser
}

// Open finds the code in an image of a namespace: its last layer, whose content has that digest. Nothing but the namespace's own
// repository is ever asked, because a tenant may name any image.
func (r *Registry) Open(ctx context.Context, namespace, image, digest string) (*Code, error) {
	if r.config.Host == "" {
		return nil, ErrNotConfigured
	}
	var options []name.Option
	if r.config.Insecure {
		options = append(options, name.Insecure)
	}
	own, err := name.NewRepository(r.config.Host+"/"+strings.ReplaceAll(r.config.Repository, "{namespace}", namespace), options...)
	if err != nil {
		return nil, fmt.Errorf("name repository: %w", err)
	}
	ref, err := name.NewDigest(image, options...)
	if err != nil || ref.Context().Name() != own.Name() {
		return nil, ErrNoCode
	}
	found, err := remote.Image(ref, remote.WithContext(ctx), remote.WithTransport(r.transport),
		remote.WithAuthFromKeychain(keychain{r.config}), remote.WithRetryBackoff(patience))
	if err != nil {
		return nil, absent(err, "read "+image)
	}
	layer, err := lastLayer(found, digest)
	if err != nil {
		return nil, absent(err, "read "+image)
	}
	content, err := layer.Uncompressed()
	if err != nil {
		return nil, absent(err, "read code of "+image)
	}
	return &Code{content}, nil
}

// lastLayer is the image's last layer if its content has the digest, or ErrNoCode.
func lastLayer(image v1.Image, digest string) (v1.Layer, error) {
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	if len(layers) == 0 {
		return nil, ErrNoCode
	}
	last := layers[len(layers)-1]
	diffID, err := last.DiffID()
	if err != nil {
		return nil, err
	}
	if diffID.String() != digest {
		return nil, ErrNoCode
	}
	return last, nil
}

// absent tells an image that is gone from a registry that is away.
func absent(err error, doing string) error {
	if answer, ok := errors.AsType[*transport.Error](err); ok && answer.StatusCode == http.StatusNotFound || errors.Is(err, ErrNoCode) {
		return ErrNoCode
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Close ends reading.
func (c *Code) Close() error { return c.layer.Close() }

// keychain has the pull credentials for the registry's host, read anew each time so that they can be rotated, and none for any other.
type keychain struct{ config config.Registry }

// Resolve implements authn.Keychain.
func (k keychain) Resolve(target authn.Resource) (authn.Authenticator, error) {
	host := k.config.Host
	if own, err := name.NewRegistry(host); err != nil || own.RegistryStr() != target.RegistryStr() || k.config.PullConfigFile == "" {
		return authn.Anonymous, nil
	}
	text, err := os.ReadFile(k.config.PullConfigFile)
	if err != nil {
		return nil, fmt.Errorf("read registry credentials: %w", err)
	}
	var parsed struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if err := json.Unmarshal(text, &parsed); err != nil {
		return nil, fmt.Errorf("registry credentials in %s are no Docker config.json", k.config.PullConfigFile) // the cause may quote them
	}
	for _, key := range []string{host, target.RegistryStr(), "https://" + host, "http://" + host, "https://" + target.RegistryStr() + "/v1/"} {
		if found, ok := parsed.Auths[key]; ok {
			return authn.FromConfig(found), nil
		}
	}
	return authn.Anonymous, nil
}
