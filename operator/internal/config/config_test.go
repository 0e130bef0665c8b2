package config

import (
	"strings"
	"testing"
)

const good = `
externalURL: https://functions.example.org/
runtimes: [{name: python3.11, language: python, image: "r/p@sha256:0"}]
registry: {host: r, pushConfigFile: a, pushSecretName: p, pullConfigFile: b}
objectStore: {endpoint: "https://s3.example.org", bucket: sless, credentialsDir: d}
build: {kanikoImage: k, checkImage: o}
apiserver: {limits: {burst: 10}}
`

func TestParseSetsDefaults(t *testing.T) {
	config, err := Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if config.ExternalURL != "https://functions.example.org" || config.Build.MaxFiles != 20000 || config.Registry.Repository != "sless-{namespace}" {
		t.Errorf("got %+v", config)
	}
	if _, ok := config.Runtime("python3.11"); !ok {
		t.Error("runtime not found")
	}
}

func TestParseNamesWhatIsWrong(t *testing.T) {
	for name, test := range map[string]struct{ old, new, want string }{
		"unknown field": {"externalURL:", "externalAddress:", "externalAddress"},
		"url":           {"https://functions.example.org/", "functions.example.org", "externalURL must be"},
		"tag":           {"@sha256:0", ":v1", "runtimes[0].image must name the image by digest"},
		"quantity":      {"checkImage: o", "checkImage: o, memory: lots", "build.memory must be a quantity"},
		"no range":      {"checkImage: o}", "checkImage: o}\nnetwork: {deniedCIDRs: [10.0.0.1]}", "network.deniedCIDRs[0] must be an address range"},
		"keeps none":    {"checkImage: o", "checkImage: o, keepImages: -1", "build.keepImages must be at least 1"},
		"keeps all":     {"checkImage: o", "checkImage: o, keepImages: 51", "build.keepImages must be at most 50"},
		"no host":       {"host: r,", "", "registry.host is required"},
		"one for all":   {"host: r,", "host: r, repository: all,", "registry.repository must contain {namespace}"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(strings.Replace(good, test.old, test.new, 1)))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
