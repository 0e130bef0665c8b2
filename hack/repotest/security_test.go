package repotest

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var testName = regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)`")

// TestSecurityClaimsAreTested holds that each claim of docs/security.md names a test, and that every test that is named exists.
func TestSecurityClaimsAreTested(t *testing.T) {
	claims, inTable := 0, false
	for line := range strings.Lines(string(read(t, "docs/security.md"))) {
		line = strings.TrimSpace(line)
		switch {
		case line == "| claim | tests |":
			inTable = true
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case inTable && !strings.HasPrefix(line, "| ---"):
			claims++
			named := testName.FindAllStringSubmatch(line, -1)
			if len(named) == 0 {
				t.Errorf("no test holds: %s", line)
			}
			for _, name := range named {
				if !declares(t, name[1], name[2]) {
					t.Errorf("package %s has no %s, which docs/security.md names", name[1], name[2])
				}
			}
		}
	}
	if claims < 20 {
		t.Errorf("found only %d claims", claims)
	}
}

// declares says whether a package has the test.
func declares(t *testing.T, folder, test string) bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		relative, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(read(t, relative)), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}
