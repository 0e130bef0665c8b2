// Package sbom lists what an image holds, as a CycloneDX bill of materials: modules of Go programs and packages of Debian.
package sbom

import (
	"archive/tar"
	"bufio"
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Of lists an image.
func Of(name, version string, image v1.Image) (*cdx.BOM, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	files := mutate.Extract(image)
	defer files.Close()
	components, err := list(files)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", name, err)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{
		Type: cdx.ComponentTypeContainer, Name: name, Version: version,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: digest.Hex}},
	}}
	bom.Components = &components
	return bom, nil
}

// list reads a tar archive of the image's files.
func list(files io.Reader) ([]cdx.Component, error) {
	found := map[string]cdx.Component{} // by package URL
	add := func(kind, name, version string) {
		address := "pkg:" + kind + "/" + name + "@" + url.PathEscape(version)
		found[address] = cdx.Component{BOMRef: address, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: address}
	}
	for archive := tar.NewReader(files); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		path := strings.TrimPrefix(strings.TrimPrefix(header.Name, "."), "/")
		switch {
		case header.Typeflag != tar.TypeReg:
		case path == "var/lib/dpkg/status":
			if err := packages(archive, func(name, version string) { add("deb/debian", name, version) }); err != nil {
				return nil, err
			}
		case header.Mode&0o111 != 0:
			if err := modules(archive, func(path, version string) { add("golang", path, version) }); err != nil {
				return nil, err
			}
		}
	}
	var components []cdx.Component
	for _, address := range slices.Sorted(maps.Keys(found)) {
		components = append(components, found[address])
	}
	return components, nil
}

// modules tells of a program's modules, and of the standard library. What is no Go program has none.
func modules(file io.Reader, add func(path, version string)) error {
	magic := make([]byte, 4)
	if _, err := io.ReadFull(file, magic); err != nil || string(magic) != "\x7fELF" {
		return nil
	}
	rest, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(append(magic, rest...)))
	if err != nil {
		return nil
	}
	add("std", strings.TrimPrefix(info.GoVersion, "go"))
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		add(module.Path, module.Version)
	}
	return nil
}

// packages tells of the packages in dpkg's status file.
func packages(file io.Reader, add func(name, version string)) error {
	name := ""
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "Package: "); ok {
			name = value
		}
		if value, ok := strings.CutPrefix(lines.Text(), "Version: "); ok && name != "" {
			add(name, value)
		}
	}
	return lines.Err()
}
