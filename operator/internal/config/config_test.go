package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const good = `
externalURL: https://functions.example.org/
runtimes: [{name: python3.11, language: python, image: "r/p@sha256:0"}]
registry: {host: r, pushConfigFile: a, pullConfigFile: b}
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

// Every setting that is missing or wrong is named, with what it must be.
func TestParseNamesWhatIsWrong(t *testing.T) {
	const more = "build: {kanikoImage: k, checkImage: o"
	for name, test := range map[string]struct{ old, new, want string }{
		"unknown field":           {"bucket: sless", "bucket: sless, buckets: 2", `unknown field "buckets"`},
		"unknown section":         {"objectStore:", "objectStores: {}\nobjectStore:", `unknown field "objectStores"`},
		"no address":              {"externalURL: https://functions.example.org/", "", "externalURL is required"},
		"no scheme":               {"https://functions.example.org/", "functions.example.org", "externalURL must be"},
		"no domain":               {"externalURL: https://functions.example.org/", "domain: https://functions.example.org", "domain must be a domain"},
		"no runtimes":             {`[{name: python3.11, language: python, image: "r/p@sha256:0"}]`, "[]", "runtimes must have an entry"},
		"runtime without name":    {"name: python3.11, ", "", "runtimes[0].name is required"},
		"unknown language":        {"language: python", "language: ruby", "runtimes[0].language must be python or node"},
		"tag":                     {"@sha256:0", ":v1", "runtimes[0].image must name the image by digest"},
		"no host":                 {"host: r,", "", "registry.host is required"},
		"host with scheme":        {"host: r,", "host: https://r,", "registry.host must be a host"},
		"one for all":             {"host: r,", "host: r, repository: all,", "registry.repository must contain {namespace}"},
		"no endpoint":             {`endpoint: "https://s3.example.org", `, "", "objectStore.endpoint is required"},
		"endpoint without scheme": {"https://s3.example.org", "s3.example.org", "objectStore.endpoint must be"},
		"no bucket":               {"bucket: sless, ", "", "objectStore.bucket is required"},
		"no kaniko":               {"kanikoImage: k, ", "", "build.kanikoImage is required"},
		"no check image":          {", checkImage: o", "", "build.checkImage is required"},
		"no quantity":             {more, more + ", memory: lots", "build.memory must be a quantity"},
		"no builds":               {more, more + ", maxConcurrent: -1", "build.maxConcurrent must be at least 1"},
		"none for a namespace":    {more, more + ", maxConcurrentPerNamespace: -1", "build.maxConcurrentPerNamespace must be at least 1"},
		"keeps none":              {more, more + ", keepImages: -1", "build.keepImages must be at least 1"},
		"keeps all":               {more, more + ", keepImages: 51", "build.keepImages must be at most 50"},
		"keeps nothing unused":    {more, more + ", keepUnusedSeconds: -1", "build.keepUnusedSeconds must be at least 1"},
		"function's quantity":     {more, "function: {tmpSize: lots}\n" + more, "function.tmpSize must be a quantity"},
		"no range":                {more, "network: {deniedCIDRs: [10.0.0.1]}\n" + more, "network.deniedCIDRs[0] must be an address range"},
		"no allowed range":        {more, "network: {allowedCIDRs: [all]}\n" + more, "network.allowedCIDRs[0] must be an address range"},
		"no number":               {more, "tenants: {maxFunctions: -1}\n" + more, "tenants.maxFunctions must be at least 0"},
		"no quota":                {more, "tenants: {resourceQuota: {hard: {pods: many}}}\n" + more, "quantities must match"},
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
	for name, test := range map[string]struct{ file, text, want string }{
		"push credentials":  {"registry-push/config.json", "", "registry.pushConfigFile %s can't be read; the install has it from the Secret registry-push in sless-system"},
		"pull credentials":  {"registry-pull/config.json", "", "registry.pullConfigFile %s can't be read; the install has it from the Secret registry-pull in sless-system"},
		"no JSON":           {"registry-pull/config.json", "password", "registry.pullConfigFile %s must be a Docker config.json"},
		"key":               {"object-store/accessKeyID", "", "objectStore.credentialsDir %s can't be read; the install has it from the Secret object-store in sless-system"},
		"empty key":         {"object-store/secretAccessKey", "\n", "objectStore.credentialsDir %s is empty"},
		"certificates":      {"ca/ca.crt", "", "network.caFile %s can't be read; the install has it from the ConfigMap sless-ca in sless-system"},
		"configuration":     {"config.yaml", "", "read configuration: open %s"},
		"nothing is amiss":  {"other", "", ""},
		"nothing but empty": {"config.yaml", "{}", "registry.host is required"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			files := map[string]string{
				"registry-push/config.json": "{}", "registry-pull/config.json": "{}", "object-store/accessKeyID": "a", "object-store/secretAccessKey": "b", "ca/ca.crt": "c",
				"config.yaml": strings.NewReplacer("pushConfigFile: a", "pushConfigFile: "+folder+"/registry-push/config.json", "pullConfigFile: b", "pullConfigFile: "+folder+"/registry-pull/config.json",
					"credentialsDir: d", "credentialsDir: "+folder+"/object-store").Replace(good) + "network: {caFile: " + folder + "/ca/ca.crt}\n",
			}
			files[test.file] = test.text
			for name, text := range files {
				if text == "" {
					continue
				}
				path := filepath.Join(folder, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Load(filepath.Join(folder, "config.yaml"))
			want := strings.ReplaceAll(test.want, "%s", filepath.Join(folder, test.file))
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			if err != nil && strings.Contains(err.Error(), "password") {
				t.Errorf("%v shows what is in a file", err)
			}
		})
	}
}
