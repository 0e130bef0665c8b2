// Package auth says whether a bearer token belongs to one of the accounts that may use the internal listener.
package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/naeel/sless/api/names"
)

// ErrUnauthorized says that the token is missing, not valid, or somebody else's.
var ErrUnauthorized = errors.New("unauthorized")

const (
	// acceptedFor and refusedFor are how long an answer of the API server is believed: a token that is revoked works at most that long.
	acceptedFor = 30 * time.Second
	refusedFor  = 5 * time.Second
	maxCached   = 1024
	// maxToken is longer than any service-account token.
	maxToken = 16 << 10
	// reviewTimeout bounds one question to the API server.
	reviewTimeout = 5 * time.Second
)

// Reviewer asks the API server about a token.
type Reviewer interface {
	ReviewToken(ctx context.Context, token, audience string) (*authenticationv1.TokenReviewStatus, error)
}

// Authenticator checks tokens and remembers the answers for a short time.
type Authenticator struct {
	reviewer Reviewer
	subjects []string

	// mu guards answers.
	mu sync.Mutex
	// answers are by the token's hash: tokens themselves are not kept.
	answers map[[sha256.Size]byte]*answer
}

// answer is what came of a review; done is closed when it is there, so that many calls with one new token ask once.
type answer struct {
	done     chan struct{}
	accepted bool
	err      error
	until    time.Time
}

// New returns an Authenticator that lets the given users through, such as system:serviceaccount:sless-system:operator.
func New(reviewer Reviewer, subjects []string) *Authenticator {
	return &Authenticator{reviewer: reviewer, subjects: subjects, answers: map[[sha256.Size]byte]*answer{}}
}

// Check returns nil for a request whose bearer token is valid for this listener's audience and belongs to one of the subjects,
// ErrUnauthorized for any other, and another error when the API server could not be asked.
func (a *Authenticator) Check(r *http.Request) error {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return ErrUnauthorized
	}
	answer := a.answer(token)
	select {
	case <-answer.done:
	case <-r.Context().Done():
		return r.Context().Err()
	}
	switch {
	case answer.err != nil:
		return answer.err
	case !answer.accepted:
		return ErrUnauthorized
	}
	return nil
}

// answer returns the remembered answer or the one that is being asked for.
func (a *Authenticator) answer(token string) *answer {
	key := sha256.Sum256([]byte(token))
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.answers[key]; known != nil && (known.until.IsZero() || time.Now().Before(known.until)) {
		return known
	}
	a.makeRoom()
	asked := &answer{done: make(chan struct{})}
	a.answers[key] = asked
	go a.review(key, token, asked)
	return asked
}

// review is not bound to the request that caused it: others may wait for the same answer.
func (a *Authenticator) review(key [sha256.Size]byte, token string, asked *answer) {
	ctx, cancel := context.WithTimeout(context.Background(), reviewTimeout)
	defer cancel()
	status, err := a.reviewer.ReviewToken(ctx, token, names.GatewayAudience)

	a.mu.Lock()
	defer a.mu.Unlock()
	defer close(asked.done)
	if err != nil {
		asked.err = err
		delete(a.answers, key) // the next request asks again
		return
	}
	asked.accepted = status.Authenticated && slices.Contains(status.Audiences, names.GatewayAudience) && slices.Contains(a.subjects, status.User.Username)
	asked.until = time.Now().Add(refusedFor)
	if asked.accepted {
		asked.until = time.Now().Add(acceptedFor)
	}
}

// makeRoom drops answers that are too old, and any one when there are still too many. The Authenticator is locked.
func (a *Authenticator) makeRoom() {
	if len(a.answers) < maxCached {
		return
	}
	now := time.Now()
	for key, answer := range a.answers {
		if !answer.until.IsZero() && now.After(answer.until) {
			delete(a.answers, key)
		}
	}
	for key := range a.answers {
		if len(a.answers) < maxCached {
			return
		}
		delete(a.answers, key)
	}
}
