package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// unprivileged is the user of every image of sless.
const unprivileged = "65532:65532"

// GoProgram builds the main package of a module of this repository into an image of its own.
type GoProgram struct {
	Repo string
	Name string // the module's folder and the program's name
	Log  string
	Temp string
}

// Exists tells whether the module has a program yet.
func (g GoProgram) Exists() bool {
	_, err := os.Stat(filepath.Join(g.Repo, g.Name, "main.go"))
	return err == nil
}

// Inputs is the hash of the sources.
func (g GoProgram) Inputs(goVersion string) (string, error) {
	return Inputs(g.Repo, []string{"api", "ledger", g.Name, "go.work"}, goVersion, g.Name)
}

// Make builds the program and the image.
func (g GoProgram) Make(ctx context.Context) (v1.Image, error) {
	for _, dir := range []string{g.Temp, filepath.Dir(g.Log)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	log, err := os.Create(g.Log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	binary := filepath.Join(g.Temp, g.Name)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", binary, ".")
	cmd.Dir = filepath.Join(g.Repo, g.Name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	target := "/" + g.Name
	return FromFiles([]File{
		{Path: target, Source: binary, Mode: 0o755},
		CABundle(),
		{Path: "/tmp", Mode: 0o1777},
	}, v1.Config{Entrypoint: []string{target}, User: unprivileged, WorkingDir: "/"})
}

// Kaniko makes the image that builds images, laid out like the one its project publishes.
func Kaniko(executor string) (v1.Image, error) {
	return FromFiles([]File{
		{Path: "/kaniko/executor", Source: executor, Mode: 0o755},
		{Path: "/kaniko/ssl/certs/ca-certificates.crt", Source: caBundle},
		{Path: "/kaniko/.docker"},
		{Path: "/root", Mode: 0o700},
		{Path: "/workspace"},
		{Path: "/tmp", Mode: 0o1777},
		{Path: "/etc/nsswitch.conf", Data: []byte("hosts: files dns\n")},
	}, v1.Config{
		Entrypoint: []string{"/kaniko/executor"},
		WorkingDir: "/workspace",
		Env: []string{
			"HOME=/root", "USER=root", "PATH=/usr/local/bin:/kaniko",
			"SSL_CERT_DIR=/kaniko/ssl/certs", "DOCKER_CONFIG=/kaniko/.docker/",
		},
	})
}
