package sbom

import (
	"bufio"
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"regexp"
	"strings"
)

// most is how much is read of a file that anybody's package may have brought. What has no name and version in that much is not listed: better a
// gap than no release.
const most = 1 << 20

// own begins the paths of sless's modules. They have no versions of their own: the repository has one.
const own = "github.com/naeel/sless/"

// addELF adds the modules of a program. What is no Go program has none.
func (l list) addELF(file io.Reader) error {
	magic := make([]byte, 4)
	if _, err := io.ReadFull(file, magic); err != nil || string(magic) != "\x7fELF" {
		return nil
	}
	rest, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	if info, err := buildinfo.Read(bytes.NewReader(append(magic, rest...))); err == nil {
		l.addModules(info)
	}
	return nil
}

// addModules adds a program's modules and the standard library.
func (l list) addModules(info *buildinfo.BuildInfo) {
	l.add("golang", "std", strings.TrimPrefix(info.GoVersion, "go"))
	for _, module := range info.Deps {
		switch {
		case strings.HasPrefix(module.Path, own):
			l.add("golang", module.Path, l.version)
		case module.Replace != nil:
			l.add("golang", module.Replace.Path, module.Replace.Version)
		default:
			l.add("golang", module.Path, module.Version)
		}
	}
}

// addDebian adds the packages in dpkg's status file.
func (l list) addDebian(file io.Reader) error {
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, most)
	for more := true; more; {
		var name, version string
		if name, version, more = paragraph(lines, "Package"); name != "" && version != "" {
			l.add("deb/debian", name, version)
		}
	}
	return lines.Err()
}

// addNPM adds a package by its package.json, unless that names none, as those of folders inside a package.
func (l list) addNPM(file io.Reader) {
	var manifest struct{ Name, Version string }
	if err := json.NewDecoder(io.LimitReader(file, most)).Decode(&manifest); err == nil && manifest.Name != "" && manifest.Version != "" {
		l.add("npm", manifest.Name, manifest.Version)
	}
}

// separators are one and the same in names of Python distributions, as are small and capital letters.
var separators = regexp.MustCompile(`[-_.]+`)

// addPython adds a distribution by its METADATA or PKG-INFO, whose first paragraph names it; its description follows.
func (l list) addPython(file io.Reader) {
	lines := bufio.NewScanner(io.LimitReader(file, most))
	lines.Buffer(nil, most)
	if name, version, _ := paragraph(lines, "Name"); name != "" && version != "" {
		l.add("pypi", strings.ToLower(separators.ReplaceAllString(name, "-")), version)
	}
}

// paragraph reads lines "Field: value" up to an empty one and returns the values of the field of the name and of Version. more is false at the end.
func paragraph(lines *bufio.Scanner, field string) (name, version string, more bool) {
	for lines.Scan() {
		if lines.Text() == "" {
			return name, version, true
		}
		if value, ok := strings.CutPrefix(lines.Text(), field+": "); ok {
			name = strings.TrimSpace(value)
		}
		if value, ok := strings.CutPrefix(lines.Text(), "Version: "); ok {
			version = strings.TrimSpace(value)
		}
	}
	return name, version, false
}
