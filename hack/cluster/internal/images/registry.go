package images

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Registry is where images go.
type Registry struct {
	Prefix   string // host and path before an image's own name: registry.example.org/sless
	Insecure bool   // plain http
	Dial     string // address to dial instead of the host's own; empty: the host's own
	Keychain authn.Keychain
}

// Account is a Keychain of one user.
type Account struct{ User, Password string }

// Resolve gives the account to whoever asks.
func (a Account) Resolve(authn.Resource) (authn.Authenticator, error) {
	return &authn.Basic{Username: a.User, Password: a.Password}, nil
}

// Push pushes the image as Prefix/repository:tag and gives its reference by digest.
func (r Registry) Push(ctx context.Context, repository, tag string, image v1.Image) (string, error) {
	ref, err := r.parse(r.Prefix + "/" + repository + ":" + tag)
	if err != nil {
		return "", err
	}
	if err := remote.Write(ref, image, r.options(ctx)...); err != nil {
		return "", fmt.Errorf("push %s: %w", ref, err)
	}
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	return ref.Context().Digest(digest.String()).String(), nil
}

// Pull reads an image.
func (r Registry) Pull(ctx context.Context, reference string) (v1.Image, error) {
	ref, err := r.parse(reference)
	if err != nil {
		return nil, err
	}
	return remote.Image(ref, r.options(ctx)...)
}

// Has tells whether the registry has the image.
func (r Registry) Has(ctx context.Context, reference string) (bool, error) {
	ref, err := r.parse(reference)
	if err != nil {
		return false, err
	}
	_, err = remote.Head(ref, r.options(ctx)...)
	if failure, ok := errors.AsType[*transport.Error](err); ok && failure.StatusCode == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

func (r Registry) parse(reference string) (name.Reference, error) {
	var options []name.Option
	if r.Insecure {
		options = append(options, name.Insecure)
	}
	return name.ParseReference(reference, options...)
}

func (r Registry) options(ctx context.Context) []remote.Option {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(r.Keychain)}
	if r.Dial != "" {
		dialer := net.Dialer{Timeout: 10 * time.Second}
		own := remote.DefaultTransport.(*http.Transport).Clone()
		own.Proxy = nil
		own.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, r.Dial)
		}
		options = append(options, remote.WithTransport(own))
	}
	return options
}
