//go:build acceptance

package acceptance

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// example copies an example into the workspace. One that brings no provider.tf takes the workspace's.
func (w *workspace) example(name string) {
	w.t.Helper()
	from := filepath.Join(moduleRoot, "examples", name)
	if _, err := os.Stat(filepath.Join(from, "provider.tf")); err == nil {
		if err := os.RemoveAll(filepath.Join(w.folder, "provider.tf")); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := os.CopyFS(w.folder, os.DirFS(from)); err != nil {
		w.t.Fatal(err)
	}
}

// TestResourceExamples applies the example of every resource.
func TestResourceExamples(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.Join(moduleRoot, "examples", "resources", "*"))
	if err != nil || len(names) != 3 {
		t.Fatalf("examples %v, %v; want one for each resource", names, err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			w := newWorkspace(t)
			w.example(filepath.Join("resources", filepath.Base(name)))
			w.apply()
			w.wantNoChanges()
			w.destroy()
		})
	}
}

// TestDataExamples applies the examples of data sources, of the provider and of dir_hash, beside what they read.
func TestDataExamples(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("main.tf", strings.NewReplacer("hello", "example", ".it.", ".example.", `"it"`, `"example"`).Replace(trigger("cron", `schedule = "@daily"`))+
		"resource \"sless_job\" \"example\" {\n  name = \"example\"\n  function = sless_function.example.name\n  run_id = 1\n}\n")
	w.apply()
	for _, folder := range []string{"data-sources/*", "functions/*", "provider"} {
		names, err := filepath.Glob(filepath.Join(moduleRoot, "examples", folder))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", folder, names, err)
		}
		for _, name := range names {
			reading := &workspace{t: t, folder: t.TempDir(), namespace: w.namespace, token: w.token, client: w.client}
			if filepath.Base(name) == "provider" {
				reading.env = []string{"TF_VAR_endpoint=" + endpoint, "TF_VAR_token=" + w.token, "TF_VAR_namespace=" + w.namespace}
			} else {
				reading.write("provider.tf", requiredProvider)
			}
			relative, err := filepath.Rel(filepath.Join(moduleRoot, "examples"), name)
			if err != nil {
				t.Fatal(err)
			}
			reading.example(relative)
			reading.apply()
			reading.wantNoChanges()
		}
	}
	w.destroy()
}

// TestHelloWithCron applies the first story and changes its code.
func TestHelloWithCron(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.example("hello-cron")
	w.apply()
	w.wantNoChanges()
	if status, body := w.get(w.output("url")); status != http.StatusOK || !strings.Contains(body, "hello, world") {
		t.Errorf("%d %s", status, body)
	}
	w.write("src/handler.py", "def handle(event): return 'changed'\n")
	w.apply()
	if status, body := w.get(w.output("url")); status != http.StatusOK || !strings.Contains(body, "changed") {
		t.Errorf("after the change: %d %s", status, body)
	}
	w.destroy()
}

// TestCodeInS3 applies the second story: new bytes under the same key are deployed with their hash.
func TestCodeInS3(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	s3 := localS3(t)
	w.kubectl("-n", w.namespace, "create", "secret", "generic", "code-bucket",
		"--from-literal=accessKeyID="+s3.AccessKey, "--from-literal=secretAccessKey="+s3.SecretKey)
	w.example("code-in-s3")
	key := "acceptance/" + w.namespace + ".zip"
	for _, version := range []string{"one", "two"} {
		sum := s3.put(t, key, zipped(t, map[string]string{"handler.py": "def handle(event): return 'bytes " + version + "'"}))
		w.write("terraform.tfvars", "bucket = \"sless\"\nkey = \""+key+"\"\nsha256 = \""+sum+"\"\n")
		w.apply()
		w.wantNoChanges()
		if status, body := w.get(w.output("url")); status != http.StatusOK || body != "bytes "+version {
			t.Errorf("%d %s", status, body)
		}
	}
	if out, code := w.run("state", "rm", "sless_function.from_bucket"); code != 0 {
		t.Fatal(out)
	}
	if out, code := w.run("import", "sless_function.from_bucket", w.namespace+"/from-bucket"); code != 0 {
		t.Fatal(out)
	}
	w.wantNoChanges()
	w.destroy()
}

// TestJobAfterMigration applies the third story and its next version.
func TestJobAfterMigration(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.example("migration")
	w.apply()
	w.wantNoChanges()
	w.apply("-var=schema_version=2")
	if status, body := w.get(w.output("url")); status != http.StatusOK || body != "schema 2" {
		t.Errorf("%d %s", status, body)
	}
	w.destroy()
}

func (w *workspace) output(name string) string {
	w.t.Helper()
	out, code := w.run("output", "-raw", name)
	if code != 0 {
		w.t.Fatal(out)
	}
	return out
}

func zipped(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var archive bytes.Buffer
	writer := zip.NewWriter(&archive)
	for name, text := range files {
		entry, err := writer.Create(name)
		if err == nil {
			_, err = entry.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// bucket is the object store of the local cluster.
type bucket struct {
	AccessKey string `json:"s3AccessKey"`
	SecretKey string `json:"s3SecretKey"`
	address   string
}

func localS3(t *testing.T) bucket {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleRoot, "..", ".dev", "credentials.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s3 bucket
	if err := json.Unmarshal(text, &s3); err != nil {
		t.Fatal(err)
	}
	address, err := exec.Command(kubectl, "-n", "sless-dev", "get", "service", "s3", "-o", "jsonpath={.spec.clusterIP}:{.spec.ports[0].port}").Output()
	if err != nil {
		t.Fatal(err)
	}
	s3.address = "http://" + string(address)
	return s3
}

// put stores an object, with curl for its signatures, and returns the SHA-256 in hex.
func (b bucket) put(t *testing.T, key string, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "object")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	hash := hex.EncodeToString(sum[:])
	curl := exec.Command("curl", "-sS", "--fail", "--config", "-", "-H", "x-amz-content-sha256: "+hash, "-T", file, b.address+"/sless/"+key)
	curl.Stdin = strings.NewReader("user = \"" + b.AccessKey + ":" + b.SecretKey + "\"\naws-sigv4 = \"aws:amz:us-east-1:s3\"\n")
	if out, err := curl.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return hash
}
