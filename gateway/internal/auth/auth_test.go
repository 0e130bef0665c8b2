package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/naeel/sless/gateway/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// server answers like an API server, and counts.
type server struct {
	mu      sync.Mutex
	asked   int
	answers map[string]authenticationv1.TokenReviewStatus
	err     error
	slow    time.Duration
}

func (s *server) ReviewToken(ctx context.Context, token, audience string) (*authenticationv1.TokenReviewStatus, error) {
	time.Sleep(s.slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if audience != "sless-gateway" {
		return nil, fmt.Errorf("audience %q", audience)
	}
	answer := s.answers[token]
	return &answer, s.err
}

func status(user string, authenticated bool, audiences ...string) authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{Authenticated: authenticated, User: authenticationv1.UserInfo{Username: user}, Audiences: audiences}
}

func request(authorization string) *http.Request {
	r, _ := http.NewRequest(http.MethodPost, "http://gateway/", nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return r
}

func TestCheck(t *testing.T) {
	s := &server{answers: map[string]authenticationv1.TokenReviewStatus{
		"good":     status("operator", true, "other", "sless-gateway"),
		"stranger": status("tenant", true, "sless-gateway"),
		"audience": status("operator", true, "other"),
		"none":     status("operator", true),
		"invalid":  status("operator", false, "sless-gateway"),
	}}
	a := New(s, []string{"apiserver", "operator"})
	for authorization, ok := range map[string]bool{
		"Bearer good": true, "bearer good": true, "Bearer  good ": true,
		"": false, "good": false, "Bearer": false, "Bearer ": false, "Basic good": false, "Bearer stranger": false, "Bearer audience": false,
		"Bearer none": false, "Bearer invalid": false, "Bearer unknown": false, "Bearer good good": false,
	} {
		err := a.Check(request(authorization))
		if ok && err != nil || !ok && !errors.Is(err, ErrUnauthorized) {
			t.Errorf("%q: %v", authorization, err)
		}
	}
	asked := s.asked
	if err := a.Check(request("Bearer " + strings.Repeat("x", maxToken+1))); !errors.Is(err, ErrUnauthorized) || s.asked != asked {
		t.Errorf("a token that is too long: %v, asked %d times", err, s.asked-asked)
	}
}

func TestAnswersAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: map[string]authenticationv1.TokenReviewStatus{"good": status("operator", true, "sless-gateway")}, slow: time.Second}
		a := New(s, []string{"operator"})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := a.Check(request("Bearer good")); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if s.asked != 1 {
			t.Errorf("20 at once ask %d times", s.asked)
		}
		s.answers["good"] = status("operator", false)
		if err := a.Check(request("Bearer good")); err != nil || s.asked != 1 {
			t.Errorf("at once again: %v, asked %d times", err, s.asked)
		}
		time.Sleep(acceptedFor)
		if err := a.Check(request("Bearer good")); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("a revoked token: %v", err)
		}
		s.answers["good"] = status("operator", true, "sless-gateway")
		time.Sleep(refusedFor)
		if err := a.Check(request("Bearer good")); err != nil {
			t.Errorf("a token that has become valid: %v", err)
		}
	})
}

func TestFailureIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: map[string]authenticationv1.TokenReviewStatus{"good": status("operator", true, "sless-gateway")}, err: errors.New("away")}
		a := New(s, []string{"operator"})
		if err := a.Check(request("Bearer good")); err == nil || errors.Is(err, ErrUnauthorized) {
			t.Errorf("got %v", err)
		}
		s.err = nil
		if err := a.Check(request("Bearer good")); err != nil {
			t.Errorf("once it is back: %v", err)
		}
	})
}

// TestCallerLeaves: who waits for an answer may leave, and the answer is there for the next.
func TestCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: map[string]authenticationv1.TokenReviewStatus{"good": status("operator", true, "sless-gateway")}, slow: time.Second}
		a := New(s, []string{"operator"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := a.Check(request("Bearer good").WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if err := a.Check(request("Bearer good")); err != nil || s.asked != 1 {
			t.Errorf("got %v, asked %d times", err, s.asked)
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	a := New(&server{}, []string{"operator"})
	for i := range 3 * maxCached {
		_ = a.Check(request(fmt.Sprint("Bearer ", i)))
	}
	if len(a.answers) > maxCached {
		t.Errorf("%d answers", len(a.answers))
	}
}
