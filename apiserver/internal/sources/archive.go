// Package sources keeps uploaded archives in the object store: each tenant's under its namespace's UID, by content hash.
package sources

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/problem"
)

const (
	chunkSize = 64 << 10
	// endSize is the most that the end-of-directory record of a zip archive and its comment take.
	endSize   = 22 + 65535
	endMarker = "PK\x05\x06"
)

// checker passes an archive on and checks it on the way. It holds the last chunk back until the whole has turned out good: whoever has
// read to the end has a good archive.
type checker struct {
	source io.Reader
	want   []byte // the SHA-256 that the caller gave; nil for none
	hash   hash.Hash
	size   int64
	tail   []byte    // the last endSize bytes
	next   []byte    // what may be passed on
	held   []byte    // what comes after it
	chunks [2][]byte // what next and held are in, in turn
	err    error     // what ended the source, set once held is the last chunk
}

func newChecker(source io.Reader, want []byte) *checker {
	return &checker{
		source: source, want: want, hash: sha256.New(), tail: make([]byte, 0, endSize+chunkSize),
		chunks: [2][]byte{make([]byte, chunkSize), make([]byte, chunkSize)},
	}
}

// Read implements io.Reader.
func (c *checker) Read(into []byte) (int, error) {
	for len(c.next) == 0 {
		if c.err != nil && c.held == nil {
			return 0, c.err
		}
		if err := c.advance(); err != nil {
			return 0, err
		}
	}
	n := copy(into, c.next)
	c.next = c.next[n:]
	return n, nil
}

// advance moves the held chunk forward and reads another; at the end it checks the whole first.
func (c *checker) advance() error {
	if c.err == nil {
		chunk := c.chunks[0]
		c.chunks[0], c.chunks[1] = c.chunks[1], chunk
		n, err := io.ReadFull(c.source, chunk)
		if errors.Is(err, io.ErrUnexpectedEOF) && n < chunkSize {
			// ReadFull's own word for a last chunk that is short; the source's own would come with n == 0 next time.
			if _, again := c.source.Read(chunk[n:]); again != nil {
				err = again
			}
		}
		c.take(chunk[:n])
		if err != nil {
			c.err = err
			if errors.Is(err, io.EOF) {
				c.err = c.verdict()
			}
			if !errors.Is(c.err, io.EOF) {
				c.next, c.held = nil, nil
				return c.err
			}
		}
		c.next, c.held = c.held, chunk[:n]
		return nil
	}
	c.next, c.held = c.held, nil
	return nil
}

func (c *checker) take(data []byte) {
	c.hash.Write(data)
	c.size += int64(len(data))
	c.tail = append(c.tail, data...)
	if excess := len(c.tail) - endSize; excess > 0 {
		c.tail = append(c.tail[:0], c.tail[excess:]...)
	}
}

// verdict says what is wrong with the whole: io.EOF when nothing is.
func (c *checker) verdict() error {
	if c.want != nil && !bytes.Equal(c.want, c.hash.Sum(nil)) {
		return problem.New(http.StatusBadRequest, rest.CodeDigestMismatch, "the body's SHA-256 is not that of Content-Digest")
	}
	if c.size == 0 {
		return notAnArchive("the body is empty")
	}
	entries, found := c.directory()
	switch {
	case !found:
		return notAnArchive("the body is no zip archive, or not all of one")
	case entries == 0:
		return notAnArchive("the zip archive has no files")
	}
	return io.EOF
}

func notAnArchive(detail string) error {
	return problem.New(http.StatusUnprocessableEntity, rest.CodeNotAnArchive, "%s", detail)
}

// directory finds the record at the end of a zip archive and returns how many entries it tells of. The record must fit: what it
// says of the directory's place and size must lead to where it stands.
func (c *checker) directory() (entries int, found bool) {
	for at := len(c.tail) - 22; at >= 0; at-- {
		record := c.tail[at:]
		if string(record[:4]) != endMarker || int(binary.LittleEndian.Uint16(record[20:]))+22 != len(record) {
			continue
		}
		count := int(binary.LittleEndian.Uint16(record[10:]))
		size, offset := binary.LittleEndian.Uint32(record[12:]), binary.LittleEndian.Uint32(record[16:])
		if offset == 1<<32-1 || count == 1<<16-1 {
			return count, true // zip64: the record before this one has the numbers
		}
		if int64(size)+int64(offset) <= c.size-int64(len(record)) {
			return count, true
		}
	}
	return 0, false
}

// sum is the SHA-256 in hex of what has been read.
func (c *checker) sum() string { return hex.EncodeToString(c.hash.Sum(nil)) }
