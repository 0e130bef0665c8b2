package auth

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/naeel/sless/apiserver/internal/config"
)

// claims is what an identity provider says of a token.
type claims map[string]any

// identity returns the prefixed identity. A name or group of system: is Kubernetes' own and refuses the token, also when a
// prefix would hide it: whoever hands out such names must not be trusted with any.
func (c claims) identity(names config.Claims) (Identity, error) {
	user, ok := c.text(names.UsernameClaim)
	if !ok {
		return Identity{}, fmt.Errorf("%w: it has no claim %s", ErrRefused, names.UsernameClaim)
	}
	if strings.HasPrefix(user, "system:") {
		return Identity{}, fmt.Errorf("%w: the prefix system: of its user is reserved", ErrRefused)
	}
	identity := Identity{Username: names.Prefix + user, Groups: []string{allAuthenticated}}
	if names.GroupsClaim == "" {
		return identity, nil
	}
	for _, group := range c.list(names.GroupsClaim) {
		if strings.HasPrefix(group, "system:") {
			return Identity{}, fmt.Errorf("%w: the prefix system: of a group of it is reserved", ErrRefused)
		}
		identity.Groups = append(identity.Groups, names.Prefix+group)
	}
	return identity, nil
}

// get finds a claim by its name, or by a path with dots.
func (c claims) get(name string) any {
	if value, ok := c[name]; ok {
		return value
	}
	first, rest, found := strings.Cut(name, ".")
	if nested, ok := c[first].(map[string]any); found && ok {
		return claims(nested).get(rest)
	}
	return nil
}

func (c claims) text(name string) (string, bool) {
	switch value := c.get(name).(type) {
	case string:
		return value, value != ""
	case json.Number:
		return value.String(), true
	}
	return "", false
}

// list is a claim that may be one string or many.
func (c claims) list(name string) []string {
	switch value := c.get(name).(type) {
	case string:
		if value != "" {
			return []string{value}
		}
	case []any:
		var all []string
		for _, item := range value {
			if text, ok := item.(string); ok && text != "" {
				all = append(all, text)
			}
		}
		return all
	}
	return nil
}

// time is a claim in seconds since 1970; the zero time when it is absent.
func (c claims) time(name string) time.Time {
	number, ok := c.get(name).(json.Number)
	if !ok {
		return time.Time{}
	}
	seconds, err := number.Float64()
	if err != nil || seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// audience says whether one of the wanted audiences is among the token's.
func (c claims) audience(wanted []string) bool {
	for _, has := range c.list("aud") {
		for _, want := range wanted {
			if has == want {
				return true
			}
		}
	}
	return false
}
