package runtimes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/naeel/sless/hack/cluster/internal/images"
)

func TestRenderTellsKanikoEverything(t *testing.T) {
	builder := Builder{
		Registry:     images.Registry{Prefix: "registry.test/sless", Insecure: true},
		DockerConfig: []byte(`{"auths":{}}`),
		CA:           []byte("authority"),
		Args:         map[string]string{"PIP_CERT": "/kaniko/ca/ca.crt"},
	}
	text, err := builder.render(Build{Base: "registry.test/sless/base@sha256:1"}, "build-x", "registry.test/sless/build-context@sha256:2", "registry.test/sless/x:v1")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`name: build-x`, `image: registry.test/sless/build-context@sha256:2`,
		`- "--build-arg=BASE=registry.test/sless/base@sha256:1"`, `- "--build-arg=PIP_CERT=/kaniko/ca/ca.crt"`,
		`- "--destination=registry.test/sless/x:v1"`, `- "--insecure"`, `.dockerconfigjson: eyJhdXRocyI6e319`, `ca.crt: YXV0aG9yaXR5`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
}

func TestContextFilesLeaveOutTestsAndCaches(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{
		"Dockerfile": 0o600, "sless/start": 0o700, "tests/a.py": 0o600, "sless/__pycache__/b.pyc": 0o600, "node_modules/c.js": 0o600,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	files, err := contextFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]int64{}
	var paths []string
	for _, file := range files {
		paths = append(paths, file.Path)
		modes[file.Path] = file.Mode
	}
	if want := []string{"/kaniko/buildcontext/Dockerfile", "/kaniko/buildcontext/sless/start"}; !slices.Equal(paths, want) {
		t.Fatalf("got %q, want %q", paths, want)
	}
	// Modes come from the executable bit alone, so that the owner's umask does not show in the image.
	if modes[paths[0]] != 0o644 || modes[paths[1]] != 0o755 {
		t.Errorf("modes %v", modes)
	}
}
