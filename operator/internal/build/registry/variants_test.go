package registry

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
	"github.com/naeel/sless/operator/internal/testregistry"
)

// dockerConfig writes a Docker config.json with one entry for the host.
func dockerConfig(t *testing.T, host, entry string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"auths": {%q: %s}}`, host, entry), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func login(user, password string) string {
	return fmt.Sprintf(`{"username": %q, "password": %q}`, user, password)
}

func loginAsAuth(user, password string) string {
	return fmt.Sprintf(`{"auth": %q}`, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
}

// work does with a registry all that a build does: the right errors are nobody's but nil.
func work(t *testing.T, cfg config.Registry) error {
	t.Helper()
	r := connect(t, cfg)
	if err := r.Check(t.Context()); err != nil {
		return err
	}
	base := randomImage(t)
	ref, err := name.NewTag(cfg.Host+"/platform/python:v1", r.nameOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, base, r.push(t.Context())...); err != nil {
		return explain(t.Context(), "push the base", err)
	}
	digest, err := base.Digest()
	if err != nil {
		t.Fatal(err)
	}
	made, err := r.Append(t.Context(), ref.Context().Digest(digest.String()).String(), layerOf(t, "x"), "ns", "hello-1", nil)
	if err != nil {
		return err
	}
	if want := r.Repository("ns") + "@sha256:"; !strings.HasPrefix(made.Reference, want) {
		t.Errorf("made %s, want %s…", made.Reference, want)
	}
	found, err := r.Find(t.Context(), "ns", "hello-1")
	if err != nil || found == nil || *found != *made {
		t.Errorf("found %v, %v, want %v", found, err, made)
	}
	if resolved, err := r.Resolve(t.Context(), r.Repository("ns")+":hello-1", "ns", ""); err != nil || resolved != made.Reference {
		t.Errorf("pulled %s, %v", resolved, err)
	}
	if tags, err := r.Tags(t.Context(), "ns"); err != nil || !slices.Equal(tags, []string{"hello-1"}) {
		t.Errorf("tags %v, %v", tags, err)
	}
	if err := r.Delete(t.Context(), "ns", "hello-1"); err != nil {
		return err
	}
	if tags, err := r.Tags(t.Context(), "ns"); err != nil || len(tags) > 0 {
		t.Errorf("after it was deleted: tags %v, %v", tags, err)
	}
	return nil
}

// Each kind of registry that sless must work with, as a real one.
func TestRegistries(t *testing.T) {
	passwords := map[string]string{pushUser: "push secret", pullUser: "pull secret"}
	tokens := testregistry.ServeTokens(t, map[string]testregistry.Account{
		pushUser: {Password: "push secret", Refresh: "push token", Actions: []string{"pull", "push", "delete"}},
		pullUser: {Password: "pull secret", Refresh: "pull token", Actions: []string{"pull"}},
	})
	plain := config.Registry{Insecure: true, Repository: "sless-{namespace}"}
	for name, test := range map[string]struct {
		setup      testregistry.Setup
		config     config.Registry
		push, pull string
	}{
		"plain HTTP":           {testregistry.Setup{Auth: testregistry.Passwords(t, passwords)}, plain, login(pushUser, "push secret"), login(pullUser, "pull secret")},
		"the field auth":       {testregistry.Setup{Auth: testregistry.Passwords(t, passwords)}, plain, loginAsAuth(pushUser, "push secret"), loginAsAuth(pullUser, "pull secret")},
		"private CA":           {testregistry.Setup{TLS: true, Auth: testregistry.Passwords(t, passwords)}, config.Registry{Repository: "sless-{namespace}"}, login(pushUser, "push secret"), login(pullUser, "pull secret")},
		"tokens":               {testregistry.Setup{Auth: tokens.Auth()}, plain, login(pushUser, "push secret"), login(pullUser, "pull secret")},
		"identity tokens":      {testregistry.Setup{Auth: tokens.Auth()}, plain, `{"identitytoken": "push token"}`, `{"identitytoken": "pull token"}`},
		"two levels":           {testregistry.Setup{Auth: tokens.Auth()}, config.Registry{Insecure: true, Repository: "team/sless-{namespace}"}, login(pushUser, "push secret"), login(pullUser, "pull secret")},
		"open, if that is set": {testregistry.Setup{}, config.Registry{Insecure: true, Repository: "sless-{namespace}", AllowAnonymousPush: true}, `{}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			server := testregistry.Start(t, test.setup)
			cfg := test.config
			cfg.Host, cfg.CAFile = server.Host, server.CAFile
			cfg.PushConfigFile, cfg.PullConfigFile = dockerConfig(t, server.Host, test.push), dockerConfig(t, server.Host, test.pull)
			if err := work(t, cfg); err != nil {
				t.Error(err)
			}
		})
	}
	for _, want := range []string{"push:push secret", "pull:pull secret", "push token", "pull token", ""} {
		if !slices.Contains(tokens.Seen(), want) {
			t.Errorf("nobody showed %q for a token", want)
		}
	}
}

