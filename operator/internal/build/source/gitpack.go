package source

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// objects are the unpacked objects of a pack, one after the other in a file. In memory is where each is.
type objects struct {
	file   *os.File
	end    int64 // of what is written
	limits gitLimits
	buffer *bufio.Writer

	all      []object
	byHash   map[plumbing.Hash]int
	byOffset map[int64]int // in the pack
	// Deltas whose base is not there yet, by it.
	waiting       map[int][]int
	waitingByHash map[plumbing.Hash][]int
}

// object is an object of a pack, or, until its base is there, the delta that makes it.
type object struct {
	kind         plumbing.ObjectType
	offset, size int64
	hash         plumbing.Hash
}

var errPack = errors.New("the server sent a broken pack")

func newObjects(dir string, limits gitLimits) (*objects, error) {
	file, err := Spool(dir)
	if err != nil {
		return nil, err
	}
	return &objects{
		file: file, limits: limits, buffer: bufio.NewWriterSize(nil, 64<<10),
		byHash: map[plumbing.Hash]int{}, byOffset: map[int64]int{},
		waiting: map[int][]int{}, waitingByHash: map[plumbing.Hash][]int{},
	}, nil
}

// unpack reads a whole pack. It is never in memory, and no object is.
func (o *objects) unpack(ctx context.Context, pack io.Reader) error {
	scanner := packfile.NewScanner(pack)
	_, count, err := scanner.Header()
	if err != nil {
		return broken(err)
	}
	if int64(count) > int64(o.limits.objects) {
		return errTooLarge
	}
	for range count {
		if err := o.next(ctx, scanner); err != nil {
			return err
		}
	}
	if _, err := scanner.Checksum(); err != nil {
		return broken(err)
	}
	return nil
}

