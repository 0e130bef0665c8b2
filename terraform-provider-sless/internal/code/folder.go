package code

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// FromFolder returns the files of a folder but those that the platform never takes (version control, caches, .env), states of Terraform, and
// those that excludes names; see [NewExcludes]. Contents are read later.
func FromFolder(folder string, excludes *Excludes) (*Tree, error) {
	root, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, reason(err)
	}
	if info, err := os.Stat(root); err != nil {
		return nil, reason(err)
	} else if !info.IsDir() {
		return nil, errors.New("it is no folder")
	}
	tree := &Tree{}
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == root {
			return reason(err)
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(relative)
		if ignored(slashed) || private(slashed) || excludes.match(slashed, entry.IsDir()) {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if entry.IsDir() {
			return nil
		}
		return tree.addEntry(name, slashed, entry)
	})
	if err != nil {
		return nil, err
	}
	return tree, tree.finish()
}

func (t *Tree) addEntry(name, slashed string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return reason(err)
	}
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(name)
		if err != nil {
			return reason(err)
		}
		target = filepath.ToSlash(target)
		return t.add(file{path: slashed, target: target, open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(target)), nil
		}}, 0)
	case !mode.IsRegular():
		return fmt.Errorf("%q is neither a file, a folder nor a symbolic link; leave it out with excludes", slashed)
	default:
		return t.add(file{path: slashed, executable: mode&0o111 != 0, open: func() (io.ReadCloser, error) {
			opened, err := os.Open(name)
			return opened, reason(err)
		}}, info.Size())
	}
}

// reason shortens what went wrong with a path that the message names anyway.
func reason(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("it does not exist")
	case errors.Is(err, fs.ErrPermission):
		if failed, ok := errors.AsType[*fs.PathError](err); ok {
			return fmt.Errorf("%s may not be read: permission denied", failed.Path)
		}
	}
	return err
}
