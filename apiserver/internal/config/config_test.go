package config

import (
	"fmt"
	"os"
	"path/filepath"
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

// Every setting that is missing or wrong is named, with what it must be. Other programs' sections are their own affair.
func TestParseNamesWhatIsWrong(t *testing.T) {
	for name, test := range map[string]struct{ old, new, want string }{
		"unknown field":         {"  auth:", "  oauth:", `unknown field "oauth"`},
		"no endpoint":           {`endpoint: "https://s3.example.org", `, "", "objectStore.endpoint is required"},
		"endpoint":              {"https://s3.example.org", "s3.example.org", "objectStore.endpoint must be"},
		"no bucket":             {"bucket: sless, ", "", "objectStore.bucket is required"},
		"gateway":               {"apiserver:", "gateway: {internalURL: gateway}\napiserver:", "gateway.internalURL must be"},
		"no prefix":             {`, prefix: "corp:"`, "", "apiserver.auth.oidc[0].prefix is required"},
		"prefix system":         {"corp:", "system:", "apiserver.auth.oidc[0].prefix must not begin"},
		"one prefix":            {"corp:", "cloud:", "prefix begins like another authenticator's"},
		"no issuer":             {`issuer: "https://id.example.org", `, "", "apiserver.auth.oidc[0].issuer must be"},
		"any audience":          {"[sless]", "[]", "apiserver.auth.oidc[0].audiences must have"},
		"introspection":         {"https://id.example.org/i", "id.example.org", "apiserver.auth.introspection[0].url must be"},
		"half an account":       {`"https://id.example.org/i"`, `"https://id.example.org/i", clientIDFile: f`, "apiserver.auth.introspection[0] needs both"},
		"userinfo":              {"  auth:", `  auth:` + "\n" + `    userInfo: [{url: id, prefix: "u:"}]`, "apiserver.auth.userInfo[0].url must be"},
		"half a key":            {"  auth:", "  tls: {certFile: c}\n  auth:", "apiserver.tls needs both"},
		"cached too long":       {"  auth:", "  auth:\n    cacheSeconds: 3600", "apiserver.auth.cacheSeconds must be"},
		"no bad token":          {"  auth:", "  auth:\n    badTokensPerMinute: -1", "apiserver.auth.badTokensPerMinute must be"},
		"negative limit":        {"  auth:", "  limits: {uploads: -1}\n  auth:", "apiserver.limits must not be negative"},
		"a proxy of no address": {"  auth:", "  trustedProxies: [here]\n  auth:", `"here"`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(good, test.old, test.new, 1)
			if text == good {
				t.Fatal("the case changes nothing")
			}
			_, err := Parse([]byte(text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestLoadNamesWhatIsNotThere(t *testing.T) {
	for file, want := range map[string]string{
		"accessKeyID":     "objectStore.credentialsDir %s can't be read; the install has it from the Secret object-store in sless-system",
		"secretAccessKey": "objectStore.credentialsDir %s can't be read; the install has it from the Secret object-store in sless-system",
		"pull.json":       "registry.pullConfigFile %s can't be read; the install has it from the Secret registry-pull in sless-system",
		"tokens.yaml":     "apiserver.auth.staticTokensFile %s can't be read; the install has it from the Secret apiserver-auth in sless-system",
		"ca.crt":          "objectStore.caFile %s can't be read; the install has it from the ConfigMap sless-ca in sless-system",
		"config.yaml":     "read configuration: open %s",
		"":                "",
	} {
		folder := t.TempDir()
		config := fmt.Sprintf(`
objectStore: {endpoint: "https://s3.example.org", bucket: sless, credentialsDir: %[1]q, caFile: %[1]s/ca.crt}
registry: {host: r, pullConfigFile: %[1]s/pull.json}
apiserver: {auth: {staticTokensFile: %[1]s/tokens.yaml}}
`, folder)
		for name, text := range map[string]string{"accessKeyID": "a", "secretAccessKey": "b", "pull.json": "{}", "tokens.yaml": "", "ca.crt": "", "config.yaml": config} {
			if name == file {
				continue
			}
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Load(filepath.Join(folder, "config.yaml"))
		want := strings.ReplaceAll(want, "%s", filepath.Join(folder, file))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: got %v, want %q", file, err, want)
		}
	}
}
