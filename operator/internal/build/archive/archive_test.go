package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

var testLimits = Limits{Files: 100, Bytes: 1 << 20}

// zipped is an entry of an archive to be made.
type zipped struct {
	name, text string
	mode       fs.FileMode
	modified   time.Time
	method     uint16
}

func file(name, text string) zipped { return zipped{name: name, text: text, mode: 0o644} }

func makeZip(t testing.TB, entries ...zipped) []byte {
	t.Helper()
	var buffer bytes.Buffer
	writer := zip.NewWriter(&buffer)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: e.method, Modified: e.modified}
		header.SetMode(e.mode)
		w, err := writer.CreateHeader(header)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// read reads an archive to the end, as a build does.
func read(data []byte, limits Limits, entrypoints ...string) ([]byte, error) {
	tree, err := FromZip(bytes.NewReader(data), int64(len(data)), limits, entrypoints)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = tree.WriteTar(&out, "function/code")
	return out.Bytes(), err
}

func TestHostileArchivesAreRefused(t *testing.T) {
	tooMany := make([]zipped, 101)
	for i := range tooMany {
		tooMany[i] = file(fmt.Sprintf("f%d", i), "")
	}
	lying := makeZip(t, zipped{name: "big", text: strings.Repeat("0", 5000), mode: 0o644, method: zip.Deflate})
	binary.LittleEndian.PutUint32(lying[bytes.LastIndex(lying, []byte("PK\x01\x02"))+24:], 10)
	encrypted := makeZip(t, file("secret", "x"))
	encrypted[bytes.LastIndex(encrypted, []byte("PK\x01\x02"))+8] |= 1
	corrupted := makeZip(t, file("a", "hello"))
	corrupted[bytes.Index(corrupted, []byte("hello"))] = 'j'
	link := func(name, target string) zipped {
		return zipped{name: name, text: target, mode: 0o777 | fs.ModeSymlink}
	}
	for name, test := range map[string]struct {
		data   []byte
		reason string
		want   []string // parts of the message: the entry and the rule
	}{
		"no zip":           {[]byte("hello"), v1alpha1.ReasonSourceInvalid, []string{"no zip archive"}},
		"empty":            {nil, v1alpha1.ReasonSourceInvalid, []string{"no zip archive"}},
		"parent":           {makeZip(t, file("../evil.py", "")), v1alpha1.ReasonSourceInvalid, []string{`"../evil.py"`, ".. part"}},
		"parent within":    {makeZip(t, file("a/../../evil.py", "")), v1alpha1.ReasonSourceInvalid, []string{".. part"}},
		"harmless parent":  {makeZip(t, file("a/../b.py", "")), v1alpha1.ReasonSourceInvalid, []string{".. part"}},
		"absolute":         {makeZip(t, file("/etc/passwd", "")), v1alpha1.ReasonSourceInvalid, []string{`"/etc/passwd"`, "absolute"}},
		"backslash":        {makeZip(t, file(`..\evil.py`, "")), v1alpha1.ReasonSourceInvalid, []string{`"..\\evil.py"`, "backslash"}},
		"drive":            {makeZip(t, file(`C:\evil.py`, "")), v1alpha1.ReasonSourceInvalid, []string{"backslash"}},
		"control":          {makeZip(t, file("a\nb", "")), v1alpha1.ReasonSourceInvalid, []string{`"a\nb"`, "control"}},
		"nul":              {makeZip(t, file("a\x00b", "")), v1alpha1.ReasonSourceInvalid, []string{"control"}},
		"not UTF-8":        {makeZip(t, file("a\xff", "")), v1alpha1.ReasonSourceInvalid, []string{"UTF-8"}},
		"long part":        {makeZip(t, file(strings.Repeat("a", 256), "")), v1alpha1.ReasonSourceInvalid, []string{"255 bytes"}},
		"long path":        {makeZip(t, file(strings.Repeat("a/", 600)+"b", "")), v1alpha1.ReasonSourceInvalid, []string{"1024 bytes"}},
		"twice":            {makeZip(t, file("a", ""), file("a", "")), v1alpha1.ReasonSourceInvalid, []string{`"a"`, "twice"}},
		"twice, spelled":   {makeZip(t, file("a", ""), file("./a", "")), v1alpha1.ReasonSourceInvalid, []string{"twice"}},
		"file and folder":  {makeZip(t, file("a", ""), file("a/b", "")), v1alpha1.ReasonSourceInvalid, []string{`"a/b"`, "no folder"}},
		"folder and file":  {makeZip(t, file("a/b", ""), file("a", "")), v1alpha1.ReasonSourceInvalid, []string{`"a"`, "twice"}},
		"below a link":     {makeZip(t, link("l", "a"), file("l/b", "")), v1alpha1.ReasonSourceInvalid, []string{`"l/b"`, "no folder"}},
		"link to absolute": {makeZip(t, link("l", "/etc/passwd"), file("a", "")), v1alpha1.ReasonSourceInvalid, []string{`"l"`, `"/etc/passwd"`, "out of the source"}},
		"link to parent":   {makeZip(t, link("a/l", "../../x"), file("b", "")), v1alpha1.ReasonSourceInvalid, []string{`"a/l"`, "out of the source"}},
		"link through":     {makeZip(t, link("a/l", ".."), link("a/m", "l/../x"), file("b", "")), v1alpha1.ReasonSourceInvalid, []string{`"a/m"`, "out of the source"}},
		"link loop":        {makeZip(t, link("l", "m"), link("m", "l")), v1alpha1.ReasonSourceInvalid, []string{"out of the source"}},
		"link of nothing":  {makeZip(t, link("l", "")), v1alpha1.ReasonSourceInvalid, []string{`"l"`, "no usable target"}},
		"link above top":   {makeZip(t, link("top/l", "../x"), file("top/handler.py", "")), v1alpha1.ReasonSourceInvalid, []string{"out of the source"}},
		"long link":        {makeZip(t, link("l", strings.Repeat("a", 5000))), v1alpha1.ReasonSourceInvalid, []string{"no usable target"}},
		"pipe":             {makeZip(t, zipped{name: "p", mode: 0o644 | fs.ModeNamedPipe}), v1alpha1.ReasonSourceInvalid, []string{`"p"`, "named pipe"}},
		"socket":           {makeZip(t, zipped{name: "s", mode: 0o644 | fs.ModeSocket}), v1alpha1.ReasonSourceInvalid, []string{"socket"}},
		"device":           {makeZip(t, zipped{name: "d", mode: 0o644 | fs.ModeDevice}), v1alpha1.ReasonSourceInvalid, []string{"device"}},
		"encrypted":        {encrypted, v1alpha1.ReasonSourceInvalid, []string{`"secret"`, "encrypted"}},
		"checksum":         {corrupted, v1alpha1.ReasonSourceInvalid, []string{`"a"`, "checksum"}},
		"too many":         {makeZip(t, tooMany...), v1alpha1.ReasonSourceTooLarge, []string{"100 files"}},
		"declared bomb":    {makeZip(t, zipped{name: "b", text: strings.Repeat("0", 1<<20+1), mode: 0o644, method: zip.Deflate}), v1alpha1.ReasonSourceTooLarge, []string{`"b"`, "1048576 bytes"}},
		"sum bomb":         {makeZip(t, zipped{name: "a", text: strings.Repeat("0", 1<<19), method: zip.Deflate}, zipped{name: "b", text: strings.Repeat("0", 1<<19+1), method: zip.Deflate}), v1alpha1.ReasonSourceTooLarge, []string{`"b"`}},
		"real bomb":        {lying, v1alpha1.ReasonSourceInvalid, []string{`"big"`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(test.data, testLimits, "handler.py")
			refused, ok := errors.AsType[*fault.Error](err)
			if !ok || refused.Reason != test.reason || !refused.Terminal {
				t.Fatalf("got %v, want reason %s", err, test.reason)
			}
			for _, part := range test.want {
				if !strings.Contains(refused.Message, part) {
					t.Errorf("message %q lacks %q", refused.Message, part)
				}
			}
		})
	}
}

