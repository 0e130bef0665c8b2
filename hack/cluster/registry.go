package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/naeel/sless/hack/cluster/internal/addons"
	"github.com/naeel/sless/hack/cluster/internal/images"
	"github.com/naeel/sless/hack/cluster/internal/plan"
)

// registry is where images go and with which accounts: the cluster's own, or SLESS_REGISTRY.
type registry struct {
	images.Registry
	host       string
	push, pull []byte // Docker config.json
}

func (a *app) registry() (registry, error) {
	if a.external {
		return externalRegistry(os.Getenv("SLESS_REGISTRY"))
	}
	accounts, err := addons.LoadCredentials(a.place)
	if err != nil {
		return registry{}, err
	}
	r := registry{
		Registry: images.Registry{
			Prefix: plan.RegistryHost + "/sless", Insecure: true,
			Dial:     fmt.Sprintf("%s:%d", plan.RegistryIP, plan.RegistryPort),
			Keychain: images.Account{User: accounts.RegistryPushUser, Password: accounts.RegistryPushPassword},
		},
		host: plan.RegistryHost,
	}
	if r.push, err = dockerConfig(r.host, accounts.RegistryPushUser, accounts.RegistryPushPassword); err != nil {
		return registry{}, err
	}
	r.pull, err = dockerConfig(r.host, accounts.RegistryPullUser, accounts.RegistryPullPassword)
	return r, err
}

// externalRegistry uses the account that docker login left on this machine, for pushing and pulling alike.
func externalRegistry(prefix string) (registry, error) {
	prefix = strings.TrimSuffix(prefix, "/")
	if prefix == "" {
		return registry{}, errors.New("with SLESS_KUBECONFIG set, set SLESS_REGISTRY too: the host (and path) that this machine can push to and the cluster can pull from")
	}
	repository, err := name.NewRepository(prefix + "/sless")
	if err != nil {
		return registry{}, fmt.Errorf("SLESS_REGISTRY: %w", err)
	}
	authenticator, err := authn.DefaultKeychain.Resolve(repository)
	if err != nil {
		return registry{}, err
	}
	account, err := authenticator.Authorization()
	if err != nil {
		return registry{}, err
	}
	r := registry{
		Registry: images.Registry{Prefix: prefix, Keychain: authn.DefaultKeychain, Insecure: repository.Scheme() == "http"},
		host:     repository.RegistryStr(),
	}
	if r.push, err = dockerConfig(r.host, account.Username, account.Password); err != nil {
		return registry{}, err
	}
	r.pull = r.push
	return r, nil
}

func dockerConfig(host, user, password string) ([]byte, error) {
	type entry struct {
		Username string `json:"username"`
		Password string `json:"password"`
		Auth     string `json:"auth"`
	}
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return json.Marshal(map[string]any{"auths": map[string]entry{host: {Username: user, Password: password, Auth: auth}}})
}
