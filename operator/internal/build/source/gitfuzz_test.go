package source

import (
	"bytes"
	"strings"
	"testing"
)

// Whatever a server sends, unpacking it ends with objects or an error, and no object is outside of the file.
func FuzzUnpack(f *testing.F) {
	pack := func(write func(*packer), count uint32) []byte {
		var b bytes.Buffer
		p := newPacker(&b, count)
		write(p)
		p.end()
		return b.Bytes()
	}
	code := []byte("handler")
	delta := deltaTo(7, 10, 0x90, 7, 3, 'a', 'b', 'c')
	f.Add(pack(func(p *packer) {
		at := p.bytesOf(aBlob, code)
		p.bytesOf(aTree, item("100644", "handler.py", oid("blob", code)))
		p.object(refDelta, int64(len(delta)), oid("blob", code), bytes.NewReader(delta))
		p.object(ofsDelta, int64(len(delta)), []byte{byte(p.bytes - at)}, bytes.NewReader(delta))
	}, 4))
	f.Add(pack(func(p *packer) { p.bytesOf(aCommit, commitOf(oid("tree", nil))) }, 1))
	f.Add([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := newObjects(dir, gitLimits{objects: 100, unpacked: 1 << 16})
		if err != nil {
			t.Fatal(err)
		}
		defer o.file.Close()
		err = o.unpack(t.Context(), bytes.NewReader(data))
		for i, object := range o.all {
			if err == nil && (object.offset < 0 || object.size < 0 || object.offset+object.size > o.end) {
				t.Fatalf("object %d is at %d+%d of %d", i, object.offset, object.size, o.end)
			}
			if object.kind != 2 {
				continue
			}
			for range o.entries(i) { // ends
			}
		}
		if o.end > 3<<16 {
			t.Fatalf("%d bytes on the disk", o.end)
		}
	})
}

func FuzzReadReferences(f *testing.F) {
	f.Add([]byte("001e# service=git-upload-pack\n00000045" + strings.Repeat("0a", 20) + " refs/heads/main\x00shallow0000"))
	f.Add([]byte("0000"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if kept, err := readReferences(bytes.NewReader(data), "main"); err == nil {
			kept.resolve("main")
			kept.ask(kept.heads, 1)
		}
	})
}
