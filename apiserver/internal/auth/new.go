package auth

import (
	"time"

	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/naeel/sless/apiserver/internal/config"
)

// New returns the chain that the configuration describes. What decides by itself comes first, so that a token is shown to as few
// others as can be; a JWT of a known issuer is shown to nobody.
func New(settings config.Auth, reviews authentication.TokenReviewInterface) (Authenticator, error) {
	var chain Chain
	add := func(authenticator Authenticator, err error) error {
		if err == nil {
			chain = append(chain, authenticator)
		}
		return err
	}
	if settings.StaticTokensFile != "" {
		if err := add(NewStatic(settings.StaticTokensFile)); err != nil {
			return nil, err
		}
	}
	for _, issuer := range settings.OIDC {
		if err := add(NewOIDC(issuer)); err != nil {
			return nil, err
		}
	}
	if !settings.Kubernetes.Disabled {
		chain = append(chain, NewTokenReview(reviews, settings.Kubernetes.Audiences))
	}
	for _, endpoint := range settings.Introspection {
		if err := add(NewIntrospection(endpoint)); err != nil {
			return nil, err
		}
	}
	for _, endpoint := range settings.UserInfo {
		if err := add(NewUserInfo(endpoint)); err != nil {
			return nil, err
		}
	}
	return NewCached(NewGuard(chain, settings.BadTokensPerMinute), time.Duration(settings.CacheSeconds)*time.Second), nil
}
