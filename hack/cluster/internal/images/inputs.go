package images

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Inputs is a hash over texts and the files of folders; where they lie does not matter, only what they are called and hold. What no build reads is
// left out: tests, caches, what git ignores by name.
func Inputs(root string, folders []string, texts ...string) (string, error) {
	sum := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(sum, "%d %s\n", len(text), text)
	}
	for _, folder := range folders {
		files, err := sourceFiles(filepath.Join(root, folder))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			info, err := os.Stat(file)
			if err != nil {
				return "", err
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			rel, err := filepath.Rel(root, file)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%s %d %o\n", rel, len(data), info.Mode().Perm()&0o111)
			sum.Write(data)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

var ignoredFolders = []string{"testdata", "tests", "test", "node_modules", "__pycache__", ".git"}

func sourceFiles(root string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && slices.Contains(ignoredFolders, entry.Name()):
			return filepath.SkipDir
		case entry.Type().IsRegular() && !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".pyc"):
			files = append(files, path)
		}
		return nil
	})
	return files, err
}
