package repotest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestGeneratedFilesAreCurrent holds that `make generate` would change nothing.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	out := t.TempDir()
	output(t, "make", "generate", "OUT="+out)
	made := 0
	err := filepath.WalkDir(out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		made++
		name, err := filepath.Rel(out, path)
		if err != nil {
			return err
		}
		want, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Equal(want, read(t, name)) {
			t.Errorf("%s is not what make generate makes of the sources", name)
		}
		return nil
	})
	if err != nil || made < 5 {
		t.Errorf("made %d files, %v", made, err)
	}
}
