package source

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/archive"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// Checkout is a folder of a repository at a commit.
type Checkout struct {
	// Commit is the commit's name.
	Commit string

	objects *objects
	tree    int // the folder's
}

// Close frees the disk.
func (c *Checkout) Close() error { return c.objects.file.Close() }

// enter finds the folder's tree from what was wanted.
func (c *Checkout) enter(wanted plumbing.Hash, repository Repository) error {
	commit, err := c.peel(wanted)
	if err != nil {
		return err
	}
	if commit < 0 && IsCommit(repository.Ref) {
		return fault.Terminal(v1alpha1.ReasonSourceNotFound, "the repository gives no commit %s: it is not there, or further than %d commits below the branches; push it, or name a branch or tag that it is at in source.git.ref", repository.Ref, fallbackDepth)
	}
	if commit < 0 {
		return errPack
	}
	c.Commit = c.objects.all[commit].hash.String()
	tree, err := c.objects.header(commit, "tree ")
	if err != nil {
		return err
	}
	if c.tree = c.objects.find(tree, plumbing.TreeObject); c.tree < 0 {
		return errPack
	}
	for part := range strings.SplitSeq(path.Clean(repository.Path), "/") {
		if part == "." {
			continue
		}
		if err := c.descend(part); err != nil {
			return err
		}
		if c.tree < 0 {
			return fault.Terminal(v1alpha1.ReasonSourceNotFound, "the repository has no folder %q at %s (commit %s); correct source.git.path", repository.Path, repository.Ref, c.Commit)
		}
	}
	return nil
}

// peel returns the commit that a name stands for, also through tags; -1 when the pack has none.
func (c *Checkout) peel(name plumbing.Hash) (int, error) {
	const mostTags = 10
	for range mostTags {
		if commit := c.objects.find(name, plumbing.CommitObject); commit >= 0 {
			return commit, nil
		}
		tag := c.objects.find(name, plumbing.TagObject)
		if tag < 0 {
			return -1, nil
		}
		var err error
		if name, err = c.objects.header(tag, "object "); err != nil {
			return -1, err
		}
	}
	return -1, nil
}

// descend goes into a folder of the tree; the tree is -1 then when there is none.
func (c *Checkout) descend(folder string) error {
	parent := c.tree
	c.tree = -1
	for entry, err := range c.objects.entries(parent) {
		if err != nil {
			return err
		}
		if entry.name == folder && entry.mode.IsDir() {
			c.tree = c.objects.find(entry.hash, plumbing.TreeObject)
			return nil
		}
	}
	return nil
}

// Files are the folder's files, with their folders. A tree can name itself many times over, so that it has no end: whoever reads it counts.
func (c *Checkout) Files() iter.Seq2[archive.File, error] {
	return func(yield func(archive.File, error) bool) { c.walk(c.tree, "", yield) }
}

func (c *Checkout) walk(tree int, folder string, yield func(archive.File, error) bool) bool {
	for entry, err := range c.objects.entries(tree) {
		if err != nil {
			return yield(archive.File{}, err)
		}
		name := path.Join(folder, entry.name)
		file, index, err := c.file(name, entry)
		if !yield(file, err) || err != nil {
			return false
		}
		if entry.mode.IsDir() && !c.walk(index, name, yield) {
			return false
		}
	}
	return true
}

func (c *Checkout) file(name string, entry treeEntry) (archive.File, int, error) {
	if entry.mode&fs.ModeIrregular != 0 {
		return archive.File{}, 0, fault.Terminal(v1alpha1.ReasonSourceInvalid, "%.200q is a submodule, which sless does not fetch; put its files into the repository, or name a folder without it in source.git.path", name)
	}
	kind := plumbing.BlobObject
	if entry.mode.IsDir() {
		kind = plumbing.TreeObject
	}
	index := c.objects.find(entry.hash, kind)
	if index < 0 {
		return archive.File{}, 0, errPack
	}
	size := c.objects.all[index].size
	open := func() (io.ReadCloser, error) { return io.NopCloser(c.objects.reader(index)), nil }
	if entry.mode.IsRegular() && size <= longestPointer {
		head := make([]byte, len(pointerMark))
		if _, err := c.objects.reader(index).ReadAt(head, 0); err == nil && string(head) == pointerMark {
			return archive.File{}, 0, fault.Terminal(v1alpha1.ReasonSourceInvalid, "%.200q is a pointer to a file in Git LFS, which sless does not fetch; put the file itself into the repository, or the code into an archive", name)
		}
	}
	return archive.File{Path: name, Mode: entry.mode, Size: size, Open: open}, index, nil
}

// A file that is kept in Git LFS is a short text in the tree that begins with the mark.
const (
	pointerMark    = "version https://git-lfs.github.com/spec/v1\n"
	longestPointer = 1024
)

// find returns the index of an object, or -1 when the pack has none of that name and kind.
func (o *objects) find(name plumbing.Hash, kind plumbing.ObjectType) int {
	if index, found := o.byHash[name]; found && o.all[index].kind == kind {
		return index
	}
	return -1
}

// header returns what the first line of a commit or tag names.
func (o *objects) header(at int, field string) (plumbing.Hash, error) {
	line := make([]byte, len(field)+2*len(plumbing.Hash{})+1)
	if _, err := o.reader(at).ReadAt(line, 0); err != nil && err != io.EOF {
		return plumbing.ZeroHash, err
	}
	name, found := bytes.CutPrefix(line[:len(line)-1], []byte(field))
	if !found || line[len(line)-1] != '\n' || !IsCommit(string(name)) {
		return plumbing.ZeroHash, errPack
	}
	return plumbing.NewHash(string(name)), nil
}

// treeEntry is one name in a tree. A submodule is ModeIrregular.
type treeEntry struct {
	name string
	mode fs.FileMode
	hash plumbing.Hash
}

var treeModes = map[string]fs.FileMode{
	"40000": fs.ModeDir | 0o755, "100644": 0o644, "100664": 0o644, "100755": 0o755, "120000": fs.ModeSymlink | 0o777, "160000": fs.ModeIrregular,
}

// entries are the names in a tree.
func (o *objects) entries(tree int) iter.Seq2[treeEntry, error] {
	return func(yield func(treeEntry, error) bool) {
		reader := bufio.NewReader(o.reader(tree))
		for {
			entry, err := readTreeEntry(reader)
			if err == io.EOF {
				return
			}
			if !yield(entry, err) || err != nil {
				return
			}
		}
	}
}

// readTreeEntry reads an entry: its mode in octal, a space, its name, a zero byte and its hash.
func readTreeEntry(reader *bufio.Reader) (treeEntry, error) {
	text, err := reader.ReadSlice(0)
	if err == io.EOF && len(text) == 0 {
		return treeEntry{}, io.EOF
	}
	if err != nil {
		return treeEntry{}, fmt.Errorf("%w: a tree ends early or has a name without an end", errPack)
	}
	mode, name, found := bytes.Cut(text[:len(text)-1], []byte(" "))
	entry := treeEntry{name: string(name)}
	known := false
	entry.mode, known = treeModes[string(mode)]
	if !found || !known || slices.Contains([]string{"", ".", ".."}, entry.name) || strings.Contains(entry.name, "/") {
		return treeEntry{}, fault.Terminal(v1alpha1.ReasonSourceInvalid, "the repository's tree has an entry %.200q of mode %.20q, which no tree may have; make the commit again", entry.name, mode)
	}
	if _, err := io.ReadFull(reader, entry.hash[:]); err != nil {
		return treeEntry{}, fmt.Errorf("%w: a tree ends early", errPack)
	}
	return entry, nil
}
