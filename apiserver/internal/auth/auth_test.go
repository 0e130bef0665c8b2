package auth

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/apiserver/internal/config"
)

var corp = config.Claims{UsernameClaim: "sub", GroupsClaim: "groups", Prefix: "corp:"}

// got is how an authenticator ended: a user, or the error's kind.
func got(t *testing.T, authenticator Authenticator, token string) string {
	t.Helper()
	identity, _, err := authenticator.Authenticate(t.Context(), token)
	switch {
	case err == nil:
		return strings.Join(append([]string{identity.Username}, identity.Groups...), " ")
	case errors.Is(err, ErrUnknown):
		return "unknown"
	case errors.Is(err, ErrRefused):
		return "refused"
	}
	return "away"
}

func TestOIDC(t *testing.T) {
	provider := newProvider(t)
	authenticator, err := NewOIDC(config.OIDC{Claims: corp, Issuer: provider.URL, Audiences: []string{"other", "sless"}})
	if err != nil {
		t.Fatal(err)
	}
	provider.away.Store(true)
	if answer := got(t, authenticator, provider.token(t, nil)); answer != "away" {
		t.Errorf("the issuer is away: %s", answer)
	}
	provider.away.Store(false)
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{"iss": provider.URL, "sub": "mallory", "aud": "sless", "exp": time.Now().Add(time.Hour).Unix()}
	good := provider.token(t, nil)
	for name, test := range map[string]struct{ token, want string }{
		"good":           {good, "corp:alice system:authenticated"},
		"groups":         {provider.token(t, map[string]any{"groups": []string{"dev", "ops"}}), "corp:alice system:authenticated corp:dev corp:ops"},
		"one group":      {provider.token(t, map[string]any{"groups": "dev"}), "corp:alice system:authenticated corp:dev"},
		"audiences":      {provider.token(t, map[string]any{"aud": []string{"x", "sless"}}), "corp:alice system:authenticated"},
		"other audience": {provider.token(t, map[string]any{"aud": "x"}), "refused"},
		"expired":        {provider.token(t, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), "refused"},
		"not yet":        {provider.token(t, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), "refused"},
		"system user":    {provider.token(t, map[string]any{"sub": "system:admin"}), "refused"},
		"system group":   {provider.token(t, map[string]any{"groups": []string{"dev", "system:masters"}}), "refused"},
		"no user":        {provider.token(t, map[string]any{"sub": ""}), "refused"},
		"other issuer":   {provider.token(t, map[string]any{"iss": "https://other.example.org"}), "unknown"},
		"opaque":         {"opaque", "unknown"},
		"forged":         {sign(t, foreign, map[string]any{"alg": "RS256", "kid": "1"}, claims), "refused"},
		"unknown key":    {sign(t, foreign, map[string]any{"alg": "RS256", "kid": "2"}, claims), "refused"},
		"no algorithm":   {sign(t, foreign, map[string]any{"alg": "none"}, claims), "refused"},
		"cut":            {good[:len(good)-10], "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			if answer := got(t, authenticator, test.token); answer != test.want {
				t.Errorf("got %s, want %s", answer, test.want)
			}
		})
	}
	provider.away.Store(true)
	if answer := got(t, authenticator, sign(t, foreign, map[string]any{"alg": "RS256", "kid": "3"}, claims)); answer != "away" {
		t.Errorf("a key that can't be fetched: %s", answer)
	}
}

func TestIntrospection(t *testing.T) {
	provider := newProvider(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"id": "sless\n", "secret": "p:w\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	authenticator, err := NewIntrospection(config.Introspection{
		Claims: corp, URL: provider.URL + "/introspect", ClientIDFile: filepath.Join(dir, "id"), ClientSecretFile: filepath.Join(dir, "secret"), Audiences: []string{"sless"},
	})
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour).Unix()
	provider.opaque = map[string]map[string]any{
		"good":    {"active": true, "sub": "alice", "aud": "sless", "exp": later, "groups": []string{"dev"}},
		"number":  {"active": true, "sub": 42, "aud": []string{"sless"}},
		"expired": {"active": true, "sub": "alice", "aud": "sless", "exp": time.Now().Add(-time.Hour).Unix()},
		"foreign": {"active": true, "sub": "alice", "aud": "other"},
		"system":  {"active": true, "sub": "system:admin", "aud": "sless"},
		"off":     {"active": false, "sub": "alice", "aud": "sless"},
		"word":    {"active": "true", "sub": "alice", "aud": "sless"},
	}
	for token, want := range map[string]string{
		"good": "corp:alice system:authenticated corp:dev", "number": "corp:42 system:authenticated", "expired": "refused", "foreign": "refused",
		"system": "refused", "off": "unknown", "word": "unknown", "never": "unknown",
	} {
		if answer := got(t, authenticator, token); answer != want {
			t.Errorf("%s: got %s, want %s", token, answer, want)
		}
	}
	if _, until, err := authenticator.Authenticate(t.Context(), "good"); err != nil || until.Unix() != later {
		t.Errorf("good until %v, error %v", until, err)
	}
	provider.away.Store(true)
	if answer := got(t, authenticator, "good"); answer != "away" {
		t.Errorf("away: %s", answer)
	}
	provider.away.Store(false)
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	if answer := got(t, authenticator, "good"); answer != "away" {
		t.Errorf("the endpoint refuses our own credentials: %s", answer)
	}
}

