package archive

import (
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// File is an entry of a source as it comes: good or hostile.
type File struct {
	// Path is the entry's path, with forward slashes.
	Path string
	// Mode says what the entry is, and whether it may be executed.
	Mode fs.FileMode
	// Size is how many bytes it declares to have.
	Size int64
	// Open opens the contents: of a symbolic link, its target.
	Open func() (io.ReadCloser, error)
}

// FromEntries returns the tree of a source's entries, or why it can have none. When everything lies in one folder and none of the
// entrypoint's files is found above that, the folder is taken away. Contents are opened when the tree is read.
func FromEntries(files iter.Seq2[File, error], limits Limits, entrypoints []string) (*Tree, error) {
	builder := newTreeBuilder(limits)
	for file, err := range files {
		if err != nil {
			return nil, err
		}
		if err := builder.addFile(file); err != nil {
			return nil, err
		}
	}
	tree := builder.tree()
	if !slices.ContainsFunc(entrypoints, tree.Has) {
		tree.unwrap()
	}
	if err := tree.checkLinks(); err != nil {
		return nil, err
	}
	return tree, nil
}

func (b *treeBuilder) addFile(file File) error {
	added := entry{path: file.Path, executable: file.Mode&0o111 != 0, size: file.Size, open: file.Open}
	switch {
	case file.Mode.IsDir():
		added.size = 0
		return b.add(added, true)
	case file.Mode&fs.ModeSymlink != 0:
		target, err := readTarget(file)
		if err != nil {
			return err
		}
		added.target, added.size, added.open = target, 0, nil
	case !file.Mode.IsRegular():
		return fault.Terminal(v1alpha1.ReasonSourceInvalid, "entry %s of the source is a %s; only files, folders and symbolic links are taken", quote(file.Path), kind(file.Mode))
	}
	return b.add(added, false)
}

// longestTarget is the longest target of a symbolic link, as in Linux.
const longestTarget = 4095

func readTarget(file File) (string, error) {
	contents, err := file.Open()
	if err != nil {
		return "", corrupt(file.Path, err)
	}
	defer contents.Close()
	target, err := io.ReadAll(io.LimitReader(contents, longestTarget+1))
	if err != nil {
		return "", corrupt(file.Path, err)
	}
	text := string(target)
	if text == "" || len(text) > longestTarget || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return "", fault.Terminal(v1alpha1.ReasonSourceInvalid, "symbolic link %s of the source has no usable target; make it again", quote(file.Path))
	}
	return text, nil
}

func kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	default:
		return "special file"
	}
}
