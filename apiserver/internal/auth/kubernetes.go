package auth

import (
	"context"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// reviewer asks Kubernetes by TokenReview. Its identities are Kubernetes' own, so they get no prefix.
type reviewer struct {
	reviews   authentication.TokenReviewInterface
	audiences []string
}

// NewTokenReview returns an authenticator for tokens of the cluster. Without audiences a token must be for the API server itself.
func NewTokenReview(reviews authentication.TokenReviewInterface, audiences []string) Authenticator {
	return &reviewer{reviews, audiences}
}

// Name returns tokenreview.
func (*reviewer) Name() string { return "tokenreview" }

// Authenticate asks the API server.
func (r *reviewer) Authenticate(ctx context.Context, token string) (Identity, time.Time, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: r.audiences}}
	answer, err := r.reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return Identity{}, time.Time{}, fmt.Errorf("review token: %w", err)
	}
	status := answer.Status
	if !status.Authenticated {
		return Identity{}, time.Time{}, ErrUnknown
	}
	// An authenticator that knows no audiences leaves the list empty: then the token may be for anybody.
	if len(r.audiences) > 0 && !slices.ContainsFunc(status.Audiences, func(has string) bool { return slices.Contains(r.audiences, has) }) {
		return Identity{}, time.Time{}, ErrUnknown
	}
	extra := map[string][]string{}
	for key, values := range status.User.Extra {
		extra[key] = values
	}
	groups := status.User.Groups
	if !slices.Contains(groups, allAuthenticated) {
		groups = append(slices.Clone(groups), allAuthenticated)
	}
	return Identity{Username: status.User.Username, UID: status.User.UID, Groups: groups, Extra: extra}, time.Time{}, nil
}
