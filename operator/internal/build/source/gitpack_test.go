package source

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/archive"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// Kinds of objects in a pack.
const (
	aCommit   = 1
	aTree     = 2
	aBlob     = 3
	aTag      = 4
	ofsDelta  = 6
	refDelta  = 7
	bombBytes = 1 << 40
)

// packer writes a pack, as Git would or as no Git would.
type packer struct {
	w     io.Writer
	sum   io.Writer
	bytes int64
	level int
}

func newPacker(w io.Writer, count uint32) *packer {
	sum := sha1.New()
	p := &packer{w: w, sum: sum, level: zlib.DefaultCompression}
	p.raw(append([]byte("PACK\x00\x00\x00\x02"), binary.BigEndian.AppendUint32(nil, count)...))
	return p
}

func (p *packer) Write(b []byte) (int, error) {
	p.bytes += int64(len(b))
	p.sum.Write(b) //nolint:errcheck // a hash takes everything
	return p.w.Write(b)
}

func (p *packer) raw(b []byte) { p.Write(b) } //nolint:errcheck // the reader may have gone

// object writes an object that says it has size bytes, and returns where it begins.
func (p *packer) object(kind byte, size int64, reference []byte, contents io.Reader) int64 {
	at := p.bytes
	first := kind<<4 | byte(size&15)
	rest := size >> 4
	header := []byte{first}
	for rest > 0 {
		header[len(header)-1] |= 0x80
		header = append(header, byte(rest&0x7f))
		rest >>= 7
	}
	p.raw(append(header, reference...))
	z, err := zlib.NewWriterLevel(p, p.level)
	if err != nil {
		panic(err)
	}
	io.Copy(z, contents) //nolint:errcheck // the reader may have gone
	z.Close()            //nolint:errcheck // likewise
	return at
}

func (p *packer) bytesOf(kind byte, contents []byte) int64 {
	return p.object(kind, int64(len(contents)), nil, bytes.NewReader(contents))
}

func (p *packer) end() { p.w.Write(p.sum.(interface{ Sum([]byte) []byte }).Sum(nil)) } //nolint:errcheck // the reader may have gone

func oid(kind string, contents []byte) []byte {
	sum := sha1.Sum(append([]byte(fmt.Sprintf("%s %d\x00", kind, len(contents))), contents...))
	return sum[:]
}

func item(mode, name string, id []byte) []byte {
	return append([]byte(mode+" "+name+"\x00"), id...)
}

func commitOf(tree []byte) []byte { return []byte("tree " + hex.EncodeToString(tree) + "\n\nx") }

// deltaTo is a delta of the given sizes.
func deltaTo(base, size uint64, commands ...byte) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, base), size), commands...)
}

// packServer serves one commit in a pack that write writes.
func packServer(t testing.TB, commit []byte, write func(io.Writer)) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := pktline.NewEncoder(w)
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			lines.EncodeString("# service=git-upload-pack\n", "", fmt.Sprintf("%x refs/heads/main\x00agent=x", commit), "") //nolint:errcheck // the client notices
			return
		}
		lines.EncodeString("NAK\n") //nolint:errcheck // the client notices
		write(w)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/code"
}

