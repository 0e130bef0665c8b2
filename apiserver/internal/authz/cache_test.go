package authz

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/naeel/sless/apiserver/internal/auth"
)

// questions answers questions as it is told, and counts them.
type questions struct {
	authorization.SubjectAccessReviewInterface
	mu      sync.Mutex // guards asked
	asked   int
	allowed bool
	denied  bool
	err     error
}

func (r *questions) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	time.Sleep(time.Millisecond)
	review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: r.allowed, Denied: r.denied}
	return review, r.err
}

var (
	ann   = auth.Identity{Username: "ann", Groups: []string{"shop"}}
	write = Action{Verb: "create", Namespace: "shop", Resource: "functions"}
)

func TestAnswersAreRememberedForAWhile(t *testing.T) {
	for about, test := range map[string]struct {
		kubernetes *questions
		allowed    bool
		holds      time.Duration
	}{
		"yes":        {&questions{allowed: true}, true, 10 * time.Second},
		"no":         {&questions{}, false, 2 * time.Second},
		"yes and no": {&questions{allowed: true, denied: true}, false, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			authorizer := New(test.kubernetes)
			for i, pause := range []time.Duration{0, test.holds - 100*time.Millisecond, 200 * time.Millisecond} {
				time.Sleep(pause)
				allowed, err := authorizer.Allowed(t.Context(), ann, write)
				if want := 1 + i/2; err != nil || allowed != test.allowed || test.kubernetes.asked != want {
					t.Errorf("%s, question %d: %v %v, asked %d times, want %d", about, i, allowed, err, test.kubernetes.asked, want)
				}
			}
		})
	}
}

func TestNobodyIsAllowedWhenNobodyKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kubernetes := &questions{allowed: true, err: errors.New("away")}
		authorizer := New(kubernetes)
		if allowed, err := authorizer.Allowed(t.Context(), ann, write); allowed || err == nil {
			t.Errorf("got %v %v", allowed, err)
		}
		kubernetes.err = nil
		if allowed, err := authorizer.Allowed(t.Context(), ann, write); !allowed || err != nil {
			t.Errorf("once it is back: %v %v", allowed, err)
		}
	})
}

func TestAnAnswerIsForOneCallerAndOneAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kubernetes := &questions{allowed: true}
		authorizer := New(kubernetes)
		for i, question := range []struct {
			identity auth.Identity
			action   Action
		}{
			{ann, write}, {auth.Identity{Username: "ann"}, write}, {auth.Identity{Username: "ben", Groups: ann.Groups}, write},
			{ann, Action{Verb: "create", Namespace: "other", Resource: "functions"}}, {ann, Action{Verb: "create", Namespace: "shop", Resource: "functions", Subresource: "invoke"}},
			{auth.Identity{Username: "ann", Groups: ann.Groups, UID: "1"}, write},
		} {
			if _, err := authorizer.Allowed(t.Context(), question.identity, question.action); err != nil || kubernetes.asked != i+1 {
				t.Errorf("question %d: asked %d times, %v", i, kubernetes.asked, err)
			}
		}
	})
}

func TestManyQuestionsAtOnceAreAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kubernetes := &questions{allowed: true}
		authorizer := New(kubernetes)
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() {
				if allowed, err := authorizer.Allowed(t.Context(), ann, write); !allowed || err != nil {
					t.Errorf("got %v %v", allowed, err)
				}
			})
		}
		callers.Wait()
		if kubernetes.asked != 1 {
			t.Errorf("asked %d times", kubernetes.asked)
		}
	})
}
