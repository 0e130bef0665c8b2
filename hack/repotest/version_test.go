package repotest

import (
	"regexp"
	"testing"
)

// TestOneVersion holds that what names the version in words of its own follows config/default, from which a release takes it.
func TestOneVersion(t *testing.T) {
	const source = "config/default/kustomization.yaml"
	version := ""
	for _, place := range []struct{ file, pattern string }{
		{source, `newTag: (v[^ }]+)`},
		{"hack/cluster/images.go", `imageTag = "([^"]+)"`},
		{"docs/terraform.md", `/terraform-provider-sless_(v[^ ]+) `},
		{"docs/development.md", `/operator:(v[^)` + "`" + `]+)`},
	} {
		found := regexp.MustCompile(place.pattern).FindAllSubmatch(read(t, place.file), -1)
		if len(found) == 0 {
			t.Errorf("%s names no version", place.file)
		}
		for _, match := range found {
			if version == "" {
				version = string(match[1])
			}
			if string(match[1]) != version {
				t.Errorf("%s has the version %s, %s has %s", place.file, match[1], source, version)
			}
		}
	}
}
