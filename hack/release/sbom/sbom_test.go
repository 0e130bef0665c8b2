package sbom

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
)

// An image with this test's own program, and packages of each kind, of which some are not fit to be listed.
func TestAddFiles(t *testing.T) {
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	huge := strings.Repeat("x", most)
	var archive bytes.Buffer
	out := tar.NewWriter(&archive)
	for _, file := range []struct {
		path string
		mode int64
		text string
	}{
		{"program", 0o755, string(program)},
		{"bin/script", 0o755, "#!/bin/sh\n"},
		{"bin/empty", 0o755, ""},
		{"./var/lib/dpkg/status", 0o644, "Package: libstdc++6\nStatus: install ok installed\nVersion: 1:2.0-1\n\nPackage: b\nVersion: 3\nDescription: x\n Version: none\n\nPackage: halfway\n"},

		{"./lib/node_modules/npm/package.json", 0o644, `{"name": "npm", "version": "10.8.2", "bin": {}}`},
		{"lib/node_modules/npm/node_modules/@scope/JSON/package.json", 0o755, `{"version": "1.0.0+x", "name": "@scope/JSON"}`},
		{"lib/node_modules/twice/node_modules/npm/package.json", 0o644, `{"name": "npm", "version": "10.8.2"}`},
		{"lib/node_modules/npm/dist/esm/package.json", 0o644, `{"type": "module", "version": "7"}`},
		{"lib/node_modules/broken/package.json", 0o644, `{"name": "broken", "version": "1"`},
		{"lib/node_modules/wrong/package.json", 0o644, `{"name": "wrong", "version": 1}`},
		{"lib/node_modules/huge/package.json", 0o644, `{"name": "huge", "version": "1", "x": "` + huge + `"}`},
		{"srv/package.json", 0o644, `{"name": "handler", "version": "1"}`},

		{"lib/python3/Zope.Inter__face-1.dist-info/METADATA", 0o644, "Metadata-Version: 2.1\r\nName: Zope.Inter__face\r\nVersion: 1!2.0\r\n\r\nName: text\r\nVersion: 9\r\n"},
		{"lib/python3/wheel-0.38.4.egg-info/PKG-INFO", 0o644, "Name: wheel\nVersion: 0.38.4\nLicense: " + huge},
		{"lib/python3/old-1.egg-info", 0o644, "Name: old\nVersion: 1\n"},
		{"lib/python3/none-1.dist-info/METADATA", 0o644, "Name: none\n\nVersion: 1\n"},
		{"src/x/PKG-INFO", 0o644, "Name: source\nVersion: 1\n"},
	} {
		if err := out.WriteHeader(&tar.Header{Name: file.path, Mode: file.mode, Size: int64(len(file.text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte(file.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	libraries := list{version: "v1", components: map[string]cdx.Component{}}
	if err := libraries.addFiles(&archive); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"pkg:deb/debian/b@3 b",
		"pkg:deb/debian/libstdc%2B%2B6@1:2.0-1 libstdc++6",
		"pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go") + " std",
		"pkg:npm/%40scope/JSON@1.0.0%2Bx @scope/JSON",
		"pkg:npm/npm@10.8.2 npm",
		"pkg:pypi/wheel@0.38.4 wheel",
		"pkg:pypi/zope-inter-face@1%212.0 zope-inter-face",
	}
	if diff := cmp.Diff(want, listed(libraries)); diff != "" {
		t.Errorf("libraries (-want +got):\n%s", diff)
	}
}

// Modules of sless have the version of the release, however the program was built; what is replaced is what stands in its place.
func TestAddModules(t *testing.T) {
	libraries := list{version: "v1", components: map[string]cdx.Component{}}
	libraries.addModules(&buildinfo.BuildInfo{GoVersion: "go1.26.0", Deps: []*debug.Module{
		{Path: "github.com/naeel/sless/api", Version: "v0.0.0", Replace: &debug.Module{Path: "../api"}},
		{Path: "github.com/naeel/sless/ledger", Version: "(devel)"},
		{Path: "example.org/a", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/b", Version: "v1.0.1"}},
		{Path: "example.org/c/v2", Version: "v2.0.0+incompatible"},
	}})
	want := []string{
		"pkg:golang/example.org/b@v1.0.1 example.org/b",
		"pkg:golang/example.org/c/v2@v2.0.0%2Bincompatible example.org/c/v2",
		"pkg:golang/github.com/naeel/sless/api@v1 github.com/naeel/sless/api",
		"pkg:golang/github.com/naeel/sless/ledger@v1 github.com/naeel/sless/ledger",
		"pkg:golang/std@1.26.0 std",
	}
	if diff := cmp.Diff(want, listed(libraries)); diff != "" {
		t.Errorf("libraries (-want +got):\n%s", diff)
	}
}

// listed returns package URLs and names.
func listed(libraries list) []string {
	var got []string
	for _, component := range *libraries.bom(nil).Components {
		got = append(got, component.PackageURL+" "+component.Name)
	}
	return got
}