// A directory of more entries than allowed is not read into memory, whatever the archive says of their number.
func TestDirectoryIsBounded(t *testing.T) {
	entries := make([]zipped, 100_000)
	for i := range entries {
		entries[i] = file(fmt.Sprint(i), "")
	}
	data := makeZip(t, entries...)
	end := bytes.LastIndex(data, []byte("PK\x05\x06"))
	binary.LittleEndian.PutUint16(data[end+8:], 1)
	binary.LittleEndian.PutUint16(data[end+10:], 1)
	allocated := testing.AllocsPerRun(1, func() {
		_, err := read(data, testLimits, "handler.py")
		if refused, ok := errors.AsType[*fault.Error](err); !ok || refused.Reason != v1alpha1.ReasonSourceTooLarge {
			t.Errorf("got %v", err)
		}
	})
	if allocated > 20_000 {
		t.Errorf("%v allocations for an archive of which 100 entries are allowed", allocated)
	}
}

func TestSameFilesSameTar(t *testing.T) {
	want, err := read(makeZip(t, file("handler.py", "x"), zipped{name: "bin/tool", text: "y", mode: 0o755}), testLimits, "handler.py")
	if err != nil {
		t.Fatal(err)
	}
	folder := func(name string) zipped { return zipped{name: name, mode: 0o777 | fs.ModeDir} }
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, entries := range map[string][]zipped{
		"order":       {{name: "bin/tool", text: "y", mode: 0o755}, file("handler.py", "x")},
		"times":       {{name: "handler.py", text: "x", mode: 0o644, modified: now}, {name: "bin/tool", text: "y", mode: 0o755, modified: now}},
		"modes":       {{name: "handler.py", text: "x", mode: 0o600}, {name: "bin/tool", text: "y", mode: 0o700 | fs.ModeSetuid}},
		"compression": {{name: "handler.py", text: "x", mode: 0o666, method: zip.Deflate}, {name: "bin/tool", text: "y", mode: 0o711, method: zip.Deflate}},
		"folders":     {folder("bin/"), folder("empty/"), file("handler.py", "x"), {name: "bin/tool", text: "y", mode: 0o755}},
		"dots":        {file("./handler.py", "x"), {name: ".//bin/./tool", text: "y", mode: 0o755}},
		"rubbish": {
			file("handler.py", "x"), {name: "bin/tool", text: "y", mode: 0o755}, file(".git/config", "z"), file("a/__pycache__/h.pyc", "z"), file(".DS_Store", ""),
			file("__MACOSX/._handler.py", ""), file(".env", "KEY=1"), file("handler.py~", ""), file(".handler.py.swp", ""), file("node_modules/.cache/x", ""), file(".venv/bin/python", ""),
			file(".ipynb_checkpoints/x", ""), file(".nyc_output/x", ""), file(".#handler.py", ""),
		},
		"wrapped":             {file("project-1.0/handler.py", "x"), {name: "project-1.0/bin/tool", text: "y", mode: 0o755}},
		"wrapped with a Mac":  {file("p/handler.py", "x"), {name: "p/bin/tool", text: "y", mode: 0o755}, file("__MACOSX/p/._x", ""), file(".DS_Store", "")},
		"wrapped with folder": {folder("p/"), file("p/handler.py", "x"), {name: "p/bin/tool", text: "y", mode: 0o755}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(makeZip(t, entries...), testLimits, "handler.py")
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got %v, want %v", list(t, got), list(t, want))
			}
		})
	}
}

