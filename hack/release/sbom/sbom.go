// Package sbom lists what an image or a program holds, as a CycloneDX bill of materials: modules of Go programs, packages of Debian and npm,
// distributions of Python.
package sbom

import (
	"archive/tar"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/package-url/packageurl-go"
)

// OfImage lists an image of that version of sless.
func OfImage(name, version string, image v1.Image) (*cdx.BOM, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	files := mutate.Extract(image)
	defer files.Close()
	libraries := list{version: version, components: map[string]cdx.Component{}}
	if err := libraries.addFiles(files); err != nil {
		return nil, fmt.Errorf("list %s: %w", name, err)
	}
	return libraries.bom(&cdx.Component{
		Type: cdx.ComponentTypeContainer, Name: name, Version: version,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: digest.Hex}},
	}), nil
}

// OfProgram lists a Go program of that version of sless, of which there is a file for each platform: what any of them holds.
func OfProgram(name, version string, files []string) (*cdx.BOM, error) {
	libraries := list{version: version, components: map[string]cdx.Component{}}
	for _, file := range files {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", name, err)
		}
		libraries.addModules(info)
	}
	return libraries.bom(&cdx.Component{Type: cdx.ComponentTypeApplication, Name: name, Version: version}), nil
}

// list is of libraries.
type list struct {
	version    string                   // of sless, and so of its own modules
	components map[string]cdx.Component // by package URL
}

func (l list) bom(of *cdx.Component) *cdx.BOM {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: of}
	components := []cdx.Component{}
	for _, address := range slices.Sorted(maps.Keys(l.components)) {
		components = append(components, l.components[address])
	}
	bom.Components = &components
	return bom
}

// add takes a library into the list. kind is the type of its package URL, or type/namespace.
func (l list) add(kind, name, version string) {
	kind, inside, _ := strings.Cut(kind, "/")
	namespace, base := path.Split(inside + "/" + name)
	address := packageurl.NewPackageURL(kind, strings.Trim(namespace, "/"), base, version, nil, "").ToString()
	l.components[address] = cdx.Component{BOMRef: address, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: address}
}

// addFiles reads a tar archive of the image's files.
func (l list) addFiles(files io.Reader) error {
	for archive := tar.NewReader(files); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		folder, base := path.Split(path.Join("/", header.Name))
		switch {
		case header.Typeflag != tar.TypeReg:
		case folder == "/var/lib/dpkg/" && base == "status":
			if err := l.addDebian(archive); err != nil {
				return fmt.Errorf("read %s: %w", header.Name, err)
			}
		case base == "package.json" && strings.Contains(folder, "/node_modules/"):
			l.addNPM(archive)
		case base == "METADATA" && strings.HasSuffix(folder, ".dist-info/"), base == "PKG-INFO" && strings.HasSuffix(folder, ".egg-info/"):
			l.addPython(archive)
		case header.Mode&0o111 != 0:
			if err := l.addELF(archive); err != nil {
				return fmt.Errorf("read %s: %w", header.Name, err)
			}
		}
	}
}
