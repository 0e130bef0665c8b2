package repotest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var hostOf = regexp.MustCompile(`https?://(?:[^/@\s]*@)?([^/:\s,|"'\]]+)`)

// registryHosts returns the hosts from which this machine takes packages, with the setting that names each. A tool or a setting that
// is absent names none.
func registryHosts(t *testing.T) map[string]string {
	t.Helper()
	hosts := map[string]string{}
	note := func(setting, text string) {
		for _, match := range hostOf.FindAllStringSubmatch(text, -1) {
			hosts[match[1]] = setting
		}
	}
	note("GOPROXY", asked("go", "env", "GOPROXY"))
	note("npm's registry", asked("npm", "config", "get", "registry"))
	for _, variable := range []string{"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "NPM_CONFIG_REGISTRY"} {
		note(variable, os.Getenv(variable))
	}
	note("pip's index", asked("python3", "-m", "pip", "config", "list"))
	for _, pattern := range []string{"/etc/apt/sources.list", "/etc/apt/sources.list.d/*"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				continue
			}
			note("apt's sources", uncommented(string(text)))
		}
	}
	for _, local := range []string{"localhost", "127.0.0.1"} {
		delete(hosts, local)
	}
	return hosts
}

// asked returns what a program answers, and nothing when it is not there or does not know.
func asked(program string, args ...string) string {
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

func uncommented(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// TestHostsAreFound holds that the search above sees what the settings usually look like.
func TestHostsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"https://proxy.example.org,direct":                                           "proxy.example.org",
		"http://user:secret@index.example.org:8080/simple/":                          "index.example.org",
		"global.index-url='https://pip.example.org/simple'":                          "pip.example.org",
		uncommented("# http://old.example.org\ndeb http://apt.example.org/debian x"): "apt.example.org",
	} {
		matches := hostOf.FindAllStringSubmatch(text, -1)
		if len(matches) != 1 || matches[0][1] != want {
			t.Errorf("in %q: got %v, want %s", text, matches, want)
		}
	}
}