// broken says that an error of the library is the server's fault, unless it came through from the connection or the disk.
func broken(err error) error {
	var onDisk *os.PathError
	switch {
	case errors.Is(err, errTooLarge), errors.As(err, &onDisk), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("%w: %w", errPack, err)
}

func (o *objects) next(ctx context.Context, scanner *packfile.Scanner) error {
	header, err := scanner.NextObjectHeader()
	if err != nil {
		return broken(err)
	}
	if header.Length < 0 || header.Length > o.limits.unpacked-o.end {
		return errTooLarge
	}
	inflate := func(w io.Writer) error {
		n, _, err := scanner.NextObject(w)
		if err == nil && n != header.Length {
			err = errPack
		}
		return err
	}
	index := len(o.all)
	o.byOffset[header.Offset] = index
	switch header.Type {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
		o.all = append(o.all, object{kind: header.Type})
		return o.complete(ctx, index, header.Length, inflate)
	case plumbing.OFSDeltaObject, plumbing.REFDeltaObject:
		offset, size, err := o.write(inflate)
		if err != nil {
			return err
		}
		o.all = append(o.all, object{kind: header.Type, offset: offset, size: size})
		return o.delta(ctx, index, header)
	}
	return errPack
}

// delta makes the object at once when its base is there, and has it wait otherwise.
func (o *objects) delta(ctx context.Context, index int, header *packfile.ObjectHeader) error {
	var base int
	var found bool
	if header.Type == plumbing.OFSDeltaObject {
		if base, found = o.byOffset[header.OffsetReference]; !found || base == index {
			return errPack
		}
	} else if base, found = o.byHash[header.Reference]; !found {
		o.waitingByHash[header.Reference] = append(o.waitingByHash[header.Reference], index)
		return nil
	}
	if o.all[base].kind.IsDelta() {
		o.waiting[base] = append(o.waiting[base], index)
		return nil
	}
	return o.patch(ctx, base, index)
}

// complete writes a whole object, and makes what waited for it.
func (o *objects) complete(ctx context.Context, index int, size int64, contents func(io.Writer) error) error {
	if err := o.finish(index, size, contents); err != nil {
		return err
	}
	return o.wake(ctx, index)
}

func (o *objects) patch(ctx context.Context, base, index int) error {
	if err := o.apply(ctx, base, index); err != nil {
		return err
	}
	return o.wake(ctx, index)
}

// wake makes the objects that wait for one, and those that wait for them: a chain may be as long as the pack, so it is no recursion.
func (o *objects) wake(ctx context.Context, index int) error {
	ready := []int{index}
	for len(ready) > 0 {
		base := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		hash := o.all[base].hash
		waiting := append(o.waiting[base], o.waitingByHash[hash]...)
		delete(o.waiting, base)
		delete(o.waitingByHash, hash)
		for _, next := range waiting {
			if err := o.apply(ctx, base, next); err != nil {
				return err
			}
		}
		ready = append(ready, waiting...)
	}
	return nil
}

// finish writes an object's contents and takes its hash.
func (o *objects) finish(index int, size int64, contents func(io.Writer) error) error {
	hasher := plumbing.NewHasher(o.all[index].kind, size)
	offset, written, err := o.write(func(w io.Writer) error { return contents(io.MultiWriter(w, hasher)) })
	if err != nil {
		return err
	}
	if written != size {
		return errPack
	}
	whole := &o.all[index]
	whole.offset, whole.size, whole.hash = offset, size, hasher.Sum()
	o.byHash[whole.hash] = index
	return nil
}

// write appends to the file.
func (o *objects) write(contents func(io.Writer) error) (offset, size int64, err error) {
	offset = o.end
	at := io.NewOffsetWriter(o.file, offset)
	o.buffer.Reset(at)
	if err := contents(o.buffer); err != nil {
		return 0, 0, broken(err)
	}
	if err := o.buffer.Flush(); err != nil {
		return 0, 0, err
	}
	size, err = at.Seek(0, io.SeekCurrent)
	o.end += size
	return offset, size, err
}

func (o *objects) reader(at int) *io.SectionReader {
	return io.NewSectionReader(o.file, o.all[at].offset, o.all[at].size)
}

// apply makes the object that a delta describes.
func (o *objects) apply(ctx context.Context, base, index int) error {
	delta := bufio.NewReader(o.reader(index))
	baseSize, err := binary.ReadUvarint(delta)
	if err != nil || int64(baseSize) != o.all[base].size {
		return errPack
	}
	size, err := binary.ReadUvarint(delta)
	if err != nil {
		return errPack
	}
	if size > uint64(o.limits.unpacked-o.end) {
		return errTooLarge
	}
	o.all[index].kind = o.all[base].kind
	from, err := o.randomly(base)
	if err != nil {
		return err
	}
	return o.finish(index, int64(size), func(w io.Writer) error {
		return patch(ctx, w, from, o.all[base].size, delta, int64(size))
	})
}

// inMemory is the size up to which a delta's base is read as a whole.
const inMemory = 64 << 10

// randomly returns an object to be read here and there.
func (o *objects) randomly(at int) (io.ReaderAt, error) {
	if o.all[at].size > inMemory {
		return o.reader(at), nil
	}
	data, err := io.ReadAll(o.reader(at))
	return bytes.NewReader(data), err
}

// patch writes what a delta makes of a base: pieces of the base, and new bytes.
func patch(ctx context.Context, w io.Writer, base io.ReaderAt, baseSize int64, delta *bufio.Reader, size int64) error {
	for step := 0; ; step++ {
		if step%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		command, err := delta.ReadByte()
		if err == io.EOF && size == 0 {
			return nil
		}
		if err != nil || command == 0 {
			return errPack
		}
		var piece io.Reader = delta
		length := int64(command)
		if command&0x80 != 0 {
			var offset int64
			if offset, length, err = copyCommand(command, delta); err != nil || offset+length > baseSize {
				return errPack
			}
			piece = io.NewSectionReader(base, offset, length)
		}
		if size -= length; size < 0 {
			return errPack
		}
		if _, err := io.CopyN(w, piece, length); err != nil {
			return err
		}
	}
}

// copyCommand reads where in the base a piece is: the bits of the command say which bytes of offset and length follow.
func copyCommand(command byte, delta io.ByteReader) (offset, length int64, err error) {
	for bit := range 7 {
		if command&(1<<bit) == 0 {
			continue
		}
		b, err := delta.ReadByte()
		if err != nil {
			return 0, 0, err
		}
		if bit < 4 {
			offset |= int64(b) << (8 * bit)
		} else {
			length |= int64(b) << (8 * (bit - 4))
		}
	}
	if length == 0 {
		length = 0x10000
	}
	return offset, length, nil
}