func TestUserInfo(t *testing.T) {
	provider := newProvider(t)
	provider.opaque = map[string]map[string]any{
		"good":   {"account": map[string]any{"login": "alice", "teams": []string{"dev"}}},
		"system": {"account": map[string]any{"login": "system:admin"}},
	}
	claims := config.Claims{UsernameClaim: "account.login", GroupsClaim: "account.teams", Prefix: "cloud:"}
	authenticator, err := NewUserInfo(config.UserInfo{Claims: claims, URL: provider.URL + "/userinfo"})
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{"good": "cloud:alice system:authenticated cloud:dev", "system": "refused", "never": "unknown"} {
		if answer := got(t, authenticator, token); answer != want {
			t.Errorf("%s: got %s, want %s", token, answer, want)
		}
	}
	redirected, err := NewUserInfo(config.UserInfo{Claims: claims, URL: provider.URL + "/elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	if answer := got(t, redirected, "good"); answer != "away" {
		t.Errorf("a redirect was followed: %s", answer)
	}
	provider.Close()
	if answer := got(t, authenticator, "good"); answer != "away" {
		t.Errorf("away: %s", answer)
	}
}

func TestStaticTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	write := func(text string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	hash := func(token string) string { sum := sha256.Sum256([]byte(token)); return hex.EncodeToString(sum[:]) }
	begin := time.Now().Add(-time.Hour)
	write(fmt.Sprintf("tokens:\n- {name: ci, sha256: %s, groups: [robots]}\n- {name: old, sha256: %s, notAfter: 2020-01-01T00:00:00Z}\n", hash("one"), hash("two")), begin)
	made, err := NewStatic(path)
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{"one": "static:ci system:authenticated static:robots", "two": "refused", hash("one"): "unknown"} {
		if answer := got(t, made, token); answer != want {
			t.Errorf("%s: got %s, want %s", token, answer, want)
		}
	}
	write(fmt.Sprintf("tokens: [{name: new, sha256: %s}]", hash("three")), begin.Add(time.Minute))
	made.(*static).checked = time.Time{}
	if one, three := got(t, made, "one"), got(t, made, "three"); one != "unknown" || three != "static:new system:authenticated" {
		t.Errorf("after a change: %s, %s", one, three)
	}
	for name, text := range map[string]string{
		"no hash": "tokens: [{name: a, sha256: abc}]", "system": "tokens: [{name: 'system:admin', sha256: " + hash("x") + "}]",
		"system group": "tokens: [{name: a, groups: ['system:masters'], sha256: " + hash("x") + "}]", "plain": "tokens: [{name: a, token: x}]",
	} {
		write(text, begin.Add(2*time.Minute))
		if _, err := NewStatic(path); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	made.(*static).checked = time.Time{}
	if answer := got(t, made, "three"); answer != "away" {
		t.Errorf("with a file that can't be read: %s", answer)
	}
}

func TestChainFailsClosed(t *testing.T) {
	alice := &counting{identity: Identity{Username: "alice"}}
	unknown, refused, away := &counting{err: ErrUnknown}, &counting{err: ErrRefused}, &counting{err: errors.New("away")}
	for name, test := range map[string]struct {
		chain Chain
		want  string
	}{
		"second":           {Chain{unknown, alice}, "alice"},
		"despite one away": {Chain{away, alice}, "alice"},
		"refused ends it":  {Chain{refused, alice}, "refused"},
		"nobody":           {Chain{unknown, unknown}, "unknown"},
		"one away":         {Chain{unknown, away, unknown}, "away"},
		"empty":            {Chain{}, "unknown"},
	} {
		if answer := got(t, test.chain, "token"); answer != test.want {
			t.Errorf("%s: got %s, want %s", name, answer, test.want)
		}
	}
}

func TestCacheIsBoundedInTime(t *testing.T) {
	now := time.Now()
	ask := func(next *counting, after ...time.Duration) []int64 {
		now = time.Now()
		cached := newCached(next, time.Minute, func() time.Time { return now })
		var calls []int64
		for _, wait := range append([]time.Duration{0}, after...) {
			now = now.Add(wait)
			_, _, _ = cached.Authenticate(t.Context(), "token") // only how often it asks counts here
			calls = append(calls, next.calls.Load())
		}
		return calls
	}
	for name, test := range map[string]struct {
		next  *counting
		after []time.Duration
		want  []int64
	}{
		"good":        {&counting{}, []time.Duration{59 * time.Second, 2 * time.Second}, []int64{1, 1, 2}},
		"expiring":    {&counting{until: time.Now().Add(10 * time.Second)}, []time.Duration{9 * time.Second, 2 * time.Second}, []int64{1, 1, 2}},
		"unknown":     {&counting{err: ErrUnknown}, []time.Duration{4 * time.Second, 2 * time.Second}, []int64{1, 1, 2}},
		"unavailable": {&counting{err: ErrUnavailable}, []time.Duration{0, 0}, []int64{1, 2, 3}},
	} {
		if diff := cmp.Diff(test.want, ask(test.next, test.after...)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestManyCallersWithOneTokenAskOnce(t *testing.T) {
	next := &counting{identity: Identity{Username: "alice"}, begin: make(chan struct{})}
	cached := NewCached(next, time.Minute)
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() {
			if answer := got(t, cached, "token"); answer != "alice" {
				t.Errorf("got %s", answer)
			}
		})
	}
	close(next.begin)
	callers.Wait()
	// Those that came after the first answer found it in memory.
	if calls := next.calls.Load(); calls != 1 {
		t.Errorf("asked %d times", calls)
	}
}

func TestBearer(t *testing.T) {
	for header, want := range map[string]string{
		"Bearer abc.DEF-1_~+/=": "abc.DEF-1_~+/=", "bearer x": "x", "Basic x": "", "Bearer": "", "Bearer ": "", "Bearer a b": "", "Bearer ä": "",
		"Bearer " + strings.Repeat("x", maxToken+1): "",
	} {
		if token, ok := Bearer(header); token != want || ok != (want != "") {
			t.Errorf("%.40s: got %q", header, token)
		}
	}
}
