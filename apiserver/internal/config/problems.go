package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// problems are sentences, each of which names a field and its rule.
type problems []string

func (p *problems) add(field, rule string) { *p = append(*p, field+" "+rule) }

// err is all of them, in the order of the fields' names; nil when there are none.
func (p *problems) err() error {
	slices.Sort(*p)
	errs := make([]error, len(*p))
	for i, problem := range *p {
		errs[i] = errors.New(problem)
	}
	return errors.Join(errs...)
}

// checkFiles names every file that is missing.
func (c *Config) checkFiles() error {
	var problems problems
	store := c.ObjectStore.CredentialsDir
	for _, file := range []struct{ field, path, from string }{
		{"objectStore.credentialsDir", filepath.Join(store, "accessKeyID"), "Secret object-store"},
		{"objectStore.credentialsDir", filepath.Join(store, "secretAccessKey"), "Secret object-store"},
		{"objectStore.caFile", c.ObjectStore.CAFile, "ConfigMap sless-ca"},
		{"registry.pullConfigFile", c.Registry.PullConfigFile, "Secret registry-pull"},
		{"registry.caFile", c.Registry.CAFile, "ConfigMap sless-ca"},
		{"apiserver.auth.staticTokensFile", c.APIServer.Auth.StaticTokensFile, "Secret apiserver-auth"},
		{"apiserver.tls.certFile", c.APIServer.TLS.CertFile, "Secret apiserver-auth"},
		{"apiserver.tls.keyFile", c.APIServer.TLS.KeyFile, "Secret apiserver-auth"},
	} {
		if file.path == "" {
			continue
		}
		if _, err := os.Stat(file.path); err != nil {
			problems.add(file.field, fmt.Sprintf("%s can't be read; the install has it from the %s in sless-system", file.path, file.from))
		}
	}
	return problems.err()
}
