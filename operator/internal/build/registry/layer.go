package registry

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Layer is a compressed layer in a file: it is compressed once, and memory does not grow with it.
type Layer struct {
	file      *os.File
	size      int64
	digest    v1.Hash
	diffID    v1.Hash
	mediaType types.MediaType
}

// NewLayer compresses into file, which it takes over, the tar that write writes.
func NewLayer(file *os.File, write func(io.Writer) error) (*Layer, error) {
	layer := &Layer{file: file}
	if err := layer.fill(write); err != nil {
		file.Close()
		return nil, err
	}
	return layer, nil
}

func (l *Layer) fill(write func(io.Writer) error) error {
	compressed, plain := sha256.New(), sha256.New()
	counted := &counter{writer: io.MultiWriter(l.file, compressed)}
	zipper, err := gzip.NewWriterLevel(counted, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := write(io.MultiWriter(zipper, plain)); err != nil {
		return err
	}
	if err := zipper.Close(); err != nil {
		return err
	}
	l.size, l.digest, l.diffID = counted.size, sum(compressed), sum(plain)
	return nil
}

func sum(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

type counter struct {
	writer io.Writer
	size   int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.writer.Write(p)
	c.size += int64(n)
	return n, err
}

// Close frees the disk.
func (l *Layer) Close() error { return l.file.Close() }

// as returns the layer with the media type that belongs into a manifest of the given one.
func (l *Layer) as(manifest types.MediaType) *Layer {
	typed := *l
	typed.mediaType = types.OCILayer
	if manifest == types.DockerManifestSchema2 {
		typed.mediaType = types.DockerLayer
	}
	return &typed
}

// Digest implements v1.Layer.
func (l *Layer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID implements v1.Layer. It is the digest of the tar itself, which the compressor has no say in.
func (l *Layer) DiffID() (v1.Hash, error) { return l.diffID, nil }

// Compressed implements v1.Layer.
func (l *Layer) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(l.file, 0, l.size)), nil
}

// Uncompressed implements v1.Layer.
func (l *Layer) Uncompressed() (io.ReadCloser, error) {
	return gzip.NewReader(io.NewSectionReader(l.file, 0, l.size))
}

// Size implements v1.Layer.
func (l *Layer) Size() (int64, error) { return l.size, nil }

// MediaType implements v1.Layer.
func (l *Layer) MediaType() (types.MediaType, error) { return l.mediaType, nil }

// File returns the compressed layer, its size and its digest. It can be read until the layer is closed.
func (l *Layer) File() (*io.SectionReader, int64, v1.Hash) {
	return io.NewSectionReader(l.file, 0, l.size), l.size, l.digest
}
