package sbom

import (
	"archive/tar"
	"bytes"
	"os"
	"strings"
	"testing"
)

// An image with this test's own program and two Debian packages.
func TestList(t *testing.T) {
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	out := tar.NewWriter(&archive)
	for _, file := range []struct {
		path string
		mode int64
		text []byte
	}{
		{"program", 0o755, program},
		{"bin/script", 0o755, []byte("#!/bin/sh\n")},
		{"bin/empty", 0o755, nil},
		{"var/lib/dpkg/status", 0o644, []byte("Package: a\nStatus: install ok installed\nVersion: 1:2.0-1\n\nPackage: b\nVersion: 3\nDescription: x\n Version: none\n")},
	} {
		if err := out.WriteHeader(&tar.Header{Name: file.path, Mode: file.mode, Size: int64(len(file.text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(file.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	components, err := list(&archive)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, component := range components {
		all.WriteString(component.PackageURL + "\n")
	}
	for _, want := range []string{"pkg:deb/debian/a@1:2.0-1\n", "pkg:deb/debian/b@3\n", "pkg:golang/std@1."} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no %q in:\n%s", want, &all)
		}
	}
}
