package backend

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestHTTPAsker(t *testing.T) {
	status, revision := http.StatusOK, "r1"
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.RequestURI != "/_sless/health" || r.Host == "" {
			t.Errorf("asked %s %s of %s", r.Method, r.RequestURI, r.Host)
		}
		w.Header().Set("Sless-Revision", revision)
		w.WriteHeader(status)
	}))
	transport := &http.Transport{}
	asker := NewHTTPAsker(transport, 1)
	address := pod.Listener.Addr().String()
	ask := func() Answer {
		t.Helper()
		answer, err := asker.Ask(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	check(t, "healthy", Answer{Healthy: true, Revision: "r1"}, ask())
	status = http.StatusServiceUnavailable
	check(t, "not loaded", Answer{Revision: "r1"}, ask())
	revision = `r"1`
	check(t, "a revision that is none", Answer{}, ask())
	revision = strings.Repeat("r", maxRevision+1)
	check(t, "a revision too long", Answer{}, ask())

	asker.slots <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := asker.Ask(ctx, address); err == nil {
		t.Error("asked over the limit")
	}
	<-asker.slots
	pod.Close()
	if _, err := asker.Ask(t.Context(), address); err == nil {
		t.Error("a pod that is gone answers")
	}
	transport.CloseIdleConnections()
}