// Other programs write other headers: versions, extra fields, sizes after the contents, attributes of other systems.
func TestProducersOfZips(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "handler.py"), []byte(strings.Repeat("x", 5000)), 0o600); err != nil {
		t.Fatal(err)
	}
	want, err := read(makeZip(t, file("handler.py", strings.Repeat("x", 5000))), testLimits, "handler.py")
	if err != nil {
		t.Fatal(err)
	}
	for name, command := range map[string][]string{
		"zip":                {"zip", "-q", "../out.zip", "handler.py"},
		"zip to a pipe":      {"sh", "-c", "zip -q - handler.py > ../out.zip"},
		"Python":             {"python3", "-m", "zipfile", "-c", "../out.zip", "handler.py"},
		"Python, as Windows": {"python3", "-c", "import zipfile; z = zipfile.ZipFile('../out.zip', 'w'); i = zipfile.ZipInfo('handler.py'); i.create_system = 0; z.writestr(i, open('handler.py').read()); z.close()"},
		"Python, no modes":   {"python3", "-c", "import zipfile; z = zipfile.ZipFile('../out.zip', 'w'); i = zipfile.ZipInfo('handler.py'); i.external_attr = 0; z.writestr(i, open('handler.py').read()); z.close()"},
		"Python, 64 bits":    {"python3", "-c", "import zipfile; z = zipfile.ZipFile('../out.zip', 'w'); f = z.open('handler.py', 'w', force_zip64=True); f.write(open('handler.py', 'rb').read()); f.close(); z.close()"},
		"Git":                {"sh", "-c", "git init -q && git add . && git -c user.name=a -c user.email=a commit -qm x && git archive --format=zip -o ../out.zip HEAD"},
		"bsdtar":             {"bsdtar", "-a", "-cf", "../out.zip", "handler.py"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(command[0]); err != nil || (strings.HasPrefix(name, "zip") && !installed("zip")) || (name == "Git" && !installed("git")) {
				t.Skip("it is not installed")
			}
			work := t.TempDir()
			if err := os.CopyFS(filepath.Join(work, "in"), os.DirFS(folder)); err != nil {
				t.Fatal(err)
			}
			made := exec.Command(command[0], command[1:]...)
			made.Dir = filepath.Join(work, "in")
			if out, err := made.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			data, err := os.ReadFile(filepath.Join(work, "out.zip"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := read(data, testLimits, "handler.py")
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("got %v, %v, want %v", list(t, got), err, list(t, want))
			}
		})
	}
}

