package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPagesAreCurrent holds that the pages in docs are those of the schema and the examples, and that there are no others.
func TestPagesAreCurrent(t *testing.T) {
	made, err := pages(t.Context(), "../../examples")
	if err != nil {
		t.Fatal(err)
	}
	if len(made) < 13 {
		t.Fatalf("only %d pages were made", len(made))
	}
	for name, want := range made {
		if got, err := os.ReadFile(filepath.Join("../../docs", name)); err != nil || string(got) != want {
			t.Errorf("docs/%s is not current (%v): go run ./internal/docs", name, err)
		}
	}
	err = filepath.WalkDir("../../docs", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if relative := filepath.ToSlash(strings.TrimPrefix(name, "../../docs/")); made[relative] == "" {
			t.Errorf("docs/%s is of nothing that the schema has", relative)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEverythingIsDescribed holds that each attribute says what it is.
func TestEverythingIsDescribed(t *testing.T) {
	made, err := pages(t.Context(), "../../examples")
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range made {
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "- `") && strings.HasSuffix(strings.TrimSpace(line), ")") {
				t.Errorf("%s: no description in %q", name, line)
			}
		}
		if strings.HasPrefix(name, "resources/") && !strings.Contains(page, "## Example") {
			t.Errorf("%s has no example", name)
		}
	}
}