func TestHostilePacks(t *testing.T) {
	code := []byte("x")
	tree := item("100644", "handler.py", oid("blob", code))
	commit := commitOf(oid("tree", tree))
	// whole writes a pack with the commit, its tree and more.
	whole := func(more uint32, write func(*packer)) func(io.Writer) {
		return func(w io.Writer) {
			p := newPacker(w, 2+more)
			p.bytesOf(aCommit, commit)
			p.bytesOf(aTree, tree)
			write(p)
			p.end()
		}
	}
	selfish := bytes.Repeat([]byte{1}, 20)
	base := bytes.Repeat([]byte("0"), 1<<16)
	allOfIt := []byte{0x80} // copies 65536 bytes from 0
	for name, test := range map[string]struct {
		write    func(io.Writer)
		reason   string
		terminal bool
		says     string
	}{
		"good":          {write: whole(1, func(p *packer) { p.bytesOf(aBlob, code) })},
		"no pack":       {write: func(w io.Writer) { fmt.Fprint(w, "hello, I am no pack") }, reason: v1alpha1.ReasonSourceUnavailable, says: "broken pack"},
		"nothing":       {write: func(io.Writer) {}, reason: v1alpha1.ReasonSourceUnavailable},
		"cut off":       {write: func(w io.Writer) { newPacker(w, 3).bytesOf(aCommit, commit) }, reason: v1alpha1.ReasonSourceUnavailable},
		"corrupted":     {write: func(w io.Writer) { p := newPacker(w, 1); p.bytesOf(aCommit, commit); p.raw(make([]byte, 20)) }, reason: v1alpha1.ReasonSourceUnavailable, says: "checksum"},
		"many objects":  {write: func(w io.Writer) { newPacker(w, 1<<31) }, reason: v1alpha1.ReasonSourceTooLarge, terminal: true},
		"declared bomb": {write: whole(1, func(p *packer) { p.object(aBlob, bombBytes, nil, bytes.NewReader(code)) }), reason: v1alpha1.ReasonSourceTooLarge, terminal: true, says: "10485760 bytes unpacked"},
		"real bomb":     {write: whole(1, func(p *packer) { p.object(aBlob, 1, nil, io.LimitReader(zeros{}, 100<<20)) }), reason: v1alpha1.ReasonSourceUnavailable},
		"many bombs": {write: whole(20, func(p *packer) {
			for range 20 {
				p.object(aBlob, 1<<20, nil, io.LimitReader(zeros{}, 1<<20))
			}
		}), reason: v1alpha1.ReasonSourceTooLarge, terminal: true},
		"endless": {write: whole(1, func(p *packer) {
			p.level = zlib.NoCompression
			p.object(aBlob, 10<<20-1000, nil, zeros{})
		}), reason: v1alpha1.ReasonSourceTooLarge, terminal: true},
		"endless answer": {write: func(w io.Writer) {
			p := newPacker(w, 10000)
			p.level = zlib.NoCompression
			for range 10000 {
				p.object(aBlob, 1<<20, nil, io.LimitReader(zeros{}, 1<<20))
			}
		}, reason: v1alpha1.ReasonSourceTooLarge, terminal: true},
		"short object":     {write: whole(1, func(p *packer) { p.object(aBlob, 5, nil, bytes.NewReader(code)) }), reason: v1alpha1.ReasonSourceUnavailable},
		"without the blob": {write: whole(0, func(*packer) {}), reason: v1alpha1.ReasonSourceUnavailable},
		"another blob":     {write: whole(1, func(p *packer) { p.bytesOf(aBlob, []byte("y")) }), reason: v1alpha1.ReasonSourceUnavailable},
		"unknown kind":     {write: whole(1, func(p *packer) { p.bytesOf(5, code) }), reason: v1alpha1.ReasonSourceUnavailable},
		"delta of nothing": {write: whole(1, func(p *packer) {
			d := deltaTo(1, 1, 1, 'x')
			p.object(refDelta, int64(len(d)), selfish, bytes.NewReader(d))
		}), reason: v1alpha1.ReasonSourceUnavailable},
		"delta of itself": {write: whole(1, func(p *packer) {
			d := deltaTo(1, 1, 1, 'x')
			p.object(ofsDelta, int64(len(d)), []byte{0}, bytes.NewReader(d))
		}), reason: v1alpha1.ReasonSourceUnavailable},
		"delta past its base": {write: whole(2, func(p *packer) {
			p.bytesOf(aBlob, code)
			d := deltaTo(1, 2, 0x90, 2)
			p.object(refDelta, int64(len(d)), oid("blob", code), bytes.NewReader(d))
		}), reason: v1alpha1.ReasonSourceUnavailable},
		"delta of another size": {write: whole(2, func(p *packer) {
			p.bytesOf(aBlob, code)
			d := deltaTo(9, 1, 1, 'x')
			p.object(refDelta, int64(len(d)), oid("blob", code), bytes.NewReader(d))
		}), reason: v1alpha1.ReasonSourceUnavailable},
		"delta of more than it says": {write: whole(2, func(p *packer) {
			p.bytesOf(aBlob, code)
			d := deltaTo(1, 1, 2, 'x', 'y')
			p.object(refDelta, int64(len(d)), oid("blob", code), bytes.NewReader(d))
		}), reason: v1alpha1.ReasonSourceUnavailable},
		"delta of less than it says": {write: whole(2, func(p *packer) {
			p.bytesOf(aBlob, code)
			d := deltaTo(1, 9, 1, 'x')
			p.object(refDelta, int64(len(d)), oid("blob", code), bytes.NewReader(d))
		}), reason: v1alpha1.ReasonSourceUnavailable},
		"reserved command": {write: whole(2, func(p *packer) {
			p.bytesOf(aBlob, code)
			d := deltaTo(1, 1, 0)
			p.object(refDelta, int64(len(d)), oid("blob", code), bytes.NewReader(d))
		}), reason: v1alpha1.ReasonSourceUnavailable},
		"delta bomb": {write: whole(2, func(p *packer) {
			p.bytesOf(aBlob, base)
			d := deltaTo(1<<16, 1<<40, bytes.Repeat(allOfIt, 1<<16)...)
			p.object(refDelta, int64(len(d)), oid("blob", base), bytes.NewReader(d))
		}), reason: v1alpha1.ReasonSourceTooLarge, terminal: true},
		"many delta bombs": {write: whole(101, func(p *packer) {
			p.bytesOf(aBlob, base)
			for i := range 100 {
				d := deltaTo(1<<16, 16<<16+1, append(bytes.Repeat(allOfIt, 16), 1, byte(i))...)
				p.object(refDelta, int64(len(d)), oid("blob", base), bytes.NewReader(d))
			}
		}), reason: v1alpha1.ReasonSourceTooLarge, terminal: true},
	} {
		t.Run(name, func(t *testing.T) {
			repository := Repository{URL: packServer(t, oid("commit", commit), test.write), Ref: "main"}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			checkout, err := testGit(t, loopback).Fetch(ctx, repository)
			if err == nil {
				defer checkout.Close()
				_, err = archive.FromEntries(checkout.Files(), treeLimits, nil)
			}
			if test.reason != "" { // a tree that lacks its blob is found out when it is read
				err = fault.As(err, v1alpha1.ReasonSourceUnavailable)
			}
			checkFault(t, err, test.reason, test.terminal, test.says)
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Deltas may come before their bases, in chains as long as the pack.
func TestChainOfDeltas(t *testing.T) {
	const length = 5000
	last, previous := []byte("0\n"), []byte("0\n")
	var deltas, bases [][]byte
	for i := range length {
		last = []byte(fmt.Sprintf("%d\n", i+1))
		deltas = append(deltas, deltaTo(uint64(len(previous)), uint64(len(last)), append([]byte{byte(len(last))}, last...)...))
		bases = append(bases, oid("blob", previous))
		previous = last
	}
	tree := item("100644", "handler.py", oid("blob", last))
	commit := commitOf(oid("tree", tree))
	address := packServer(t, oid("commit", commit), func(w io.Writer) {
		p := newPacker(w, length+3)
		for i := range length {
			d := deltas[length-1-i]
			p.object(refDelta, int64(len(d)), bases[length-1-i], bytes.NewReader(d))
		}
		p.bytesOf(aBlob, []byte("0\n"))
		p.bytesOf(aTree, tree)
		p.bytesOf(aCommit, commit)
		p.end()
	})
	tar, _, _, err := testGit(t, loopback).read(t, Repository{URL: address, Ref: "main"}, treeLimits)
	if err != nil || !bytes.Contains(tar, last) {
		t.Errorf("got %v", err)
	}
}

// Trees can say more than they hold: a few objects that name each other stand for any number of files.
func TestHostileTrees(t *testing.T) {
	code := oid("blob", []byte("x"))
	pointless := item("100644", "handler.py", code)
	for name, test := range map[string]struct {
		trees  [][]byte // the last one is the root
		reason string
		says   string
	}{
		"bomb": {trees: func() (all [][]byte) {
			tree := pointless
			for range 10 {
				all = append(all, tree)
				id := oid("tree", tree)
				tree = nil
				for i := range 10 {
					tree = append(tree, item("40000", fmt.Sprint("d", i), id)...)
				}
			}
			return append(all, tree)
		}(), reason: v1alpha1.ReasonSourceTooLarge, says: "1000 files"},
		"bomb of folders": {trees: func() (all [][]byte) {
			tree := []byte{}
			for range 10 {
				all = append(all, tree)
				id := oid("tree", tree)
				tree = nil
				for i := range 10 {
					tree = append(tree, item("40000", fmt.Sprint("d", i), id)...)
				}
			}
			return append(all, tree)
		}(), reason: v1alpha1.ReasonSourceTooLarge, says: "1000 files"},
		"depth": {trees: func() (all [][]byte) {
			tree := pointless
			for range 600 {
				all = append(all, tree)
				tree = item("40000", "d", oid("tree", tree))
			}
			return append(all, tree)
		}(), reason: v1alpha1.ReasonSourceInvalid, says: "1024 bytes"},
		"parent":         {trees: [][]byte{item("100644", "..", code)}, reason: v1alpha1.ReasonSourceInvalid, says: `".."`},
		"slash":          {trees: [][]byte{item("100644", "../../evil.py", code)}, reason: v1alpha1.ReasonSourceInvalid, says: "evil.py"},
		"nameless":       {trees: [][]byte{item("100644", "", code)}, reason: v1alpha1.ReasonSourceInvalid},
		"backslash":      {trees: [][]byte{item("100644", `..\evil.py`, code)}, reason: v1alpha1.ReasonSourceInvalid, says: "backslash"},
		"control":        {trees: [][]byte{item("100644", "a\nb", code)}, reason: v1alpha1.ReasonSourceInvalid, says: "control"},
		"twice":          {trees: [][]byte{append(item("100644", "a", code), item("100755", "a", code)...)}, reason: v1alpha1.ReasonSourceInvalid, says: "twice"},
		"device":         {trees: [][]byte{item("60000", "a", code)}, reason: v1alpha1.ReasonSourceInvalid, says: "60000"},
		"setuid":         {trees: [][]byte{item("104755", "a", code)}, reason: v1alpha1.ReasonSourceInvalid, says: "104755"},
		"file as folder": {trees: [][]byte{item("40000", "a", code)}, reason: v1alpha1.ReasonSourceUnavailable},
		"folder as file": {trees: [][]byte{pointless, item("100644", "a", oid("tree", pointless))}, reason: v1alpha1.ReasonSourceUnavailable},
		"cut off":        {trees: [][]byte{pointless[:len(pointless)-3]}, reason: v1alpha1.ReasonSourceUnavailable},
		"endless name":   {trees: [][]byte{[]byte("100644 " + strings.Repeat("a", 100000))}, reason: v1alpha1.ReasonSourceUnavailable},
		"metadata":       {trees: [][]byte{pointless, append(item("40000", ".git", oid("tree", pointless)), pointless...)}},
	} {
		t.Run(name, func(t *testing.T) {
			commit := commitOf(oid("tree", test.trees[len(test.trees)-1]))
			address := packServer(t, oid("commit", commit), func(w io.Writer) {
				p := newPacker(w, uint32(len(test.trees)+2))
				p.bytesOf(aCommit, commit)
				p.bytesOf(aBlob, []byte("x"))
				for _, tree := range test.trees {
					p.bytesOf(aTree, tree)
				}
				p.end()
			})
			_, paths, _, err := testGit(t, loopback).read(t, Repository{URL: address, Ref: "main"}, treeLimits)
			if err != nil {
				err = fault.As(err, v1alpha1.ReasonSourceUnavailable)
			}
			checkFault(t, err, test.reason, test.reason != v1alpha1.ReasonSourceUnavailable, test.says)
			if err == nil && len(paths) != 1 {
				t.Errorf("got %q", paths)
			}
		})
	}
}

// Tags that name each other in a circle have no hash, but a long chain of them does.
func TestChainOfTags(t *testing.T) {
	commit := commitOf(oid("tree", nil))
	var tags [][]byte
	id, kind := oid("commit", commit), "commit"
	for range 1000 {
		tag := []byte("object " + hex.EncodeToString(id) + "\ntype " + kind + "\n")
		tags = append(tags, tag)
		id, kind = oid("tag", tag), "tag"
	}
	address := packServer(t, id, func(w io.Writer) {
		p := newPacker(w, uint32(len(tags)+2))
		p.bytesOf(aCommit, commit)
		p.bytesOf(aTree, nil)
		for _, tag := range tags {
			p.bytesOf(aTag, tag)
		}
		p.end()
	})
	_, err := testGit(t, loopback).Fetch(t.Context(), Repository{URL: address, Ref: "main"})
	checkFault(t, err, v1alpha1.ReasonSourceUnavailable, false, "broken pack")
}

func TestReferencesAreNotKept(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		lines := pktline.NewEncoder(w)
		for i := 0; r.Context().Err() == nil; i++ {
			if err := lines.Encodef("%040x refs/heads/%d\n", i, i); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	_, err := testGit(t, loopback).Fetch(t.Context(), Repository{URL: server.URL + "/code", Ref: "main"})
	checkFault(t, err, v1alpha1.ReasonSourceTooLarge, true, "10485760 bytes packed")
}

// Two files of 100 MB, one a difference to the other, are in memory never more than a few at a time.
func TestMemoryDoesNotGrowWithARepository(t *testing.T) {
	const size = 100 << 20
	contents := func() io.Reader { return io.LimitReader(noise{rand.NewPCG(1, 2)}, size) }
	hashOf := func(more string) []byte {
		h := sha1.New()
		fmt.Fprintf(h, "blob %d\x00", size+len(more))
		io.Copy(h, contents())  //nolint:errcheck // a hash takes everything
		io.WriteString(h, more) //nolint:errcheck // likewise
		return h.Sum(nil)
	}
	first, second := hashOf(""), hashOf("!")
	delta := deltaTo(size, size+1)
	for at := 0; at < size; at += 1 << 20 {
		delta = append(delta, 0xcf, byte(at), byte(at>>8), byte(at>>16), byte(at>>24), 0x10) // 1 MiB
	}
	delta = append(delta, 1, '!')
	tree := append(append(item("100644", "a", first), item("100644", "b", second)...), item("100644", "handler.py", oid("blob", nil))...)
	commit := commitOf(oid("tree", tree))
	address := packServer(t, oid("commit", commit), func(w io.Writer) {
		p := newPacker(w, 5)
		p.level = zlib.NoCompression
		p.bytesOf(aCommit, commit)
		p.bytesOf(aTree, tree)
		p.bytesOf(aBlob, nil)
		p.object(aBlob, size, nil, contents())
		p.object(refDelta, int64(len(delta)), first, bytes.NewReader(delta))
		p.end()
	})
	fetcher := newGit(newTestGuard(t, loopback), t.TempDir(), gitLimits{network: 256 << 20, objects: 1000, unpacked: 1 << 30})
	peak := watchHeap(t)
	checkout, err := fetcher.Fetch(t.Context(), Repository{URL: address, Ref: "main"})
	if err != nil {
		t.Fatal(err)
	}
	defer checkout.Close()
	read, err := archive.FromEntries(checkout.Files(), archive.Limits{Files: 10, Bytes: 1 << 30}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := read.WriteTar(io.Discard, ""); err != nil {
		t.Fatal(err)
	}
	if grown := peak(); grown > 24<<20 {
		t.Errorf("the heap grew by %d MiB for 200 MiB of code", grown>>20)
	} else {
		t.Logf("the heap grew by %d MiB for 200 MiB of code", grown>>20)
	}
}

// noise is bytes that do not compress.
type noise struct{ *rand.PCG }

func (n noise) Read(p []byte) (int, error) {
	for i := 0; i+8 <= len(p); i += 8 {
		binary.LittleEndian.PutUint64(p[i:], n.Uint64())
	}
	return len(p) &^ 7, nil
}

// watchHeap returns a function that says by how much the heap grew at most until then.
func watchHeap(t *testing.T) func() uint64 {
	t.Helper()
	inUse := func() uint64 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapInuse
	}
	runtime.GC()
	before := inUse()
	var peak atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			peak.Store(max(peak.Load(), inUse()))
			select {
			case <-tick.C:
			case <-stop:
				tick.Stop()
				return
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-stopped
		return peak.Load() - min(before, peak.Load())
	}
}
