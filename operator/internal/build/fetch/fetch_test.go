package fetch

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var modified = time.Date(1980, time.January, 2, 0, 0, 0, 0, time.UTC)

func parcel(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	buffer := &bytes.Buffer{}
	zipper := gzip.NewWriter(buffer)
	writer := tar.NewWriter(zipper)
	for _, header := range headers {
		if header.Typeflag == tar.TypeReg {
			header.Size = int64(len(header.Name))
		}
		header.ModTime = modified
		if err := writer.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := writer.Write([]byte(header.Name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipper.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

var good = []tar.Header{
	{Typeflag: tar.TypeDir, Name: "code/", Mode: 0o755},
	{Typeflag: tar.TypeReg, Name: "code/handler.py", Mode: 0o644},
	{Typeflag: tar.TypeReg, Name: "code/tool", Mode: 0o755},
	{Typeflag: tar.TypeSymlink, Name: "code/link", Linkname: "tool", Mode: 0o777},
}

// serve serves the contents at an address with a signature, and writes that into a file.
func serve(t *testing.T, answers ...func(http.ResponseWriter)) (addressFile string) {
	t.Helper()
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[min(n, len(answers)-1)]
		n++
		answer(w)
	}))
	t.Cleanup(server.Close)
	addressFile = filepath.Join(t.TempDir(), "address")
	if err := os.WriteFile(addressFile, []byte(server.URL+"/o?X-Amz-Signature=secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return addressFile
}

func answer(content []byte) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.Write(content) } //nolint:errcheck // the client notices
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func TestFetch(t *testing.T) {
	content, folder := parcel(t, good...), t.TempDir()
	// What an earlier attempt left is in the way of none.
	if err := os.MkdirAll(filepath.Join(folder, "code", "handler.py"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := fetch(serve(t, answer(content)), digest(content), folder, ""); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"code": fs.ModeDir | 0o755, "code/handler.py": 0o644, "code/tool": 0o755, "code/link": fs.ModeSymlink | 0o777} {
		info, err := os.Lstat(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %s, want %s", name, info.Mode(), want)
		}
		if info.Mode().IsRegular() && !info.ModTime().Equal(modified) {
			t.Errorf("%s is of %s", name, info.ModTime())
		}
	}
	if text, err := os.ReadFile(filepath.Join(folder, "code", "link")); err != nil || string(text) != "code/tool" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestFetchTriesAgain(t *testing.T) {
	content := parcel(t, good...)
	cut := answer(content[:len(content)/2])
	var messages bytes.Buffer
	if code := Run([]string{serve(t, cut, answer(content)), digest(content), t.TempDir()}, &messages); code != 0 {
		t.Errorf("exit code %d: %s", code, messages.String())
	}
}

func TestFetchRefuses(t *testing.T) {
	content := parcel(t, good...)
	outside := parcel(t, tar.Header{Typeflag: tar.TypeReg, Name: "../evil", Mode: 0o644})
	through := parcel(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "out", Linkname: "/tmp"}, tar.Header{Typeflag: tar.TypeReg, Name: "out/evil", Mode: 0o644})
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter)
		digest string
		says   string
	}{
		"another digest": {answer(content), digest(outside), "SHA-256"},
		"gone":           {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, digest(content), "404"},
		"elsewhere":      {func(w http.ResponseWriter) { w.Header().Set("Location", "http://x"); w.WriteHeader(http.StatusFound) }, digest(content), "302"},
		"no archive":     {answer([]byte("hello")), digest(content), "unpack"},
		"outside":        {answer(outside), digest(outside), "evil"},
		"by a link":      {answer(through), digest(through), "evil"},
		"a device":       {answer(parcel(t, tar.Header{Typeflag: tar.TypeChar, Name: "null"})), "", "null"},
	} {
		err := fetch(serve(t, test.answer), test.digest, t.TempDir(), "")
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the message has the signature: %v", name, err)
		}
	}
}

func TestUnreachableStoreKeepsTheSignature(t *testing.T) {
	file := filepath.Join(t.TempDir(), "address")
	if err := os.WriteFile(file, []byte("http://127.0.0.1:1/o?X-Amz-Signature=secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fetch(file, "", t.TempDir(), ""); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
}
