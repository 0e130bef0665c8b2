package auth

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// provider is an identity provider that speaks OpenID Connect discovery, RFC 7662 and userinfo, in this process.
type provider struct {
	*httptest.Server
	key   *rsa.PrivateKey
	away  atomic.Bool  // answers 503 to everything
	asked atomic.Int64 // calls of introspection and userinfo
	// opaque are its tokens that are no JWTs, with what it says of them.
	opaque map[string]map[string]any
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key, opaque: map[string]map[string]any{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, map[string]any{"keys": []map[string]any{{
			"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "n": encode(p.key.N.Bytes()), "e": encode(big.NewInt(int64(p.key.E)).Bytes()),
		}}})
	})
	mux.HandleFunc("POST /introspect", func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		if id, secret, ok := r.BasicAuth(); !ok || id != "sless" || secret != "p%3Aw" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		said, ok := p.opaque[r.PostFormValue("token")]
		if !ok {
			said = map[string]any{"active": false}
		}
		respond(w, said)
	})
	mux.HandleFunc("GET /userinfo", func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		said, ok := p.opaque[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		if !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		respond(w, said)
	})
	mux.HandleFunc("GET /elsewhere", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/userinfo", http.StatusFound) })
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func respond(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the caller notices
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// token signs claims; what is not given is good for an hour, for sless, from this provider.
func (p *provider) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": p.URL, "sub": "alice", "aud": "sless", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix()}
	for name, value := range claims {
		all[name] = value
	}
	return sign(t, p.key, map[string]any{"alg": "RS256", "kid": "1", "typ": "JWT"}, all)
}

func sign(t *testing.T, key *rsa.PrivateKey, header, claims map[string]any) string {
	t.Helper()
	var parts []string
	for _, part := range []map[string]any{header, claims} {
		text, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, encode(text))
	}
	signed := strings.Join(parts, ".")
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + encode(signature)
}

// counting is an authenticator that gives what it is told, and counts.
type counting struct {
	calls    atomic.Int64
	identity Identity
	until    time.Time
	err      error
	begin    chan struct{} // when set, a call waits for it
}

func (*counting) Name() string { return "counting" }

func (c *counting) Authenticate(context.Context, string) (Identity, time.Time, error) {
	c.calls.Add(1)
	if c.begin != nil {
		<-c.begin
	}
	return c.identity, c.until, c.err
}
