package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/naeel/sless/hack/release/provider"
)

// A release of images of nothing: the manifests name them by digest in the registry, and every file has its checksum.
func TestDist(t *testing.T) {
	folder := t.TempDir()
	var digests []string
	for _, name := range []string{"operator", "gateway", "apiserver", "kaniko", "runtime-python3.11", "runtime-nodejs20"} {
		image, err := random.Image(10, 1)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest.String())
		path, err := layout.Write(filepath.Join(folder, "images", name), empty.Index)
		if err != nil {
			t.Fatal(err)
		}
		if err := path.AppendImage(image); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeDist("../..", "r.example.net/s", folder, []provider.Platform{{OS: runtime.GOOS, Arch: runtime.GOARCH}}); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	install := read("install.yaml")
	for _, digest := range digests {
		if !strings.Contains(install, digest) {
			t.Errorf("install.yaml has no %s", digest)
		}
	}
	if strings.Contains(install, "image: registry.example.org") || !strings.Contains(install, "image: r.example.net/s/operator") {
		t.Error("install.yaml names images in another registry")
	}
	sums := read("SHA256SUMS")
	for _, want := range []string{"  install.yaml\n", ".tgz\n", "  operator.cdx.json\n", "  terraform-provider-sless.cdx.json\n", "_manifest.json\n", "  images/kaniko/index.json\n"} {
		if !strings.Contains(sums, want) {
			t.Errorf("no checksum of%s", want)
		}
	}
}
