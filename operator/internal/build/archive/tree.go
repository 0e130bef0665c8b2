// Package archive reads source archives safely and writes them as a tar that is the same for the same files, whatever they came in.
package archive

import (
	"archive/tar"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// Limits bound what an archive may hold.
type Limits struct {
	// Files is the greatest number of entries.
	Files int
	// Bytes is the greatest size of all files together, unpacked.
	Bytes int64
}

// Tree is the files of a source: regular files and symbolic links inside it, sorted by path. It holds names, not contents.
type Tree struct {
	entries []entry
}

type entry struct {
	path       string
	executable bool
	target     string // of a symbolic link; empty for a regular file
	size       int64
	open       func() (io.ReadCloser, error)
}

// FromFiles returns the tree of a few files in memory.
func FromFiles(files map[string]string, limits Limits) (*Tree, error) {
	builder := newTreeBuilder(limits)
	for name, text := range files {
		added := entry{path: name, size: int64(len(text)), open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(text)), nil
		}}
		if err := builder.add(added, false); err != nil {
			return nil, err
		}
	}
	return builder.tree(), nil
}

// Has says whether the tree has a file or link of that path.
func (t *Tree) Has(name string) bool { return t.find(name) != nil }

// Paths returns the path of every file and link, sorted.
func (t *Tree) Paths() []string {
	paths := make([]string, len(t.entries))
	for i, e := range t.entries {
		paths[i] = e.path
	}
	return paths
}

// HasUnder says whether the tree has anything in a folder.
func (t *Tree) HasUnder(folder string) bool {
	at, _ := slices.BinarySearchFunc(t.entries, folder+"/", func(e entry, prefix string) int { return strings.Compare(e.path, prefix) })
	return at < len(t.entries) && strings.HasPrefix(t.entries[at].path, folder+"/")
}

// ReadFile returns the contents of a regular file, which must not be larger than limit.
func (t *Tree) ReadFile(name string, limit int64) ([]byte, error) {
	found := t.find(name)
	switch {
	case found == nil:
		return nil, fault.Terminal(v1alpha1.ReasonSourceInvalid, "the source has no file %q", name)
	case found.target != "":
		return nil, fault.Terminal(v1alpha1.ReasonSourceInvalid, "%q is a symbolic link; put the file itself there", name)
	case found.size > limit:
		return nil, fault.Terminal(v1alpha1.ReasonSourceTooLarge, "%q has %d bytes; at most %d are read", name, found.size, limit)
	}
	contents, err := found.open()
	if err != nil {
		return nil, corrupt(name, err)
	}
	defer contents.Close()
	data, err := io.ReadAll(io.LimitReader(contents, limit+1))
	if err != nil || int64(len(data)) != found.size {
		return nil, corrupt(name, err)
	}
	return data, nil
}

// Only returns the tree of the named files alone.
func (t *Tree) Only(paths []string) *Tree {
	only := &Tree{}
	for _, e := range t.entries {
		if slices.Contains(paths, e.path) {
			only.entries = append(only.entries, e)
		}
	}
	return only
}

func (t *Tree) find(name string) *entry {
	at, found := slices.BinarySearchFunc(t.entries, name, func(e entry, name string) int { return strings.Compare(e.path, name) })
	if !found {
		return nil
	}
	return &t.entries[at]
}

// epoch is the time of every file: fixed, and late enough for a zip that the function may make of its own files in any time zone.
var epoch = time.Date(1980, time.January, 2, 0, 0, 0, 0, time.UTC)

// WriteTar writes the tree below a folder as a tar whose bytes depend on paths, contents and execute bits alone. Everything belongs
// to root, can be read by everybody and written by its owner only. A file that is larger than its archive declares is an error.
func (t *Tree) WriteTar(w io.Writer, folder string) error {
	tw := tar.NewWriter(w)
	made := map[string]bool{".": true}
	for _, e := range t.entries {
		name := path.Join(folder, e.path)
		if err := writeParents(tw, made, path.Dir(name)); err != nil {
			return err
		}
		if err := e.write(tw, name); err != nil {
			return err
		}
	}
	return tw.Close()
}

func writeParents(tw *tar.Writer, made map[string]bool, folder string) error {
	if made[folder] {
		return nil
	}
	if err := writeParents(tw, made, path.Dir(folder)); err != nil {
		return err
	}
	made[folder] = true
	return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755, ModTime: epoch})
}

func (e *entry) write(tw *tar.Writer, name string) error {
	header := &tar.Header{Name: name, Mode: 0o644, ModTime: epoch}
	if e.target != "" {
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, e.target, 0o777
		return tw.WriteHeader(header)
	}
	header.Typeflag, header.Size = tar.TypeReg, e.size
	if e.executable {
		header.Mode = 0o755
	}
	if err := tw.WriteHeader(header); err != nil {
		return fmt.Errorf("write %q: %w", name, err)
	}
	contents, err := e.open()
	if err != nil {
		return corrupt(e.path, err)
	}
	defer contents.Close()
	return e.copy(tw, contents)
}

func (e *entry) copy(w io.Writer, contents io.Reader) error {
	read := &readErrors{reader: contents}
	written, err := io.Copy(w, io.LimitReader(read, e.size))
	if err != nil && read.err == nil {
		return fmt.Errorf("write %q: %w", e.path, err)
	}
	if read.err == nil && written == e.size {
		// One more read: it finds a checksum that is wrong, and bytes past the size declared.
		var more [1]byte
		if n, _ := io.ReadFull(read, more[:]); n != 0 {
			return corrupt(e.path, fmt.Errorf("it has more than the %d bytes that it declares", e.size))
		}
	}
	if read.err != nil || written != e.size {
		return corrupt(e.path, read.err)
	}
	return nil
}

// readErrors remembers the error of its reader, so that a broken archive is told from a full disk.
type readErrors struct {
	reader io.Reader
	err    error
}

func (r *readErrors) Read(p []byte) (int, error) {
	n, err := r.reader.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

func corrupt(name string, cause error) error {
	if cause == nil {
		cause = io.ErrUnexpectedEOF
	}
	return fault.Terminal(v1alpha1.ReasonSourceInvalid, "entry %s of the source can't be read (%v); make the archive again", quote(name), cause)
}

// quote returns a name as it may appear in a message: escaped, and cut when it is long.
func quote(name string) string {
	const longest = 200
	if len(name) > longest {
		name = name[:longest] + "…"
	}
	return fmt.Sprintf("%q", name)
}
