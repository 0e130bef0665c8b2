// Package check looks at the files that an install step left, before a process with rights touches them.
package check

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/naeel/sless/operator/internal/build/archive"
)

// Missing is the exit code that says that a file which should be there is not.
const Missing = 3

// Run checks the tree at folder, in which one of the wanted files must be if any are named, and makes it readable for everybody and
// writable by its owner alone. What it refuses it writes to messages, one line each; the result is the exit code of a process.
func Run(folder string, wanted []string, messages io.Writer) int {
	refused, err := tree(folder)
	for _, message := range refused {
		fmt.Fprintf(messages, "sless check: %s\n", message)
	}
	if err != nil {
		fmt.Fprintf(messages, "sless check: the dependencies can't be read: %v\n", err)
	}
	if err != nil || len(refused) > 0 {
		return 1
	}
	if len(wanted) > 0 && !slices.ContainsFunc(wanted, func(name string) bool { return isFile(folder, name) }) {
		fmt.Fprintf(messages, "sless check: none of %q is there\n", wanted)
		return Missing
	}
	return 0
}

// isFile says whether a file is there after all links, which the check above has found to stay inside.
func isFile(folder, name string) bool {
	info, err := os.Stat(filepath.Join(folder, name))
	return err == nil && info.Mode().IsRegular()
}

// mostMessages bounds what a hostile tree can make the log hold.
const mostMessages = 20

var errEnough = errors.New("and more")

// walker is a walk through a tree.
type walker struct {
	root    *os.Root // nothing outside is opened, whatever changes meanwhile
	links   map[string]string
	refused []string
}

// tree returns why files are refused, one text each.
func tree(folder string) ([]string, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	w := &walker{root: root, links: map[string]string{}}
	err = fs.WalkDir(root.FS(), ".", w.visit)
	if err == nil {
		err = w.checkLinks()
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return w.refused, err
}

// visit looks at a file, or at a folder before what is in it is read.
func (w *walker) visit(name string, _ fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	info, err := w.root.Lstat(name)
	if err != nil {
		return err
	}
	if rule := refusal(info.Mode()); rule != "" {
		return w.refuse("%q is %s", name, rule)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		w.links[name], err = w.root.Readlink(name)
		return err
	}
	return open(w.root, name, info.Mode())
}

func (w *walker) checkLinks() error {
	for name, target := range w.links {
		if archive.Escapes(w.links, name) {
			if err := w.refuse("%q is a link to %q, outside the dependencies", name, target); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walker) refuse(format string, args ...any) error {
	w.refused = append(w.refused, fmt.Sprintf(format, args...))
	if len(w.refused) >= mostMessages {
		return errEnough
	}
	return nil
}

func refusal(mode fs.FileMode) string {
	switch {
	case mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 && !mode.IsDir():
		return "setuid or setgid"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeIrregular != 0:
		return "no regular file"
	}
	return ""
}

// open makes a file or folder readable for everybody, for the function runs as somebody else than its files' owner.
func open(root *os.Root, name string, mode fs.FileMode) error {
	wanted := mode.Perm() | 0o444
	if mode.IsDir() || mode.Perm()&0o111 != 0 {
		wanted |= 0o111
	}
	wanted &^= 0o022
	if name == "." || wanted == mode.Perm() {
		return nil
	}
	return root.Chmod(name, wanted)
}
