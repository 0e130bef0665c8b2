// Package authz asks Kubernetes RBAC, by SubjectAccessReview, whether somebody may do something.
package authz

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/apiserver/internal/auth"
)

const (
	// cacheSize bounds the memory that answers take.
	cacheSize = 8192
	// allowedFor is how long a right that was taken away still holds.
	allowedFor = 10 * time.Second
	// deniedFor is how long a right that was given does not hold yet.
	deniedFor = 2 * time.Second
	// askTimeout bounds one question whatever the caller's patience, because others may wait for it too.
	askTimeout = 5 * time.Second
)

// Action is what somebody wants to do, in the words of RBAC.
type Action struct {
	Verb, Namespace, Resource, Subresource, Name string
}

// Authorizer answers from a bounded cache, or asks.
type Authorizer struct {
	reviews authorization.SubjectAccessReviewInterface
	answers *cache.LRUExpireCache
	flights singleflight.Group
}

// New returns an Authorizer.
func New(reviews authorization.SubjectAccessReviewInterface) *Authorizer {
	return &Authorizer{reviews: reviews, answers: cache.NewLRUExpireCache(cacheSize)}
}

// Allowed says whether identity may do it. An error means that nobody knows; it is never remembered. Who may do it to all objects may do
// it to each, so that one answer serves all names: only others are asked about one by one.
func (a *Authorizer) Allowed(ctx context.Context, identity auth.Identity, action Action) (bool, error) {
	toAll := action
	toAll.Name = ""
	if allowed, err := a.answer(ctx, identity, toAll); allowed || err != nil || action.Name == "" {
		return allowed, err
	}
	return a.answer(ctx, identity, action)
}

func (a *Authorizer) answer(ctx context.Context, identity auth.Identity, action Action) (bool, error) {
	encoded, err := json.Marshal(struct {
		I auth.Identity
		A Action
	}{identity, action})
	if err != nil {
		return false, fmt.Errorf("encode access review: %w", err)
	}
	key := string(encoded)
	if allowed, ok := a.answers.Get(key); ok {
		return allowed.(bool), nil
	}
	flight := a.flights.DoChan(key, func() (any, error) {
		ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		allowed, err := a.review(ask, identity, action)
		switch {
		case err != nil:
		case allowed:
			a.answers.Add(key, true, allowedFor)
		default:
			a.answers.Add(key, false, deniedFor)
		}
		return allowed, err
	})
	select {
	case result := <-flight:
		return result.Err == nil && result.Val.(bool), result.Err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (a *Authorizer) review(ctx context.Context, identity auth.Identity, action Action) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range identity.Extra {
		extra[key] = values
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: identity.Username, UID: identity.UID, Groups: identity.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: action.Namespace, Verb: action.Verb, Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version,
			Resource: action.Resource, Subresource: action.Subresource, Name: action.Name,
		},
	}}
	answer, err := a.reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review access: %w", err)
	}
	return answer.Status.Allowed && !answer.Status.Denied, nil
}
