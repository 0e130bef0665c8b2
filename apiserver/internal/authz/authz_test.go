package authz

import (
	"context"
	"errors"
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/naeel/sless/apiserver/internal/auth"
)

// reviews answers as RBAC does: a rule without resourceNames is for all names and for none.
type reviews struct {
	authorization.SubjectAccessReviewInterface
	rules map[string]string // user to the one name, or * for all
	asked int
	away  bool
}

// Create implements SubjectAccessReviewInterface.
func (r *reviews) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	r.asked++
	if r.away {
		return nil, errors.New("away")
	}
	rule := r.rules[review.Spec.User]
	review.Status.Allowed = rule == "*" || rule != "" && rule == review.Spec.ResourceAttributes.Name
	return review, nil
}

// TestOneAnswerForAllNames holds that a right to all objects is asked for once, that a right to one object is one to that object alone,
// and that a failure is neither yes nor no.
func TestOneAnswerForAllNames(t *testing.T) {
	cluster := &reviews{rules: map[string]string{"all": "*", "one": "mine"}}
	authorizer := New(cluster)
	ask := func(user, name string) (bool, error) {
		return authorizer.Allowed(t.Context(), auth.Identity{Username: user}, Action{Verb: "get", Namespace: "ns", Resource: "functions", Name: name})
	}
	for i := range 200 {
		if allowed, err := ask("all", fmt.Sprint("fn-", i)); !allowed || err != nil {
			t.Fatalf("%t, %v", allowed, err)
		}
	}
	if cluster.asked != 1 {
		t.Errorf("asked %d times, want once", cluster.asked)
	}
	for name, want := range map[string]bool{"mine": true, "other": false, "": false} {
		if allowed, err := ask("one", name); allowed != want || err != nil {
			t.Errorf("the right to one object: %q %t, %v", name, allowed, err)
		}
	}
	cluster.away = true
	if allowed, err := ask("nobody", "mine"); allowed || err == nil {
		t.Errorf("while the cluster is away: %t, %v", allowed, err)
	}
}
