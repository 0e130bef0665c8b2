package install

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

func testValues() Values {
	return Values{
		Images:      []Image{{Name: "operator", Image: "registry.test/sless/operator", Digest: "sha256:1"}},
		Runtimes:    []Runtime{{Name: "python3.11", Language: "python", Image: "registry.test/sless/runtime-python3.11@sha256:2"}},
		Kaniko:      "registry.test/sless/kaniko@sha256:3",
		Check:       "registry.test/sless/operator@sha256:1",
		ExternalURL: "http://127.0.0.1:8080", RegistryHost: "registry.test", Repository: "sless-{namespace}", Insecure: true,
		ObjectStore:  ObjectStore{Endpoint: "http://s3.test", Bucket: "sless", AccessKey: "key", SecretKey: "secret"},
		Ledger:       &Ledger{Owner: "postgres://owner", Writer: "postgres://writer", Reader: "postgres://reader"},
		AllowedHosts: []string{"s3.test"},
		Public: &Public{Host: "sless.test", Domain: "functions.test", TrustedProxy: "192.0.2.1/32", ControllerNamespace: "dev",
			CA: []byte("public authority"), Cert: []byte("certificate"), Key: []byte("key")},
		PushConfig: []byte("push"), PullConfig: []byte("pull"), CA: []byte("authority"),
	}
}

func TestTheConfigurationIsAsExpected(t *testing.T) {
	files, err := Installer{Base: "/repo/config/dev", Dir: "/repo/.dev/install"}.files(testValues())
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "config.yaml")
	if *update {
		if err := os.WriteFile(golden, files["config.yaml"], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(files["config.yaml"]); got != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if strings.Contains(string(files["config.yaml"]), "secret\"") {
		t.Error("the configuration holds a secret")
	}
}

func TestTheOverlayFollowsTheConfiguration(t *testing.T) {
	installer := Installer{Base: "/repo/config/dev", Dir: "/repo/.dev/install"}
	render := func(values Values) string {
		t.Helper()
		files, err := installer.files(values)
		if err != nil {
			t.Fatal(err)
		}
		return string(files["kustomization.yaml"])
	}
	first := render(testValues())
	for _, want := range []string{"- ../../config/dev\n", `{name: sless/operator, newName: "registry.test/sless/operator", digest: "sha256:1"}`} {
		if !strings.Contains(first, want) {
			t.Errorf("no %s in:\n%s", want, first)
		}
	}
	other := testValues()
	other.ExternalURL = "http://127.0.0.1:9999"
	if render(other) == first {
		t.Error("another configuration does not restart the programs")
	}
}
