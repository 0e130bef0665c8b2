package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/hack/release/chart"
	"github.com/naeel/sless/hack/release/provider"
	"github.com/naeel/sless/hack/release/sbom"
)

// writeDist puts into folder, beside images/NAME (an OCI layout each) that are there, what a release has: the manifests in one file and the chart, which
// name the images by digest in that registry, the Terraform provider for the platforms, an SBOM of each image and of the provider, and the checksums of
// everything.
func writeDist(root, registry, folder string, platforms []provider.Platform) error {
	pinned, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(pinned)
	if err := os.CopyFS(filepath.Join(pinned, "config"), os.DirFS(filepath.Join(root, "config"))); err != nil {
		return err
	}
	layouts, err := filepath.Glob(filepath.Join(folder, "images", "*"))
	if err != nil {
		return err
	}
	images := map[string]v1.Image{}
	for _, dir := range layouts {
		if images[filepath.Base(dir)], err = readLayout(dir); err != nil {
			return err
		}
	}
	if err := pin(filepath.Join(pinned, "config", "default"), registry, images); err != nil {
		return err
	}
	version, err := writePackages(pinned, folder)
	if err != nil {
		return err
	}
	for name, image := range images {
		bom, err := sbom.OfImage(name, version, image)
		if err != nil {
			return err
		}
		if err := writeSBOM(folder, bom); err != nil {
			return err
		}
	}
	bom, err := provider.Write(root, version, filepath.Join(folder, "provider"), platforms)
	if err != nil {
		return err
	}
	if err := writeSBOM(folder, bom); err != nil {
		return err
	}
	return writeChecksums(folder)
}

// writePackages writes the manifests and the chart of the repository root, and returns the version.
func writePackages(root, folder string) (version string, err error) {
	manifests, err := chart.Build(filepath.Join(root, "config", "default"))
	if err != nil {
		return "", err
	}
	var install strings.Builder
	for _, object := range manifests {
		text, err := yaml.Marshal(object)
		if err != nil {
			return "", err
		}
		install.WriteString("---\n" + string(text))
	}
	if err := os.WriteFile(filepath.Join(folder, "install.yaml"), []byte(install.String()), 0o644); err != nil {
		return "", err
	}
	dir := filepath.Join(root, "chart")
	if err := writeChart(root, dir); err != nil {
		return "", err
	}
	loaded, err := loader.LoadDir(dir)
	if err != nil {
		return "", err
	}
	if _, err := chartutil.Save(loaded, folder); err != nil {
		return "", fmt.Errorf("pack the chart: %w", err)
	}
	return loaded.Metadata.AppVersion, nil
}

// pin names the images by digest in the settings of an install.
func pin(settings, registry string, images map[string]v1.Image) error {
	for _, place := range []struct{ file, image, old, new string }{
		{"kustomization.yaml", "operator", "newName: registry.example.org/sless/operator,", "newName: %s, digest: %q,"},
		{"kustomization.yaml", "gateway", "newName: registry.example.org/sless/gateway,", "newName: %s, digest: %q,"},
		{"kustomization.yaml", "apiserver", "newName: registry.example.org/sless/apiserver,", "newName: %s, digest: %q,"},
		{"config.yaml", "runtime-python3.11", `language: python, image: ""`, `language: python, image: "%s@%s"`},
		{"config.yaml", "runtime-nodejs20", `language: node, image: ""`, `language: node, image: "%s@%s"`},
		{"config.yaml", "kaniko", `kanikoImage: ""`, `kanikoImage: "%s@%s"`},
		{"config.yaml", "operator", `checkImage: ""`, `checkImage: "%s@%s"`},
	} {
		if images[place.image] == nil {
			return fmt.Errorf("there is no image %s", place.image)
		}
		digest, err := images[place.image].Digest()
		if err != nil {
			return err
		}
		path := filepath.Join(settings, place.file)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), place.old) {
			return fmt.Errorf("%s has no %s to put the image into", place.file, place.old)
		}
		named := strings.Replace(string(text), place.old, fmt.Sprintf(place.new, registry+"/"+place.image, digest.String()), 1)
		if err := os.WriteFile(path, []byte(named), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func readLayout(dir string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s has %d images, want one", dir, len(manifest.Manifests))
	}
	return index.Image(manifest.Manifests[0].Digest)
}

// writeSBOM writes NAME.cdx.json of what the bill of materials is about.
func writeSBOM(folder string, bom *cdx.BOM) error {
	file, err := os.Create(filepath.Join(folder, bom.Metadata.Component.Name+".cdx.json"))
	if err != nil {
		return err
	}
	defer file.Close()
	return cdx.NewBOMEncoder(file, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// writeChecksums writes SHA256SUMS of all files, as sha256sum -c reads it.
func writeChecksums(folder string) error {
	const name = "SHA256SUMS"
	var sums strings.Builder
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == name {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, file); err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, path)
		fmt.Fprintf(&sums, "%x  %s\n", sum.Sum(nil), relative)
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name), []byte(sums.String()), 0o644)
}
