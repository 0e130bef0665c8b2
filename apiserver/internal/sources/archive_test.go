package sources

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/problem"
)

// newZip returns an archive with one file of that many bytes that don't compress.
func newZip(t testing.TB, size int, comment string) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := zip.NewWriter(&out)
	file, err := writer.Create("handler.py")
	if err != nil {
		t.Fatal(err)
	}
	noise := rand.NewChaCha8([32]byte{1})
	if _, err := io.CopyN(file, noise, int64(size)); err != nil {
		t.Fatal(err)
	}
	if err := writer.SetComment(comment); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestCheckerPassesArchivesOn(t *testing.T) {
	for name, archive := range map[string][]byte{
		"small": newZip(t, 10, ""), "comment": newZip(t, 10, "PK\x05\x06 and more"), "one chunk less": newZip(t, chunkSize-200, ""),
		"many chunks": newZip(t, 5*chunkSize, ""), "around two chunks": newZip(t, 2*chunkSize-150, ""),
	} {
		t.Run(name, func(t *testing.T) {
			sum := sha256.Sum256(archive)
			for kind, source := range map[string]io.Reader{
				"whole": bytes.NewReader(archive), "byte by byte": iotest.OneByteReader(bytes.NewReader(archive)),
				"with its end": iotest.DataErrReader(bytes.NewReader(archive)),
			} {
				checker := newChecker(source, sum[:])
				got, err := io.ReadAll(checker)
				if err != nil || !bytes.Equal(got, archive) || checker.size != int64(len(archive)) {
					t.Errorf("%s: %d bytes of %d, error %v", kind, len(got), len(archive), err)
				}
			}
		})
	}
}

func TestCheckerHoldsTheEndOfBadBodiesBack(t *testing.T) {
	archive := newZip(t, 3*chunkSize, "")
	damaged := bytes.Clone(archive)
	damaged[100] ^= 1
	var empty bytes.Buffer
	if err := zip.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(archive)
	broken := errors.New("broken off")
	for name, test := range map[string]struct {
		source io.Reader
		want   []byte
		code   string
	}{
		"damaged":   {bytes.NewReader(damaged), sum[:], rest.CodeDigestMismatch},
		"truncated": {bytes.NewReader(archive[:len(archive)-1]), nil, rest.CodeNotAnArchive},
		"half":      {bytes.NewReader(archive[:len(archive)/2]), nil, rest.CodeNotAnArchive},
		"text":      {bytes.NewReader([]byte("hello, world, this is no archive at all")), nil, rest.CodeNotAnArchive},
		"nothing":   {bytes.NewReader(nil), nil, rest.CodeNotAnArchive},
		"no files":  {&empty, nil, rest.CodeNotAnArchive},
		"broken":    {io.MultiReader(bytes.NewReader(archive), iotest.ErrReader(broken)), nil, ""},
		"cut":       {io.MultiReader(bytes.NewReader(archive), iotest.ErrReader(io.ErrUnexpectedEOF)), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := io.ReadAll(newChecker(test.source, test.want))
			if err == nil || len(got) >= len(archive)-100 {
				t.Fatalf("%d bytes passed on, error %v", len(got), err)
			}
			found, ok := problem.From(err)
			if test.code == "" && ok || test.code != "" && found.Code != test.code {
				t.Errorf("got %v, want %s", err, test.code)
			}
		})
	}
}
