package provider

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
)

const (
	root = "../../.."
	// version is one that no registry has.
	version = "9.8.7"
	address = "terra.k8c.ru/naeel/sless"
)

var (
	here = Platform{runtime.GOOS, runtime.GOARCH}
	// dist is the folder of a release for this machine's platform, and bom its bill of materials.
	dist string
	bom  *cdx.BOM
)

func TestMain(m *testing.M) {
	code, err := prepared(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func prepared(m *testing.M) (int, error) {
	folder, err := os.MkdirTemp("", "release-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(folder)
	dist = filepath.Join(folder, "dist")
	if bom, err = Write(root, "v"+version, filepath.Join(dist, "provider"), []Platform{here}); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func TestArchive(t *testing.T) {
	archive, err := zip.OpenReader(filepath.Join(dist, "provider", "terraform-provider-sless_9.8.7_"+here.String()+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var got []string
	for _, file := range archive.File {
		got = append(got, fmt.Sprint(file.Name, " ", file.Mode(), " ", file.Modified.Year()))
	}
	if diff := cmp.Diff([]string{"LICENSE -rw-r--r-- 1980", "terraform-provider-sless_v9.8.7 -rwxr-xr-x 1980"}, got); diff != "" {
		t.Fatalf("files (-want +got):\n%s", diff)
	}
	file, err := archive.File[1].Open()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	program, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(program, []byte(version)) {
		t.Error("the program does not know its version")
	}
}

func TestProgramNames(t *testing.T) {
	for platform, want := range map[Platform]string{
		{"linux", "arm64"}:   "terraform-provider-sless_v1.0.0",
		{"windows", "amd64"}: "terraform-provider-sless_v1.0.0.exe",
	} {
		if got := programName("1.0.0", platform); got != want {
			t.Errorf("%s: got %s, want %s", platform, got, want)
		}
	}
}

// What a registry asks for is there, with checksums of what it distributes.
func TestRegistryFiles(t *testing.T) {
	files := contents(t, filepath.Join(dist, "provider"))
	archive, manifest := "terraform-provider-sless_9.8.7_"+here.String()+".zip", "terraform-provider-sless_9.8.7_manifest.json"
	want := ""
	for _, name := range []string{archive, manifest} {
		want += fmt.Sprintf("%x  %s\n", sha256.Sum256(files[name]), name)
	}
	if diff := cmp.Diff(want, string(files["terraform-provider-sless_9.8.7_SHA256SUMS"])); diff != "" {
		t.Errorf("checksums (-want +got):\n%s", diff)
	}
	if !strings.Contains(string(files[manifest]), `"protocol_versions": ["6.0"]`) {
		t.Errorf("the manifest is %s", files[manifest])
	}
}

func TestSameSourcesGiveTheSameBytes(t *testing.T) {
	again := t.TempDir()
	if _, err := Write(root, "v"+version, again, []Platform{here}); err != nil {
		t.Fatal(err)
	}
	first, second := contents(t, filepath.Join(dist, "provider")), contents(t, again)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(first)), slices.Sorted(maps.Keys(second))); diff != "" {
		t.Fatal(diff)
	}
	for name := range first {
		if !bytes.Equal(first[name], second[name]) {
			t.Errorf("%s differs from the one that was made before", name)
		}
	}
}

// contents reads the files of a folder.
func contents(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		if files[entry.Name()], err = os.ReadFile(filepath.Join(folder, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestBillOfMaterials(t *testing.T) {
	var got []string
	for _, component := range *bom.Components {
		got = append(got, component.Name)
		if component.Name == "github.com/naeel/sless/api" && component.Version != "v"+version {
			t.Errorf("sless's own module has the version %q", component.Version)
		}
	}
	for _, want := range []string{"std", "github.com/naeel/sless/api", "github.com/hashicorp/terraform-plugin-framework"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s among %q", want, got)
		}
	}
}

// TestClosedNetwork does what docs/terraform.md says of a closed network, and has terraform take the provider from there and start it.
func TestClosedNetwork(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "terraform.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## In a closed network\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) != 3 || blocks[0][1] != "sh" || blocks[1][1] != "hcl" || blocks[2][1] != "hcl" {
		t.Fatalf("the section has the blocks %q, want commands, a filesystem mirror and a network mirror", blocks)
	}
	commands, filesystem, network := blocks[0][2], blocks[1][2], blocks[2][2]

	t.Run("one machine", func(t *testing.T) {
		m := newMachine(t)
		m.run(filepath.Dir(dist), "bash", "-euc", commands)
		m.useProvider()
	})
	t.Run("filesystem mirror", func(t *testing.T) {
		m := newMachine(t)
		mirror := t.TempDir()
		m.write(".terraformrc", replaced(t, filesystem, "/srv/terraform", mirror))
		if err := os.CopyFS(filepath.Join(mirror, address), os.DirFS(filepath.Join(dist, "provider"))); err != nil {
			t.Fatal(err)
		}
		m.useProvider()
		m.run(m.home, m.terraform, "providers", "lock", "-fs-mirror="+mirror, "-platform="+here.String())
	})
	t.Run("network mirror", func(t *testing.T) {
		m := newMachine(t)
		files := http.StripPrefix("/terraform/"+address, http.FileServer(http.Dir(filepath.Join(dist, "provider"))))
		server := httptest.NewTLSServer(files)
		defer server.Close()
		m.write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
		m.write(".terraformrc", replaced(t, network, "https://mirror.example.org", server.URL))
		m.useProvider()
	})
}

func replaced(t *testing.T, text, old, new string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("the page does not name %s", old)
	}
	return strings.ReplaceAll(text, old, new)
}

// machine is somebody's home, on which terraform has been told nothing yet.
type machine struct {
	t               *testing.T
	home, terraform string
}

func newMachine(t *testing.T) machine {
	t.Helper()
	program := os.Getenv("SLESS_TEST_TERRAFORM")
	for _, name := range []string{"terraform", filepath.Join(root, ".dev", "bin", "tofu")} {
		if found, err := exec.LookPath(name); program == "" && err == nil {
			program = found
		}
	}
	if program == "" {
		t.Fatal("there is no terraform, and no OpenTofu: bin/cluster tofu builds it")
	}
	program, err := filepath.Abs(program)
	if err != nil {
		t.Fatal(err)
	}
	return machine{t, t.TempDir(), program}
}

func (m machine) write(name, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.home, name), []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

func (m machine) run(folder, program string, args ...string) string {
	m.t.Helper()
	command := exec.Command(program, args...)
	command.Dir = folder
	command.Env = append(os.Environ(), "HOME="+m.home, "SSL_CERT_FILE="+filepath.Join(m.home, "ca.crt"), "TF_CLI_CONFIG_FILE=", "TF_PLUGIN_CACHE_DIR=", "CHECKPOINT_DISABLE=1")
	out, err := command.CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// useProvider installs the provider by a configuration that asks for it, and asks it for its schema.
func (m machine) useProvider() {
	m.t.Helper()
	m.write("main.tf", fmt.Sprintf("terraform {\n  required_providers {\n    sless = {\n      source = %q\n    }\n  }\n}\n", address))
	out := m.run(m.home, m.terraform, "init")
	lock, err := os.ReadFile(filepath.Join(m.home, ".terraform.lock.hcl"))
	if err != nil || !strings.Contains(string(lock), `"`+version+`"`) {
		m.t.Errorf("terraform took another provider: %v\n%s\n%s", err, lock, out)
	}
	if schema := m.run(m.home, m.terraform, "providers", "schema", "-json"); !strings.Contains(schema, `"sless_function"`) {
		m.t.Errorf("the provider has the schema %s", schema)
	}
}
