package archive

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// treeBuilder collects entries and refuses those that no tree may have.
type treeBuilder struct {
	limits  Limits
	seen    int
	bytes   int64
	entries map[string]entry
	folders map[string]bool // every folder that an entry declares or lies in
}

func newTreeBuilder(limits Limits) *treeBuilder {
	return &treeBuilder{limits: limits, entries: map[string]entry{}, folders: map[string]bool{}}
}

// add takes an entry under the name it has in the archive. Folders are checked and not kept: they follow from their files, so
// that archives with and without entries for folders give one tree.
func (b *treeBuilder) add(e entry, folder bool) error {
	if b.seen++; b.seen > b.limits.Files {
		return fault.Terminal(v1alpha1.ReasonSourceTooLarge, "the source has more than %d files; leave out what the function does not need", b.limits.Files)
	}
	if e.size < 0 || e.size > b.limits.Bytes-b.bytes {
		return fault.Terminal(v1alpha1.ReasonSourceTooLarge, "the source is larger than %d bytes unpacked, at entry %s; leave out what the function does not need", b.limits.Bytes, quote(e.path))
	}
	b.bytes += e.size
	clean, err := cleanName(e.path)
	if err != nil {
		return err
	}
	if clean == "." || ignored(clean) {
		return nil
	}
	e.path = clean
	return b.place(e, folder)
}

func (b *treeBuilder) place(e entry, folder bool) error {
	if _, taken := b.entries[e.path]; taken || (!folder && b.folders[e.path]) {
		return fault.Terminal(v1alpha1.ReasonSourceInvalid, "entry %s is in the source twice; keep one of them", quote(e.path))
	}
	for parent := path.Dir(e.path); parent != "." && !b.folders[parent]; parent = path.Dir(parent) {
		if _, taken := b.entries[parent]; taken {
			return fault.Terminal(v1alpha1.ReasonSourceInvalid, "entry %s lies in %s, which is no folder; rename one of them", quote(e.path), quote(parent))
		}
		b.folders[parent] = true
	}
	if folder {
		b.folders[e.path] = true
		return nil
	}
	b.entries[e.path] = e
	return nil
}

// tree returns the finished tree.
func (b *treeBuilder) tree() *Tree {
	t := &Tree{entries: make([]entry, 0, len(b.entries))}
	for _, e := range b.entries {
		t.entries = append(t.entries, e)
	}
	slices.SortFunc(t.entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return t
}

// checkLinks refuses symbolic links that lead out of the tree.
func (t *Tree) checkLinks() error {
	links := map[string]string{}
	for _, e := range t.entries {
		if e.target != "" {
			links[e.path] = e.target
		}
	}
	for name, target := range links {
		if Escapes(links, name) {
			return fault.Terminal(v1alpha1.ReasonSourceInvalid, "symbolic link %s points to %s, out of the source's own folder; link inside it, or put a copy there", quote(name), quote(target))
		}
	}
	return nil
}

// unwrap takes away the one folder in which everything lies, if there is one.
func (t *Tree) unwrap() {
	if len(t.entries) == 0 {
		return
	}
	top, _, nested := strings.Cut(t.entries[0].path, "/")
	// The entries are sorted, but "a-b" lies between "a" and "a/b": look at all of them.
	if !nested || slices.ContainsFunc(t.entries, func(e entry) bool { return !strings.HasPrefix(e.path, top+"/") }) {
		return
	}
	for i := range t.entries {
		t.entries[i].path = t.entries[i].path[len(top)+1:]
	}
}

// cleanName returns the path of an entry below the root, or why it is refused.
func cleanName(name string) (string, error) {
	refuse := func(rule string) (string, error) {
		return "", fault.Terminal(v1alpha1.ReasonSourceInvalid, "entry %s of the source is refused: %s", quote(name), rule)
	}
	switch {
	case !utf8.ValidString(name):
		return refuse("its name is not UTF-8; make the archive with UTF-8 names")
	case strings.ContainsFunc(name, unicode.IsControl):
		return refuse("its name has control characters; rename the file")
	case strings.Contains(name, `\`):
		return refuse(`its name has a backslash; make the archive with forward slashes`)
	case strings.HasPrefix(name, "/"):
		return refuse("its path is absolute; make the archive with relative paths")
	case len(name) > 1024:
		return refuse("its path is longer than 1024 bytes; use shorter names")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return refuse("its path has a .. part, which may lead out of the source's folder; make the archive inside that folder")
		}
		if len(part) > 255 {
			return refuse("a part of its path is longer than 255 bytes; use shorter names")
		}
	}
	return path.Clean(name), nil
}
