package archive

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// longestTarget is the longest target of a symbolic link, as in Linux.
const longestTarget = 4095

// FromZip returns the tree of a zip archive. When everything in it lies in one folder and none of the entrypoint's files is found
// above that, the folder is taken away. Contents are read from r when the tree is.
func FromZip(r io.ReaderAt, size int64, limits Limits, entrypoints []string) (*Tree, error) {
	directory := &boundedDirectory{reader: r, most: limits.Files + scannedTwice}
	reader, err := zip.NewReader(directory, size)
	directory.done = true
	switch {
	case errors.Is(err, errTooManyEntries):
		return nil, fault.Terminal(v1alpha1.ReasonSourceTooLarge, "the source has more than %d files; leave out what the function does not need", limits.Files)
	case err != nil && !errors.Is(err, zip.ErrInsecurePath): // cleanName looks at the paths, and can say which
		return nil, fault.Terminal(v1alpha1.ReasonSourceInvalid, "the source is no zip archive (%v); upload a zip", err)
	}
	builder := newTreeBuilder(limits)
	for _, file := range reader.File {
		if err := addZipEntry(builder, file); err != nil {
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

func addZipEntry(builder *treeBuilder, file *zip.File) error {
	added := entry{path: file.Name, executable: file.Mode()&0o111 != 0, size: math.MaxInt64, open: file.Open}
	if file.UncompressedSize64 <= math.MaxInt64 {
		added.size = int64(file.UncompressedSize64)
	}
	const encrypted = 1
	switch mode := file.Mode(); {
	case mode.IsDir() || strings.HasSuffix(file.Name, "/"):
		added.size = 0
		return builder.add(added, true)
	case file.Flags&encrypted != 0:
		return fault.Terminal(v1alpha1.ReasonSourceInvalid, "entry %s of the archive is encrypted; make the archive without a password", quote(file.Name))
	case file.Method != zip.Store && file.Method != zip.Deflate:
		return fault.Terminal(v1alpha1.ReasonSourceInvalid, "entry %s of the archive is compressed with method %d; use deflate", quote(file.Name), file.Method)
	case mode&fs.ModeSymlink != 0:
		target, err := readTarget(file)
		if err != nil {
			return err
		}
		added.target, added.size, added.open = target, 0, nil
	case !mode.IsRegular():
		return fault.Terminal(v1alpha1.ReasonSourceInvalid, "entry %s of the archive is a %s; only files, folders and symbolic links are taken", quote(file.Name), kind(mode))
	}
	return builder.add(added, false)
}

func readTarget(file *zip.File) (string, error) {
	contents, err := file.Open()
	if err != nil {
		return "", corrupt(file.Name, err)
	}
	defer contents.Close()
	target, err := io.ReadAll(io.LimitReader(contents, longestTarget+1))
	if err != nil {
		return "", corrupt(file.Name, err)
	}
	text := string(target)
	if text == "" || len(text) > longestTarget || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return "", fault.Terminal(v1alpha1.ReasonSourceInvalid, "symbolic link %s of the archive has no usable target; make the archive again", quote(file.Name))
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

var errTooManyEntries = errors.New("too many entries")

// scannedTwice is how many entries at the end of an archive are read a second time in the search for its directory.
const scannedTwice = 2000

// boundedDirectory ends the reading of an archive's directory when it has too many entries: archive/zip keeps all of them in
// memory, and what an archive says of their number need not be true. It counts the mark that every entry begins with. One that two
// reads share is missed, which is harmless: the entries are counted exactly afterwards.
type boundedDirectory struct {
	reader io.ReaderAt
	most   int
	seen   int
	done   bool
}

func (b *boundedDirectory) ReadAt(p []byte, offset int64) (int, error) {
	n, err := b.reader.ReadAt(p, offset)
	if b.done {
		return n, err
	}
	b.seen += bytes.Count(p[:n], []byte("PK\x01\x02"))
	if b.seen > b.most {
		return 0, errTooManyEntries
	}
	return n, err
}
