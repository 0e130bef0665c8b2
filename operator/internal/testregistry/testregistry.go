// Package testregistry starts a real registry for the tests of a package: the program that the repository's own cluster runs, set up as
// a test needs it.
package testregistry

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// patience is how long a registry may take to start.
const patience = time.Minute

// Setup says what a registry is like. The zero Setup speaks plain HTTP, asks nobody for anything and deletes what it is told to.
type Setup struct {
	// TLS gives it a certificate that an authority of the test's own has signed.
	TLS bool
	// Auth is the auth section of its configuration, in YAML's flow style.
	Auth string
	// Keeps makes it refuse to delete.
	Keeps bool
}

// Registry is one that runs until the test's end.
type Registry struct {
	// Host is its address.
	Host string
	// CAFile has the certificate of the authority that signed its own.
	CAFile string

	program, config, data string
}

// Start starts a registry.
func Start(t *testing.T, setup Setup) *Registry {
	t.Helper()
	folder := t.TempDir()
	r := &Registry{Host: freeAddress(t), program: program(t), config: filepath.Join(folder, "config.yml"), data: filepath.Join(folder, "data")}
	text := fmt.Sprintf("version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage:\n  filesystem: {rootdirectory: %q}\n  delete: {enabled: %v}\nhttp:\n  addr: %q\n",
		r.data, !setup.Keeps, r.Host)
	if setup.TLS {
		files := certify(t, folder)
		r.CAFile = files.ca
		text += fmt.Sprintf("  tls: {certificate: %q, key: %q}\n", files.certificate, files.key)
	}
	if setup.Auth != "" {
		text += "auth: " + setup.Auth + "\n"
	}
	write(t, r.config, text)
	command := r.command("serve", r.config)
	var said bytes.Buffer
	command.Stderr = &said
	if err := command.Start(); err != nil {
		t.Fatalf("start the registry: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		_ = command.Process.Kill() // or it has ended by itself
		<-ended
		if t.Failed() {
			t.Logf("the registry said:\n%s", said.String())
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		connection, err := net.Dial("tcp", r.Host)
		if err == nil {
			connection.Close()
			return r
		}
		if len(ended) > 0 {
			t.Fatal("the registry has ended")
		}
		if time.Now().After(deadline) {
			t.Fatalf("the registry does not start: %v", err)
		}
	}
}

func (r *Registry) command(args ...string) *exec.Cmd {
	command := exec.Command(r.program, args...)
	command.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	return command
}

// CollectGarbage runs the registry's own garbage collection. Nothing may be pushed meanwhile.
func (r *Registry) CollectGarbage(t *testing.T) {
	t.Helper()
	if said, err := r.command("garbage-collect", "--delete-untagged", r.config).CombinedOutput(); err != nil {
		t.Fatalf("collect the registry's garbage: %v\n%s", err, said)
	}
}

// Usage says how many bytes the registry keeps in how many blobs.
func (r *Registry) Usage(t *testing.T) (size int64, blobs int) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(r.data, "docker", "registry", "v2", "blobs"), func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		size, blobs = size+info.Size(), blobs+1
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return size, blobs
}

// Passwords is an auth section that asks for one of these accounts; all may do everything.
func Passwords(t *testing.T, accounts map[string]string) string {
	t.Helper()
	text := ""
	for user, password := range accounts {
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		text += user + ":" + string(hash) + "\n"
	}
	file := filepath.Join(t.TempDir(), "htpasswd")
	write(t, file, text)
	return fmt.Sprintf("{htpasswd: {realm: test, path: %q}}", file)
}

// program finds the registry: where the programs of the API server are, or where the repository's own cluster has it.
func program(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("KUBEBUILDER_ASSETS")
	if folder == "" {
		above, err := filepath.Abs(".")
		for err == nil && folder == "" && above != "/" {
			if _, missing := os.Stat(filepath.Join(above, "go.work")); missing == nil {
				folder = filepath.Join(above, ".dev", "bin")
			}
			above = filepath.Dir(above)
		}
	}
	path := filepath.Join(folder, "registry")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("there is no registry to test with: %v; run make kubernetes", err)
	}
	return path
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
