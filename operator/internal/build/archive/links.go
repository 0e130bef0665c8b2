package archive

import (
	"path"
	"strings"
)

// Escapes says whether following the symbolic link at name ever leaves the root, or does not end. links has the target of every
// link by path; what is in it is resolved as a kernel does, one part at a time, because "a/../x" is not "x" when a is a link.
func Escapes(links map[string]string, name string) bool {
	const mostLinks = 40 // as the kernel
	followed := 0
	at := "."
	todo := strings.Split(name, "/")
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if at == "." {
				return true
			}
			at = path.Dir(at)
			continue
		}
		at = path.Join(at, part)
		target, isLink := links[at]
		if !isLink {
			continue
		}
		if followed++; followed > mostLinks || strings.HasPrefix(target, "/") {
			return true
		}
		at = path.Dir(at)
		todo = append(strings.Split(target, "/"), todo...)
	}
	return false
}
