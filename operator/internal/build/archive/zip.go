package archive

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"iter"
	"math"
	"strings"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// FromZip returns the tree of a zip archive; see FromEntries. Contents are read from r when the tree is.
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
	return FromEntries(zipFiles(reader), limits, entrypoints)
}

// zipFiles are the entries of an archive, up to the first that can't be one of a source.
func zipFiles(reader *zip.Reader) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for _, entry := range reader.File {
			file, err := zipFile(entry)
			if !yield(file, err) || err != nil {
				return
			}
		}
	}
}

func zipFile(entry *zip.File) (File, error) {
	file := File{Path: entry.Name, Mode: entry.Mode(), Size: math.MaxInt64, Open: entry.Open}
	if entry.UncompressedSize64 <= math.MaxInt64 {
		file.Size = int64(entry.UncompressedSize64)
	}
	const encrypted = 1
	switch {
	case file.Mode.IsDir() || strings.HasSuffix(entry.Name, "/"):
		file.Mode |= fs.ModeDir
	case entry.Flags&encrypted != 0:
		return file, fault.Terminal(v1alpha1.ReasonSourceInvalid, "entry %s of the archive is encrypted; make the archive without a password", quote(entry.Name))
	case entry.Method != zip.Store && entry.Method != zip.Deflate:
		return file, fault.Terminal(v1alpha1.ReasonSourceInvalid, "entry %s of the archive is compressed with method %d; use deflate", quote(entry.Name), entry.Method)
	}
	return file, nil
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