func installed(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

func TestFromFilesGivesTheSameTar(t *testing.T) {
	tree, err := FromFiles(map[string]string{"pkg/sub.py": "x", "handler.py": "y"}, testLimits)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := tree.WriteTar(&got, "function/code"); err != nil {
		t.Fatal(err)
	}
	want, err := read(makeZip(t, file("handler.py", "y"), file("pkg/sub.py", "x")), testLimits, "handler.py")
	if err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("got %v, want %v (%v)", list(t, got.Bytes()), list(t, want), err)
	}
}

func TestUnwrap(t *testing.T) {
	for name, test := range map[string]struct {
		names []string
		entry string
		want  []string
	}{
		"one folder":             {[]string{"p/handler.py", "p/lib/x.py"}, "handler.py", []string{"handler.py", "lib/x.py"}},
		"entrypoint in a folder": {[]string{"pkg/sub.py", "pkg/x.py"}, "pkg/sub.py", []string{"pkg/sub.py", "pkg/x.py"}},
		"two folders":            {[]string{"a/handler.py", "b/x.py"}, "handler.py", []string{"a/handler.py", "b/x.py"}},
		"a file beside":          {[]string{"a/handler.py", "README"}, "handler.py", []string{"README", "a/handler.py"}},
		"a longer name between":  {[]string{"a/handler.py", "a-b"}, "handler.py", []string{"a-b", "a/handler.py"}},
		"only once":              {[]string{"a/b/handler.py"}, "handler.py", []string{"b/handler.py"}},
	} {
		t.Run(name, func(t *testing.T) {
			var entries []zipped
			for _, name := range test.names {
				entries = append(entries, file(name, ""))
			}
			data := makeZip(t, entries...)
			tree, err := FromZip(bytes.NewReader(data), int64(len(data)), testLimits, []string{test.entry})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, tree.Paths()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTarIsReadableAndNotWritable(t *testing.T) {
	data := makeZip(t, file("a/b/handler.py", "x"), zipped{name: "tool", mode: 0o700}, zipped{name: "link", text: "a/b", mode: 0o777 | fs.ModeSymlink}, file("node_modules/x/.git/HEAD", ""), file("node_modules/x/i.js", ""))
	written, err := read(data, testLimits, "a/b/handler.py")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"function/ 0755", "function/code/ 0755", "function/code/a/ 0755", "function/code/a/b/ 0755", "function/code/a/b/handler.py 0644",
		"function/code/link 0777 -> a/b", "function/code/node_modules/ 0755", "function/code/node_modules/x/ 0755", "function/code/node_modules/x/i.js 0644", "function/code/tool 0755",
	}
	if diff := cmp.Diff(want, list(t, written)); diff != "" {
		t.Error(diff)
	}
}

func TestLookingIntoATree(t *testing.T) {
	data := makeZip(t, file("a/b", "text"), file("a.b", ""), zipped{name: "l", text: "a/b", mode: 0o777 | fs.ModeSymlink})
	tree, err := FromZip(bytes.NewReader(data), int64(len(data)), testLimits, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !tree.Has("a/b") || tree.Has("a") || !tree.HasUnder("a") || tree.HasUnder("a.b") || tree.HasUnder("l") || tree.HasUnder("z") {
		t.Error("wrong about what there is")
	}
	if text, err := tree.ReadFile("a/b", 4); err != nil || string(text) != "text" {
		t.Errorf("got %q, %v", text, err)
	}
	for name, reason := range map[string]string{"z": v1alpha1.ReasonSourceInvalid, "l": v1alpha1.ReasonSourceInvalid} {
		if _, err := tree.ReadFile(name, 4); err == nil || !strings.HasPrefix(err.Error(), reason) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := tree.ReadFile("a/b", 3); err == nil || !strings.HasPrefix(err.Error(), v1alpha1.ReasonSourceTooLarge) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff([]string{"a.b"}, tree.Only([]string{"a.b", "z"}).Paths()); diff != "" {
		t.Error(diff)
	}
}

// list describes the entries of a tar, and fails for an owner, time or kind that should not be.
func list(t testing.TB, data []byte) []string {
	t.Helper()
	var lines []string
	reader := tar.NewReader(bytes.NewReader(data))
	for {
		header, err := reader.Next()
		if err == io.EOF {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" || !header.ModTime.Equal(epoch) {
			t.Errorf("%s belongs to %d:%d, time %v", header.Name, header.Uid, header.Gid, header.ModTime)
		}
		line := fmt.Sprintf("%s %04o", header.Name, header.Mode)
		if header.Linkname != "" {
			line += " -> " + header.Linkname
		}
		lines = append(lines, line)
	}
}

func FuzzFromZip(f *testing.F) {
	f.Add(makeZip(f, file("handler.py", "x"), zipped{name: "l", text: "handler.py", mode: 0o777 | fs.ModeSymlink}))
	f.Add(makeZip(f, file("../x", "")))
	f.Add(makeZip(f, zipped{name: "a/l", text: "..", mode: 0o777 | fs.ModeSymlink}, zipped{name: "a/m", text: "l/b/../../c", mode: 0o777 | fs.ModeSymlink}, file("b/c/d", "")))
	f.Add(makeZip(f, zipped{name: "p/x", mode: 0o755, text: strings.Repeat("0", 5000), method: zip.Deflate}))
	f.Add([]byte("PK\x05\x06"))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := read(data, testLimits, "handler.py")
		if err != nil {
			return
		}
		again, err := read(data, testLimits, "handler.py")
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("not the same the second time: %v", err)
		}
		extract(t, out)
	})
}

// extract writes a tar to disk as naive programs do, and looks whether anything leads out of the folder.
func extract(t *testing.T, data []byte) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	reader := tar.NewReader(bytes.NewReader(data))
	for {
		header, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(names, header.Name) {
			t.Fatalf("%q twice", header.Name)
		}
		names = append(names, header.Name)
		extractEntry(t, filepath.Join(root, header.Name), header)
	}
	for _, name := range names {
		real, err := filepath.EvalSymlinks(filepath.Join(root, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "not a directory") {
			t.Fatalf("%q: %v", name, err)
		}
		if err == nil && !strings.HasPrefix(real+"/", root+"/function/") {
			t.Fatalf("%q leads to %q", name, real)
		}
	}
}

func extractEntry(t *testing.T, at string, header *tar.Header) {
	var err error
	switch header.Typeflag {
	case tar.TypeDir:
		err = os.Mkdir(at, 0o755)
	case tar.TypeSymlink:
		err = os.Symlink(header.Linkname, at)
	case tar.TypeReg:
		err = os.WriteFile(at, nil, 0o644)
	default:
		t.Fatalf("%q is of kind %q", header.Name, header.Typeflag)
	}
	if err != nil {
		t.Fatal(err)
	}
}
