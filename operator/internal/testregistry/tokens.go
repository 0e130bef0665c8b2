package testregistry

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Tokens is a server that gives tokens for a registry, as large public registries have it: who has no account gets one that allows nothing.
type Tokens struct {
	// URL is its address, which registries call the realm.
	URL string

	key      *ecdsa.PrivateKey
	jwks     string
	accounts map[string]Account

	mu   sync.Mutex
	seen []string // what asked for tokens showed: "user:password", "refresh token", or "" for nothing
}

// Account is what may be shown for a token, and what that allows.
type Account struct {
	// Password is shown with the name, Refresh alone: it is what Docker calls an identity token.
	Password, Refresh string
	// Actions are pull, push and delete.
	Actions []string
}

// ServeTokens starts a server.
func ServeTokens(t *testing.T, accounts map[string]Account) *Tokens {
	t.Helper()
	s := &Tokens{key: newKey(t), accounts: accounts, jwks: filepath.Join(t.TempDir(), "jwks.json")}
	public, err := s.key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		t.Fatal(err)
	}
	write(t, s.jwks, fmt.Sprintf(`{"keys": [{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "test", "x": %q, "y": %q}]}`, encode(public[1:33]), encode(public[33:])))
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/token" // clients refuse realms that are private addresses
	return s
}

// Auth is an auth section of a registry that sends everybody to this server.
func (s *Tokens) Auth() string {
	return fmt.Sprintf("{token: {realm: %q, service: test, issuer: test, jwks: %q}}", s.URL, s.jwks)
}

// Seen lists what was shown for tokens so far.
func (s *Tokens) Seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// ServeHTTP implements http.Handler.
func (s *Tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	refresh := r.FormValue("refresh_token")
	shown := refresh
	if user != "" {
		shown = user + ":" + password
	}
	s.mu.Lock()
	s.seen = append(s.seen, shown)
	s.mu.Unlock()
	var allowed []string
	for name, account := range s.accounts {
		if (refresh != "" && account.Refresh == refresh) || (user == name && password != "" && account.Password == password) {
			allowed = account.Actions
		}
	}
	if shown != "" && allowed == nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	token := s.token(r.Form["scope"], allowed)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"token": %q, "access_token": %q, "expires_in": 300}`, token, token)
}

// token allows, of what is asked for, what is allowed.
func (s *Tokens) token(scopes, allowed []string) string {
	type access struct {
		Type    string   `json:"type"`
		Name    string   `json:"name"`
		Actions []string `json:"actions"`
	}
	granted := []access{}
	for _, scope := range strings.Fields(strings.Join(scopes, " ")) {
		parts := strings.Split(scope, ":")
		if len(parts) != 3 {
			continue
		}
		actions := slices.DeleteFunc(strings.Split(parts[2], ","), func(action string) bool { return !slices.Contains(allowed, action) })
		granted = append(granted, access{parts[0], parts[1], actions})
	}
	now := time.Now()
	claims, err := json.Marshal(map[string]any{
		"iss": "test", "sub": "", "aud": "test", "jti": rand.Text(), "access": granted,
		"iat": now.Unix(), "nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	})
	if err != nil {
		panic(err) // such a map always encodes
	}
	signed := encode([]byte(`{"typ": "JWT", "alg": "ES256", "kid": "test"}`)) + "." + encode(claims)
	digest := sha256.Sum256([]byte(signed))
	x, y, err := ecdsa.Sign(rand.Reader, s.key, digest[:])
	if err != nil {
		panic(err) // only a broken machine can't sign
	}
	signature := make([]byte, 64)
	x.FillBytes(signature[:32])
	y.FillBytes(signature[32:])
	return signed + "." + encode(signature)
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }
