package check

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRunRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		make func(folder string) error
		want string
	}{
		"pipe":         {func(d string) error { return syscall.Mkfifo(filepath.Join(d, "p"), 0o600) }, `"p" is a named pipe`},
		"socket":       {listen, `"s" is a socket`},
		"setuid":       {func(d string) error { return writeMode(d, "x", 0o755|fs.ModeSetuid) }, `"x" is setuid or setgid`},
		"setgid":       {func(d string) error { return writeMode(d, "x", 0o755|fs.ModeSetgid) }, `"x" is setuid or setgid`},
		"absolute":     {func(d string) error { return os.Symlink("/etc/passwd", filepath.Join(d, "l")) }, `"l" is a link to "/etc/passwd"`},
		"parent":       {func(d string) error { return os.Symlink("../x", filepath.Join(d, "l")) }, `"l" is a link to "../x"`},
		"through link": {throughLink, `"a/m" is a link to "l/../x"`},
		"loop":         {func(d string) error { return os.Symlink("l", filepath.Join(d, "l")) }, `"l" is a link to "l"`},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if err := test.make(folder); err != nil {
				t.Fatal(err)
			}
			var messages strings.Builder
			if code := Run(folder, nil, &messages); code != 1 || !strings.Contains(messages.String(), test.want) {
				t.Errorf("code %d, messages %q, want %q", code, messages.String(), test.want)
			}
		})
	}
}

func listen(folder string) error {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(folder, "s")})
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false)
	return listener.Close()
}

func writeMode(folder, name string, mode fs.FileMode) error {
	file := filepath.Join(folder, name)
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		return err
	}
	return os.Chmod(file, mode)
}

// throughLink makes a link that stays inside only for those who take "l/.." for nothing.
func throughLink(folder string) error {
	if err := os.Mkdir(filepath.Join(folder, "a"), 0o755); err != nil {
		return err
	}
	if err := os.Symlink("..", filepath.Join(folder, "a", "l")); err != nil {
		return err
	}
	return os.Symlink("l/../x", filepath.Join(folder, "a", "m"))
}

func TestRunBoundsItsMessages(t *testing.T) {
	folder := t.TempDir()
	for _, name := range strings.Split(strings.Repeat("x", 100), "") {
		folder = filepath.Join(folder, name)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := os.Symlink("/", filepath.Join(folder, strings.Repeat("l", i+1))); err != nil {
			t.Fatal(err)
		}
	}
	var messages strings.Builder
	if code := Run(folder, nil, &messages); code != 1 || strings.Count(messages.String(), "\n") != mostMessages {
		t.Errorf("code %d, %d lines", code, strings.Count(messages.String(), "\n"))
	}
}

func TestRunOpensWhatItAccepts(t *testing.T) {
	folder := t.TempDir()
	sub := filepath.Join(folder, "node_modules", ".bin")
	if err := os.MkdirAll(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeMode(sub, "tool", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeMode(folder, "data", 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../.bin/tool", filepath.Join(sub, "alias")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(sub, 0o300); err != nil {
		t.Fatal(err)
	}
	var messages strings.Builder
	if code := Run(folder, nil, &messages); code != 0 {
		t.Fatalf("code %d: %s", code, messages.String())
	}
	for name, want := range map[string]fs.FileMode{"data": 0o644, "node_modules/.bin": 0o755, "node_modules/.bin/tool": 0o755} {
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", name, info.Mode().Perm(), want)
		}
	}
}

func TestRunWithoutAFolder(t *testing.T) {
	var messages strings.Builder
	if code := Run(filepath.Join(t.TempDir(), "absent"), nil, &messages); code != 1 || !strings.Contains(messages.String(), "can't be read") {
		t.Errorf("code %d, messages %q", code, messages.String())
	}
}

func TestWantedFile(t *testing.T) {
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "built/dist/folder.js"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeMode(filepath.Join(folder, "built/dist"), "handler.mjs", 0o644); err != nil {
		t.Fatal(err)
	}
	for wanted, want := range map[string]int{"built/dist/handler.js,built/dist/handler.mjs": 0, "built/handler.js": Missing, "built/dist/folder.js": Missing} {
		var messages strings.Builder
		if code := Run(folder, strings.Split(wanted, ","), &messages); code != want || (code == 0) != (messages.Len() == 0) {
			t.Errorf("%s: code %d, messages %q", wanted, code, messages.String())
		}
	}
}
