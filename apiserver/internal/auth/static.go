package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"
)

// StaticPrefix is put before the names and groups of static tokens.
const StaticPrefix = "static:"

// StaticToken is one entry of the file of static tokens.
type StaticToken struct {
	// Name is the user, without prefix.
	Name string `json:"name"`
	// SHA256 is the hash of the token in hex. The token must be random, so that no slow hash is needed.
	SHA256 string `json:"sha256"`
	// Groups are the user's, without prefix.
	Groups []string `json:"groups,omitempty"`
	// NotAfter is when the token stops being good. Absent: never.
	NotAfter *time.Time `json:"notAfter,omitempty"`
}

// static knows the tokens of a file.
type static struct {
	path string

	mu       sync.Mutex // guards what follows
	checked  time.Time
	modified time.Time
	tokens   map[[sha256.Size]byte]StaticToken
}

// NewStatic returns an authenticator for the tokens whose hashes are in the file at path: a YAML list of StaticToken under tokens.
// A change of the file is noticed within a second; one that can't be read takes nothing away and gives nothing.
func NewStatic(path string) (Authenticator, error) {
	s := &static{path: path}
	if err := s.load(); err != nil {
		return nil, err
	}
	return s, nil
}

// Name returns static.
func (*static) Name() string { return "static" }

// Authenticate looks the token's hash up.
func (s *static) Authenticate(_ context.Context, token string) (Identity, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.checked) > time.Second {
		if err := s.load(); err != nil {
			return Identity{}, time.Time{}, err
		}
	}
	known, ok := s.tokens[sha256.Sum256([]byte(token))]
	if !ok {
		return Identity{}, time.Time{}, ErrUnknown
	}
	identity := Identity{Username: StaticPrefix + known.Name, Groups: []string{allAuthenticated}}
	for _, group := range known.Groups {
		identity.Groups = append(identity.Groups, StaticPrefix+group)
	}
	if known.NotAfter == nil {
		return identity, time.Time{}, nil
	}
	if known.NotAfter.Before(time.Now()) {
		return Identity{}, time.Time{}, fmt.Errorf("%w: it has expired", ErrRefused)
	}
	return identity, *known.NotAfter, nil
}

// load reads the file when it has changed. The caller holds mu, or nobody else has s.
func (s *static) load() error {
	info, err := os.Stat(s.path)
	if err != nil {
		return fmt.Errorf("static tokens: %w", err)
	}
	if s.tokens != nil && info.ModTime().Equal(s.modified) {
		s.checked = time.Now()
		return nil
	}
	text, err := os.ReadFile(s.path)
	if err != nil {
		return fmt.Errorf("static tokens: %w", err)
	}
	tokens, err := parseStatic(text)
	if err != nil {
		return fmt.Errorf("static tokens %s: %w", s.path, err)
	}
	s.tokens, s.modified, s.checked = tokens, info.ModTime(), time.Now()
	return nil
}

func parseStatic(text []byte) (map[[sha256.Size]byte]StaticToken, error) {
	var file struct {
		Tokens []StaticToken `json:"tokens"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return nil, err
	}
	tokens := make(map[[sha256.Size]byte]StaticToken, len(file.Tokens))
	for i, token := range file.Tokens {
		hash, err := hex.DecodeString(strings.TrimSpace(token.SHA256))
		if err != nil || len(hash) != sha256.Size {
			return nil, fmt.Errorf("tokens[%d].sha256 must be 64 hexadecimal digits", i)
		}
		if token.Name == "" || strings.HasPrefix(token.Name, "system:") {
			return nil, fmt.Errorf("tokens[%d].name must be there and not begin with the reserved system: prefix", i)
		}
		for _, group := range token.Groups {
			if strings.HasPrefix(group, "system:") {
				return nil, fmt.Errorf("tokens[%d].groups must not begin with the reserved system: prefix", i)
			}
		}
		tokens[[sha256.Size]byte(hash)] = token
	}
	return tokens, nil
}