// What is wrong with a registry or its configuration is said in terms of the configuration.
func TestRegistriesThatDoNotWork(t *testing.T) {
	auth := testregistry.Passwords(t, map[string]string{pushUser: "push secret"})
	tokens := testregistry.ServeTokens(t, map[string]testregistry.Account{
		pushUser: {Password: "push secret", Actions: []string{"pull", "push", "delete"}},
		pullUser: {Password: "pull secret", Actions: []string{"pull"}},
	})
	for name, test := range map[string]struct {
		setup  testregistry.Setup
		config config.Registry
		push   string
		is     error
		reason string
		says   string
	}{
		"another's CA":   {testregistry.Setup{TLS: true, Auth: auth}, config.Registry{CAFile: testregistry.CA(t)}, login(pushUser, "push secret"), nil, v1alpha1.ReasonRegistryUnavailable, "registry.caFile"},
		"wrong password": {testregistry.Setup{Auth: auth}, config.Registry{Insecure: true}, login(pushUser, "wrong secret"), nil, v1alpha1.ReasonRegistryDenied, "credentials"},
		"wrong at the realm": {testregistry.Setup{Auth: tokens.Auth()}, config.Registry{Insecure: true}, login(pushUser, "wrong secret"), nil,
			v1alpha1.ReasonRegistryDenied, "credentials"},
		"may only pull": {testregistry.Setup{Auth: tokens.Auth()}, config.Registry{Insecure: true}, login(pullUser, "pull secret"), nil, v1alpha1.ReasonRegistryDenied, "credentials"},
		"open to all":   {testregistry.Setup{}, config.Registry{Insecure: true}, login(pushUser, "push secret"), ErrAnonymousPush, "", "registry.allowAnonymousPush"},
		"keeps all":     {testregistry.Setup{Auth: auth, Keeps: true}, config.Registry{Insecure: true}, login(pushUser, "push secret"), ErrNoDelete, "", "deletes no images"},
	} {
		t.Run(name, func(t *testing.T) {
			server := testregistry.Start(t, test.setup)
			cfg := test.config
			cfg.Host, cfg.Repository = server.Host, "sless-{namespace}"
			cfg.PushConfigFile = dockerConfig(t, server.Host, test.push)
			cfg.PullConfigFile = cfg.PushConfigFile
			err := work(t, cfg)
			if err == nil || (test.is != nil && !errors.Is(err, test.is)) || reasonOf(err) != test.reason || !strings.Contains(err.Error(), test.says) {
				t.Fatalf("got %v, want %s that says %q", err, test.reason, test.says)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("a password is in %q", err)
			}
		})
	}
}

// Of addresses that are not this machine's own the registry's client expects a certificate.
func TestPlainRegistryThatIsNotSetSo(t *testing.T) {
	server := testregistry.Start(t, testregistry.Setup{})
	r := connect(t, config.Registry{Host: "registry.example.org", Repository: "sless-{namespace}"})
	r.trusted = &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Host)
	}}
	if err := r.Check(t.Context()); reasonOf(err) != v1alpha1.ReasonRegistryUnavailable || !strings.Contains(err.Error(), "registry.insecure") {
		t.Errorf("got %v", err)
	}
}

// A registry that a tenant names sends to a realm of its choice; nobody shows it credentials there, not even for the realm of the platform's
// own registry, and a realm at an address that tenants may not name is not asked at all.
func TestRealmsThatATenantNames(t *testing.T) {
	accounts := map[string]testregistry.Account{pushUser: {Password: "push secret", Actions: []string{"pull", "push"}}}
	own, foreign := testregistry.ServeTokens(t, accounts), testregistry.ServeTokens(t, accounts)
	platform := testregistry.Start(t, testregistry.Setup{Auth: own.Auth()})
	cfg := config.Registry{Host: platform.Host, Repository: "sless-{namespace}", Insecure: true}
	cfg.PushConfigFile = dockerConfig(t, platform.Host, login(pushUser, "push secret"))
	cfg.PullConfigFile = cfg.PushConfigFile
	for realm, server := range map[string]*testregistry.Tokens{"of its own": foreign, "of the platform's registry": own} {
		named := testregistry.Start(t, testregistry.Setup{Auth: server.Auth()})
		if _, err := connect(t, cfg, "127.0.0.1").Resolve(t.Context(), named.Host+"/x:v1", "ns", "uid"); reasonOf(err) != v1alpha1.ReasonImageNotAllowed {
			t.Errorf("realm %s, at a forbidden address: %v", realm, err)
		}
		if seen := server.Seen(); len(seen) > 0 {
			t.Errorf("realm %s was asked although its address is forbidden: %q", realm, seen)
		}
		if _, err := connect(t, cfg, "127.0.0.1", "localhost").Resolve(t.Context(), named.Host+"/x:v1", "ns", "uid"); reasonOf(err) != v1alpha1.ReasonSourceNotFound {
			t.Errorf("realm %s: %v", realm, err)
		}
		if seen := server.Seen(); len(seen) == 0 || slices.ContainsFunc(seen, func(shown string) bool { return shown != "" }) {
			t.Errorf("realm %s was shown %q", realm, seen)
		}
	}
}
