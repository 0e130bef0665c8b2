// Package code reads the code of a function from a folder or a zip archive: what is uploaded of it, and one hash that changes
// exactly when a function could notice.
package code

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What a function's code may be at most. The platform has limits of its own; these keep a mistake, such as a wrong folder, from being
// read to its end.
const (
	// MaxFiles is the number of files and links.
	MaxFiles = 20000
	// MaxBytes is the size of all files together.
	MaxBytes = 1 << 30
	// MaxArchive is the size of an archive.
	MaxArchive = 256 << 20
)

const (
	longestPath = 1024
	longestPart = 255
)

// Tree is the files of a function, in the order of their paths.
type Tree struct {
	files []file
	bytes int64
	seen  map[string]bool
}

// file is a regular file, or a symbolic link when it has a target.
type file struct {
	path       string // relative, with forward slashes
	executable bool
	target     string
	open       func() (io.ReadCloser, error)
}

// add takes a file in, or says which rule it breaks.
func (t *Tree) add(f file, size int64) error {
	if err := checkName(f.path); err != nil {
		return err
	}
	if t.seen == nil {
		t.seen = map[string]bool{}
	}
	if t.seen[f.path] {
		return fmt.Errorf("%q is in it twice", f.path)
	}
	t.seen[f.path] = true
	t.files = append(t.files, f)
	t.bytes += size
	switch {
	case len(t.files) > MaxFiles:
		return fmt.Errorf("it has more than %d files; leave out what the function does not need", MaxFiles)
	case t.bytes > MaxBytes || size < 0:
		return fmt.Errorf("its files are larger than %d MiB together, at %q; leave out what the function does not need", MaxBytes>>20, f.path)
	}
	return nil
}

// finish sorts the files and checks what can be checked of the whole only.
func (t *Tree) finish() error {
	if len(t.files) == 0 {
		return errors.New("it has no files")
	}
	slices.SortFunc(t.files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	links := map[string]string{}
	for _, f := range t.files {
		if f.target != "" {
			links[f.path] = f.target
		}
	}
	for _, f := range t.files {
		if f.target != "" && escapes(links, f.path) {
			return fmt.Errorf("the symbolic link %q leads to %q, out of the function's own folder; put a copy in its place", f.path, f.target)
		}
	}
	return nil
}

// Hash stands for names, executable bits and bytes of the files, and for nothing else.
func (t *Tree) Hash() (string, error) {
	return t.each(func(file, io.Reader) error { return nil })
}

// each reads every file once, offers it to visit on the way, and returns the hash of what was read.
func (t *Tree) each(visit func(file, io.Reader) error) (string, error) {
	sum := newTreeHash()
	for _, f := range t.files {
		content, err := f.open()
		if err != nil {
			return "", fmt.Errorf("read %q: %w", f.path, err)
		}
		err = sum.file(f, content, visit)
		content.Close()
		if err != nil {
			return "", fmt.Errorf("read %q: %w", f.path, err)
		}
	}
	return sum.String(), nil
}

// treeHash hashes one line for each file: what it is, its path, and the hash of its bytes.
type treeHash struct{ hash.Hash }

func newTreeHash() treeHash { return treeHash{sha256.New()} }

func (h treeHash) file(f file, content io.Reader, visit func(file, io.Reader) error) error {
	bytes := sha256.New()
	read := io.TeeReader(content, bytes)
	if err := visit(f, read); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, read); err != nil {
		return err
	}
	kind := "file"
	switch {
	case f.target != "":
		kind = "link"
	case f.executable:
		kind = "program"
	}
	fmt.Fprintf(h, "%s %q %x\n", kind, f.path, bytes.Sum(nil))
	return nil
}

// String returns the hash with the version of how it is made.
func (h treeHash) String() string { return "h1:" + hex.EncodeToString(h.Sum(nil)) }

// checkName refuses names that the platform refuses in an archive.
func checkName(name string) error {
	switch {
	case !utf8.ValidString(name):
		return fmt.Errorf("the name %q is not UTF-8", name)
	case strings.ContainsFunc(name, unicode.IsControl) || strings.Contains(name, `\`):
		return fmt.Errorf("the name %q has a control character or a backslash", name)
	case len(name) > longestPath:
		return fmt.Errorf("the path %q is longer than %d bytes", name, longestPath)
	case strings.HasPrefix(name, "/") || path.Clean(name) != name || name == "." || name == ".." || strings.HasPrefix(name, "../"):
		return fmt.Errorf("the path %q does not lie below the function's folder", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > longestPart {
			return fmt.Errorf("a part of the path %q is longer than %d bytes", name, longestPart)
		}
	}
	return nil
}

// escapes says whether following a link ever leaves the folder, or does not end. A target is taken one part at a time, as the system
// does: "a/.." is not "." when a is a link.
func escapes(links map[string]string, name string) bool {
	const mostLinks = 40
	at, rest := ".", strings.Split(name, "/")
	for followed := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		if part == ".." && at == "." {
			return true
		}
		at = path.Join(at, part)
		target, isLink := links[at]
		if !isLink || part == ".." || part == "." || part == "" {
			continue
		}
		if followed++; followed > mostLinks || path.IsAbs(target) {
			return true
		}
		at = path.Dir(at)
		rest = append(strings.Split(target, "/"), rest...)
	}
	return false
}
