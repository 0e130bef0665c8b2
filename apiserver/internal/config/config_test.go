package config

import (
	"strings"
	"testing"
)

const good = `
externalURL: https://functions.example.org/
registry: {host: r}
objectStore: {endpoint: "https://s3.example.org", bucket: sless, credentialsDir: d}
apiserver:
  auth:
    oidc: [{issuer: "https://id.example.org", audiences: [sless], prefix: "corp:"}]
    introspection: [{url: "https://id.example.org/i", prefix: "cloud:"}]
`

func TestParseReadsItsOwnSections(t *testing.T) {
	config, err := Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if config.Build.MaxArchiveBytes != 256<<20 || config.APIServer.Auth.OIDC[0].UsernameClaim != "sub" || config.APIServer.Limits.SourceTTLHours != 24 {
		t.Errorf("got %+v", config)
	}
	if _, err := Parse([]byte(strings.Split(good, "apiserver:")[0])); err != nil {
		t.Errorf("without the section: %v", err)
	}
}

func TestParseNamesWhatIsWrong(t *testing.T) {
	for name, test := range map[string]struct{ old, new, want string }{
		"unknown field":   {"  auth:", "  oauth:", `unknown field "oauth"`},
		"no bucket":       {"bucket: sless, ", "", "objectStore.bucket is required"},
		"endpoint":        {"https://s3.example.org", "s3.example.org", "objectStore.endpoint must be"},
		"no prefix":       {`, prefix: "corp:"`, "", "apiserver.auth.oidc[0].prefix is required"},
		"prefix system":   {"corp:", "system:", "apiserver.auth.oidc[0].prefix must not begin"},
		"one prefix":      {"corp:", "cloud:", "prefix begins like another authenticator's"},
		"any audience":    {"[sless]", "[]", "apiserver.auth.oidc[0].audiences must have"},
		"half a key":      {"  auth:", "  tls: {certFile: c}\n  auth:", "apiserver.tls needs both"},
		"cached too long": {"  auth:", "  auth:\n    cacheSeconds: 3600", "apiserver.auth.cacheSeconds must be"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(strings.Replace(good, test.old, test.new, 1)))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
