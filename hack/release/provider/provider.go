// Package provider packs the Terraform provider as provider registries, filesystem mirrors and network mirrors have it.
package provider

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/naeel/sless/hack/release/sbom"
)

// name is the provider's, and that of its folder in the repository.
const name = "terraform-provider-sless"

// Platform is where a program runs, in Go's words, which are also Terraform's.
type Platform struct{ OS, Arch string }

// String is how names of archives have it.
func (p Platform) String() string { return p.OS + "_" + p.Arch }

// Platforms are those that a release is for.
var Platforms = []Platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}

// Write builds the provider of the repository root and writes an archive for each platform into folder, beside what a registry asks for (the manifest
// and the checksums, which whoever publishes it signs) and what a network mirror does (an index of versions and one of archives). The same sources and the
// same Go give the same bytes. It returns the bill of materials.
func Write(root, version, folder string, platforms []Platform) (*cdx.BOM, error) {
	version = strings.TrimPrefix(version, "v")
	programs, err := os.MkdirTemp("", "provider-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(programs)
	license, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	var built []string
	files := map[string][]byte{}
	archives := map[string]mirrored{}
	for _, platform := range platforms {
		program := filepath.Join(programs, platform.String())
		if err := build(root, version, platform, program); err != nil {
			return nil, err
		}
		built = append(built, program)
		archive, err := pack(program, programName(version, platform), license)
		if err != nil {
			return nil, err
		}
		file := fmt.Sprintf("%s_%s_%s.zip", name, version, platform)
		files[file] = archive
		archives[platform.String()] = mirrored{URL: file, Hashes: []string{fmt.Sprintf("zh:%x", sha256.Sum256(archive))}}
	}
	if files[fmt.Sprintf("%s_%s_manifest.json", name, version)], err = os.ReadFile(filepath.Join(root, name, "terraform-registry-manifest.json")); err != nil {
		return nil, err
	}
	files[fmt.Sprintf("%s_%s_SHA256SUMS", name, version)] = checksums(files)
	if files["index.json"], err = json.Marshal(map[string]any{"versions": map[string]any{version: struct{}{}}}); err != nil {
		return nil, err
	}
	if files[version+".json"], err = json.Marshal(map[string]any{"archives": archives}); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	for file, data := range files {
		if err := os.WriteFile(filepath.Join(folder, file), data, 0o644); err != nil {
			return nil, err
		}
	}
	return sbom.OfProgram(name, "v"+version, built)
}

// mirrored is what a network mirror says of an archive.
type mirrored struct {
	URL    string   `json:"url"`
	Hashes []string `json:"hashes"`
}

func programName(version string, platform Platform) string {
	program := name + "_v" + version
	if platform.OS == "windows" {
		program += ".exe"
	}
	return program
}

// build builds the program by its own go.mod, without the workspace, and without what the program would tell of the work tree's state.
func build(root, version string, platform Platform, program string) error {
	command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+version, "-o", program, ".")
	command.Dir = filepath.Join(root, name)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS="+platform.OS, "GOARCH="+platform.Arch)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s for %s: %w: %s", name, platform, err, out)
	}
	return nil
}

// epoch is the time of every file in an archive: the first that the format knows.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// pack returns an archive of the license and the program under its name.
func pack(program, as string, license []byte) ([]byte, error) {
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	out := zip.NewWriter(&archive)
	for _, file := range []struct {
		name string
		mode os.FileMode
		text []byte
	}{{"LICENSE", 0o644, license}, {as, 0o755, text}} {
		header := &zip.FileHeader{Name: file.name, Method: zip.Deflate, Modified: epoch}
		header.SetMode(file.mode)
		to, err := out.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(file.text); err != nil {
			return nil, err
		}
	}
	err = out.Close()
	return archive.Bytes(), err
}

// checksums returns a file as sha256sum -c reads it.
func checksums(files map[string][]byte) []byte {
	var sums []byte
	for _, file := range slices.Sorted(maps.Keys(files)) {
		sums = fmt.Appendf(sums, "%x  %s\n", sha256.Sum256(files[file]), file)
	}
	return sums
}
