package resources

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/problem"
	"github.com/naeel/sless/apiserver/internal/request"
)

const (
	// defaultPatience is how long ?wait=… waits.
	defaultPatience = 300 * time.Second
	// maxPatience is the longest that Prefer: wait=N can ask for.
	maxPatience = time.Hour
)

// patience is how long the caller wants to wait; word is the value of the query parameter that asks for it.
func (w Waiting) patience(word string) (time.Duration, error) {
	if w.Wait != "" && w.Wait != word {
		return 0, problem.Invalid(rest.FieldError{Location: "query.wait", Message: "must be " + word})
	}
	for _, preference := range strings.FieldsFunc(w.Prefer, func(char rune) bool { return char == ',' || char == ';' }) {
		name, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue // RFC 7240: a preference that is not known is ignored
		}
		if seconds, err := strconv.Atoi(strings.Trim(strings.TrimSpace(value), `"`)); err == nil && seconds >= 0 {
			return min(time.Duration(min(seconds, int(maxPatience/time.Second)))*time.Second, maxPatience), nil
		}
	}
	if w.Wait != "" {
		return defaultPatience, nil
	}
	return 0, nil
}

// wait reads the object until done says so, patience ends, or the server wants to stop. Only a failed read is an error.
func (w *writer[W, O]) wait(ctx context.Context, object O, patience time.Duration, done func(client.Object) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if draining := request.From(ctx).Draining; draining != nil {
		go func() {
			select {
			case <-draining:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	err := w.store.Wait(ctx, object, done)
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
