package rest

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// retryable says whether to send the call again after a problem, or after no answer at all (nil).
func retryable(call *call, problem *Problem) bool {
	if problem == nil {
		return call.repeatable
	}
	switch problem.Status {
	case http.StatusTooManyRequests: // it was not even begun
		return true
	case http.StatusConflict:
		return problem.Code == CodeConflict // nothing was written
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return call.repeatable && problem.Code != CodeLedgerOff // which does not come by itself
	}
	return false
}

// attempts spaces the attempts of one call.
type attempts struct {
	until time.Time
	next  time.Duration
}

// pause waits before the next attempt: as long as the server asks for, else a random time that grows. It is false when there is no time
// for another one.
func (a *attempts) pause(ctx context.Context, header http.Header) bool {
	a.next = min(max(2*a.next, firstPause), maxPause)
	wait := a.next/2 + rand.N(a.next/2)
	if asked, ok := retryAfter(header); ok {
		wait = max(wait, asked)
	}
	if time.Now().Add(wait).After(a.until) {
		return false
	}
	if deadline, ok := ctx.Deadline(); ok && time.Now().Add(wait).After(deadline) {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// retryAfter reads the header Retry-After: seconds, or a date.
func retryAfter(header http.Header) (time.Duration, bool) {
	text := header.Get("Retry-After")
	if text == "" {
		return 0, false
	}
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at)), true
	}
	return 0, false
}
