package code

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// folder writes files, with the executable bit for names that end in *, and links for texts that begin with ->.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name, executable := strings.CutSuffix(name, "*")
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, link := strings.CutPrefix(text, "->"); link {
			err = os.Symlink(target, path)
		} else if executable {
			err = os.WriteFile(path, []byte(text), 0o755)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func hashOf(t *testing.T, root string, patterns ...string) string {
	t.Helper()
	excludes, err := NewExcludes(patterns)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := FromFolder(root, excludes)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := tree.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

var sample = map[string]string{"handler.py": "code", "lib/util.py": "more", "bin/tool*": "program", "lib/link.py": "->util.py"}

func TestHashIsOfWhatAFunctionSees(t *testing.T) {
	root := folder(t, sample)
	want := hashOf(t, root)
	// It is in many a state: should it ever change, every function is deployed anew.
	if recorded := "h1:6bdb9f66e2d8d1a40bf47eb89a7759d4cffa950466c1e5cc5dc3247762806b28"; want != recorded {
		t.Errorf("the hash is %s, and was %s", want, recorded)
	}
	same := func(what string) {
		t.Helper()
		if got := hashOf(t, root); got != want {
			t.Errorf("%s changes the hash", what)
		}
	}
	if other := hashOf(t, folder(t, sample)); other != want {
		t.Error("the same files in another folder have another hash")
	}
	old := time.Unix(1, 0)
	if err := os.Chtimes(filepath.Join(root, "handler.py"), old, old); err != nil {
		t.Fatal(err)
	}
	same("a time")
	if err := os.Chmod(filepath.Join(root, "handler.py"), 0o600); err != nil {
		t.Fatal(err)
	}
	same("a umask")
	for _, name := range []string{".git/HEAD", "__pycache__/x.pyc", ".env", "lib/.DS_Store", "handler.py~", "terraform.tfstate", "terraform.tfstate.backup", ".terraform.lock.hcl", "node_modules/.cache/x"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		same(name)
	}
	if err := os.Mkdir(filepath.Join(root, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	same("an empty folder")
}

func TestHashChanges(t *testing.T) {
	seen := map[string]string{hashOf(t, folder(t, sample)): "the sample"}
	for what, change := range map[string]func(map[string]string){
		"other bytes":  func(f map[string]string) { f["handler.py"] = "c0de" },
		"another name": func(f map[string]string) { delete(f, "handler.py"); f["handler2.py"] = "code" },
		"executable":   func(f map[string]string) { delete(f, "handler.py"); f["handler.py*"] = "code" },
		"one more":     func(f map[string]string) { f["new.py"] = "" },
		"one less":     func(f map[string]string) { delete(f, "lib/util.py"); delete(f, "lib/link.py") },
		"link to file": func(f map[string]string) { f["lib/link.py"] = "more" },
		"other link":   func(f map[string]string) { f["lib/link.py"] = "->../handler.py" },
		"bytes moved":  func(f map[string]string) { f["handler.py"], f["lib/util.py"] = "more", "code" },
	} {
		files := map[string]string{}
		for name, text := range sample {
			files[name] = text
		}
		change(files)
		hash := hashOf(t, folder(t, files))
		if other, taken := seen[hash]; taken {
			t.Errorf("%s has the hash of %s", what, other)
		}
		seen[hash] = what
	}
}

func TestExcludes(t *testing.T) {
	root := folder(t, map[string]string{
		"a.py": "", "b.md": "", "docs/c.md": "", "docs/d.py": "", "tests/e.py": "", "x/tests/f.py": "", "x/y/g.txt": "", "build": "", "x/build/h": "",
	})
	for _, test := range []struct {
		patterns []string
		want     string
	}{
		{nil, "a.py b.md build docs/c.md docs/d.py tests/e.py x/build/h x/tests/f.py x/y/g.txt"},
		{[]string{"*.md"}, "a.py build docs/d.py tests/e.py x/build/h x/tests/f.py x/y/g.txt"},
		{[]string{"/*.md"}, "a.py build docs/c.md docs/d.py tests/e.py x/build/h x/tests/f.py x/y/g.txt"},
		{[]string{"tests/", "build/"}, "a.py b.md build docs/c.md docs/d.py x/y/g.txt"},
		{[]string{"/tests"}, "a.py b.md build docs/c.md docs/d.py x/build/h x/tests/f.py x/y/g.txt"},
		{[]string{"x/**/*.txt", "docs/**"}, "a.py b.md build tests/e.py x/build/h x/tests/f.py"},
		{[]string{"*.md", "!c.md"}, "a.py build docs/c.md docs/d.py tests/e.py x/build/h x/tests/f.py x/y/g.txt"},
		{[]string{"[ab].??", "x"}, "build docs/c.md docs/d.py tests/e.py"},
		{[]string{"[!a].py"}, "a.py b.md build docs/c.md x/build/h x/y/g.txt"},
	} {
		excludes, err := NewExcludes(test.patterns)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := FromFolder(root, excludes)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range tree.files {
			names = append(names, f.path)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%q leave %s, want %s", test.patterns, got, test.want)
		}
	}
	for _, bad := range []string{"", "/", "!", "[a", "a[]b"} {
		if _, err := NewExcludes([]string{bad}); err == nil {
			t.Errorf("pattern %q is taken", bad)
		}
	}
}

func TestPackIsTheSameForTheSameFiles(t *testing.T) {
	var archives [2]bytes.Buffer
	for i := range archives {
		tree, err := FromFolder(folder(t, sample), nil)
		if err != nil {
			t.Fatal(err)
		}
		packed, err := tree.Pack(&archives[i])
		if err != nil {
			t.Fatal(err)
		}
		back, err := FromArchive(bytes.NewReader(archives[i].Bytes()), int64(archives[i].Len()))
		if err != nil {
			t.Fatal(err)
		}
		for what, hash := range map[string]func() (string, error){"the folder": tree.Hash, "the archive": back.Hash} {
			if got, err := hash(); err != nil || got != packed {
				t.Errorf("hash of %s %s, %v; packed %s", what, got, err, packed)
			}
		}
	}
	if !bytes.Equal(archives[0].Bytes(), archives[1].Bytes()) {
		t.Error("the archives differ")
	}
	reader, err := zip.NewReader(bytes.NewReader(archives[0].Bytes()), int64(archives[0].Len()))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]fs.FileMode{"bin/tool": 0o755, "handler.py": 0o644, "lib/link.py": fs.ModeSymlink | 0o777, "lib/util.py": 0o644}
	for _, entry := range reader.File {
		if entry.Mode() != want[entry.Name] {
			t.Errorf("%s has mode %s, want %s", entry.Name, entry.Mode(), want[entry.Name])
		}
	}
}

// TestZipTools holds that the hash does not tell apart archives that tools make differently: folders or none, order, times, method.
func TestZipTools(t *testing.T) {
	hashed := func(write func(*zip.Writer) error) string {
		t.Helper()
		var archive bytes.Buffer
		writer := zip.NewWriter(&archive)
		if err := write(writer); err != nil {
			t.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		tree, err := FromArchive(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
		if err != nil {
			t.Fatal(err)
		}
		hash, err := tree.Hash()
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	add := func(w *zip.Writer, header zip.FileHeader, text string) error {
		entry, err := w.CreateHeader(&header)
		if err == nil {
			_, err = io.WriteString(entry, text)
		}
		return err
	}
	one := hashed(func(w *zip.Writer) error {
		return add(w, zip.FileHeader{Name: "a/b.py", Method: zip.Deflate, Modified: time.Now()}, "text")
	})
	other := hashed(func(w *zip.Writer) error {
		if err := add(w, zip.FileHeader{Name: "a/"}, ""); err != nil {
			return err
		}
		if err := add(w, zip.FileHeader{Name: "__MACOSX/a/._b.py"}, "x"); err != nil {
			return err
		}
		return add(w, zip.FileHeader{Name: "a/b.py", Method: zip.Store, Comment: "by another tool"}, "text")
	})
	if folder := hashOf(t, folder(t, map[string]string{"a/b.py": "text"})); one != other || one != folder {
		t.Errorf("hashes %s, %s and %s of the same code", one, other, folder)
	}
}

func TestRefused(t *testing.T) {
	pipe, huge := folder(t, map[string]string{"f": ""}), folder(t, map[string]string{"f": ""})
	mkfifo(t, filepath.Join(pipe, "pipe"))
	if err := os.Truncate(filepath.Join(huge, "f"), MaxBytes+1); err != nil {
		t.Fatal(err)
	}
	for want, root := range map[string]string{
		"does not exist":           filepath.Join(t.TempDir(), "nowhere"),
		"has no files":             folder(t, map[string]string{".git/x": "y"}),
		"is no folder":             filepath.Join(folder(t, map[string]string{"f": ""}), "f"),
		`"up" leads to "../.."`:    folder(t, map[string]string{"up": "->../.."}),
		`"abs" leads to "/etc"`:    folder(t, map[string]string{"abs": "->/etc"}),
		`"b" leads to "a/../../x"`: folder(t, map[string]string{"a": "->c", "c/f": "", "b": "->a/../../x"}),
		`"loop" leads to "loop"`:   folder(t, map[string]string{"loop": "->loop"}),
		"control character":        folder(t, map[string]string{"a\nb": ""}),
		"backslash":                folder(t, map[string]string{`a\b`: ""}),
		"neither a file, a folder": pipe,
		"larger than 1024 MiB":     huge,
	} {
		if _, err := FromFolder(root, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	tree, err := &Tree{}, error(nil)
	for i := 0; err == nil && i < 2*MaxFiles; i++ {
		err = tree.add(file{path: strconv.Itoa(i)}, 0)
	}
	if len(tree.files) != MaxFiles+1 || err == nil {
		t.Errorf("%d files are taken: %v", len(tree.files), err)
	}
}

// TestUnreadable holds that a file that may not be read is named, whether the code is hashed or packed. As root every file may be read.
func TestUnreadable(t *testing.T) {
	tree := &Tree{files: []file{{path: "lib/key", open: func() (io.ReadCloser, error) {
		return nil, reason(&fs.PathError{Op: "open", Path: "src/lib/key", Err: fs.ErrPermission})
	}}}}
	_, hashing := tree.Hash()
	_, packing := tree.Pack(io.Discard)
	for _, err := range []error{hashing, packing} {
		if err == nil || !strings.Contains(err.Error(), `read "lib/key": src/lib/key may not be read: permission denied`) {
			t.Errorf("got %v", err)
		}
	}
}

func TestRefusedArchives(t *testing.T) {
	archive := func(names ...string) []byte {
		var out bytes.Buffer
		writer := zip.NewWriter(&out)
		for _, name := range names {
			if _, err := writer.Create(name); err != nil {
				t.Fatal(err)
			}
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	good := archive("a")
	for want, bytesOf := range map[string][]byte{
		"it is empty":         nil,
		"no zip archive":      []byte("PK is not enough"),
		"or not all of one":   good[:len(good)-3],
		"it has no files":     archive("folder/"),
		"does not lie below":  archive("../up"),
		"is in it twice":      archive("a", "a"),
		"control character":   archive("a\x01"),
		"longer than 255 byt": archive(strings.Repeat("x", 300)),
	} {
		if _, err := FromArchive(bytes.NewReader(bytesOf), int64(len(bytesOf))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := FromArchive(bytes.NewReader(nil), MaxArchive+1); err == nil {
		t.Error("a huge archive is taken")
	}
}

func FuzzEscapes(f *testing.F) {
	f.Add("a", "../b", "b", "a")
	f.Add("a/b", "..", "c", "a/b/..")
	f.Fuzz(func(t *testing.T, one, target, other, otherTarget string) {
		escapes(map[string]string{one: target, other: otherTarget}, one) // ends
	})
}
