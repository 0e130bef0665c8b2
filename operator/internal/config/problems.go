package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// checkFiles names every file that is missing, or that can't be what it should be. What is in a file never comes into a message.
func (c *Config) checkFiles() error {
	var problems problems
	for field, path := range map[string]string{"registry.pushConfigFile": c.Registry.PushConfigFile, "registry.pullConfigFile": c.Registry.PullConfigFile} {
		text, err := os.ReadFile(path)
		switch {
		case err != nil:
			problems.add(field, missing(path))
		case !json.Valid(text):
			problems.add(field, path+" must be a Docker config.json; it is no JSON")
		}
	}
	for _, name := range []string{"accessKeyID", "secretAccessKey"} {
		path := filepath.Join(c.ObjectStore.CredentialsDir, name)
		text, err := os.ReadFile(path)
		switch {
		case err != nil:
			problems.add("objectStore.credentialsDir", missing(path))
		case strings.TrimSpace(string(text)) == "":
			problems.add("objectStore.credentialsDir", path+" is empty")
		}
	}
	for field, path := range map[string]string{"registry.caFile": c.Registry.CAFile, "objectStore.caFile": c.ObjectStore.CAFile, "network.caFile": c.Network.CAFile} {
		if _, err := os.Stat(path); path != "" && err != nil {
			problems.add(field, missing(path))
		}
	}
	return problems.err()
}

// missing says of a file where the install has it from: it mounts each Secret and ConfigMap at a folder of its name.
func missing(path string) string {
	from := filepath.Base(filepath.Dir(path))
	kind := "Secret " + from
	if from == "ca" {
		kind = "ConfigMap sless-ca"
	}
	return fmt.Sprintf("%s can't be read; the install has it from the %s in sless-system", path, kind)
}
