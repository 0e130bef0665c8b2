package admission

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// settings are the variables of the README's section on a cluster of one's own, which `cluster settings` prints.
var settings = regexp.MustCompile(`\$\{?([A-Z_0-9]+)`)

// TestOwnClusterOfTheREADME runs the commands that install sless, as the README has them.
func TestOwnClusterOfTheREADME(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "```sh\nmkdir -p production\n")
	script, _, _ := strings.Cut(section, "```")
	if !found {
		t.Fatal("README.md has no commands that begin with mkdir -p production")
	}
	printed, err := os.ReadFile(filepath.Join(root, "hack", "cluster", "settings.go"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "config"), os.DirFS(filepath.Join(root, "config"))); err != nil {
		t.Fatal(err)
	}
	given := map[string]string{"REGISTRY_INSECURE": "false", "TLS_CERT": filepath.Join(dir, "tls.crt"), "TLS_KEY": filepath.Join(dir, "tls.key")}
	// Any certificate with its key will do: these are an administrator's.
	for file, content := range map[string][]byte{given["TLS_CERT"]: server.config.CertData, given["TLS_KEY"]: server.config.KeyData} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "bash", "-euxc", "mkdir -p production\n"+script)
	command.Dir = dir
	command.Env = append(os.Environ(), "KUBECONFIG="+server.kubeconfig, "PATH="+filepath.Dir(server.kubectl)+":"+os.Getenv("PATH"))
	for _, match := range settings.FindAllStringSubmatch(script, -1) {
		name := match[1]
		if !strings.Contains(string(printed), `"`+name+`"`) {
			t.Errorf("cluster settings does not print %s", name)
		}
		value := given[name]
		switch {
		case value != "":
		case strings.HasSuffix(name, "_IMAGE"):
			value = "registry.example.org/sless/image@sha256:" + strings.Repeat("0", 64)
		default:
			value = "given.example.org"
		}
		command.Env = append(command.Env, name+"="+value)
	}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, object := range []string{"deployment/operator", "deployment/gateway", "deployment/apiserver", "secret/registry-push", "secret/registry-pull", "secret/object-store", "secret/gateway-tls", "secret/apiserver-auth"} {
		if _, err := kubectl(nil, "-n", "sless-system", "get", object); err != nil {
			t.Error(err)
		}
	}
}
