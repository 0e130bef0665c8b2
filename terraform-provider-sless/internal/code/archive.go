package code

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"strings"
	"time"
)

// FromArchive returns the files of a zip archive. Contents are read later.
func FromArchive(r io.ReaderAt, size int64) (*Tree, error) {
	if size == 0 {
		return nil, errors.New("it is empty")
	}
	if size > MaxArchive {
		return nil, fmt.Errorf("it is larger than %d MiB", MaxArchive>>20)
	}
	reader, err := zip.NewReader(r, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // checkName says which path
		return nil, errors.New("it is no zip archive, or not all of one")
	}
	tree := &Tree{}
	for _, entry := range reader.File {
		if strings.HasSuffix(entry.Name, "/") || entry.Mode().IsDir() || ignored(path.Clean(entry.Name)) {
			continue
		}
		if err := tree.addZipped(entry); err != nil {
			return nil, err
		}
	}
	return tree, tree.finish()
}

func (t *Tree) addZipped(entry *zip.File) error {
	const encrypted = 1
	added := file{path: strings.TrimPrefix(entry.Name, "./"), executable: entry.Mode()&0o111 != 0, open: entry.Open}
	switch mode := entry.Mode(); {
	case entry.Flags&encrypted != 0:
		return fmt.Errorf("%q is encrypted; make the archive without a password", entry.Name)
	case mode&fs.ModeSymlink != 0:
		target, err := readTarget(entry)
		if err != nil {
			return fmt.Errorf("read %q: %w", entry.Name, err)
		}
		added.target, added.executable = target, false
	case !mode.IsRegular():
		return fmt.Errorf("%q is neither a file, a folder nor a symbolic link", entry.Name)
	}
	return t.add(added, int64(min(entry.UncompressedSize64, math.MaxInt64)))
}

func readTarget(entry *zip.File) (string, error) {
	content, err := entry.Open()
	if err != nil {
		return "", err
	}
	defer content.Close()
	target, err := io.ReadAll(io.LimitReader(content, 4096))
	if err == nil && len(target) == 0 {
		err = errors.New("the symbolic link has no target")
	}
	return string(target), err
}

// epoch is the time of every file in an archive made here: the earliest that the format has.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Pack writes the files as a zip archive, the same bytes for the same files, and returns the [Tree.Hash] of what it wrote.
func (t *Tree) Pack(w io.Writer) (string, error) {
	archive := zip.NewWriter(&limited{w: w, left: MaxArchive})
	sum, err := t.each(func(f file, content io.Reader) error {
		header := &zip.FileHeader{Name: f.path, Method: zip.Deflate, Modified: epoch}
		switch {
		case f.target != "":
			header.SetMode(fs.ModeSymlink | 0o777)
		case f.executable:
			header.SetMode(0o755)
		default:
			header.SetMode(0o644)
		}
		entry, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		_, err = io.Copy(entry, content)
		return err
	})
	if err != nil {
		return "", err
	}
	return sum, archive.Close()
}

// limited is a Writer that ends with an error where an archive becomes too large.
type limited struct {
	w    io.Writer
	left int64
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, fmt.Errorf("the archive is larger than %d MiB; leave out what the function does not need", MaxArchive>>20)
	}
	return l.w.Write(p)
}
