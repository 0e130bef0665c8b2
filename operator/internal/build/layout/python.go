package layout

import (
	"regexp"
	"slices"
	"strings"
)

var (
	pythonManifests = []string{"requirements*.txt", "constraints*.txt", "pyproject.toml", "pylock.toml", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock"}
	// pythonLocks are lock files that the install step reads, or fails on with the command that exports them.
	pythonLocks = []string{"pylock.toml", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock"}
	// pyprojectDependencies is a guess that errs to one side: an install step with nothing to install is only slow.
	pyprojectDependencies = regexp.MustCompile(`(?m)^\s*(project\s*\.\s*)?dependencies\s*=|^\s*(project\s*\.\s*)?dynamic\s*=\s*\[[^\]]*\bdependencies\b|^\s*\[\s*tool\s*\.\s*poetry\s*\.\s*dependencies\s*\]`)
)

func findPython(tree Tree) (*Manifest, error) {
	manifest := &Manifest{Files: rootFiles(tree, pythonManifests)}
	if !tree.Has("requirements.txt") {
		return findPyproject(tree, manifest)
	}
	empty := true
	for _, name := range manifest.Files {
		if !strings.HasSuffix(name, ".txt") {
			continue
		}
		text, err := tree.ReadFile(name, largestManifest)
		if err != nil {
			return nil, err
		}
		lines := requirementLines(string(text))
		if name == "requirements.txt" {
			empty = len(lines) == 0
		}
		for _, line := range lines {
			manifest.AllCode = manifest.AllCode || needsCode(line, manifest.Files)
		}
	}
	if empty {
		return nil, nil
	}
	return manifest, nil
}

func findPyproject(tree Tree, manifest *Manifest) (*Manifest, error) {
	if slices.ContainsFunc(pythonLocks, tree.Has) {
		return manifest, nil
	}
	if !tree.Has("pyproject.toml") {
		return nil, nil
	}
	text, err := tree.ReadFile("pyproject.toml", largestManifest)
	if err != nil {
		return nil, err
	}
	if !pyprojectDependencies.Match(text) {
		return nil, nil
	}
	manifest.AllCode = strings.Contains(string(text), "file:")
	return manifest, nil
}

// requirementLines returns the lines of a requirements file that say something, continued lines joined.
func requirementLines(text string) []string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.ReplaceAll(text, "\\\n", " ")
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if at := strings.Index(line, " #"); at >= 0 {
			line = line[:at]
		}
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

var (
	// A requirement by name, with extras, versions, markers and hashes.
	namedRequirement = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*\s*(\[[^\]/]*\])?\s*(\(?\s*(===|==|~=|!=|<=|>=|<|>)[^/@]*)?(;[^/]*)?(\s+--hash[= ]\S+)*$`)
	// A requirement by address.
	remoteRequirement = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*\s*(\[[^\]/]*\])?\s*@\s*)?(https?|git\+https?|git\+ssh)://`)
	// Options that name no file.
	harmlessOption = regexp.MustCompile(`^(-i|--index-url|--extra-index-url|--no-index|--pre|--prefer-binary|--only-binary|--no-binary|--require-hashes|--trusted-host|--use-feature)\b`)
	fileOption     = regexp.MustCompile(`^(?:-r|-c|--requirement|--constraint)[=\s]*(\S+)$`)
	archiveName    = regexp.MustCompile(`(?i)\.(whl|zip|tar|tgz|tar\.[a-z0-9]+)$`)
)

// needsCode says whether a line of a requirements file names, or may name, a file that is not in manifests.
func needsCode(line string, manifests []string) bool {
	if file := fileOption.FindStringSubmatch(line); file != nil {
		name := strings.TrimPrefix(file[1], "./")
		return !strings.Contains(name, "://") && !slices.Contains(manifests, name)
	}
	if strings.HasPrefix(line, "-") {
		return !harmlessOption.MatchString(line)
	}
	if remoteRequirement.MatchString(line) {
		return false
	}
	return archiveName.MatchString(line) || !namedRequirement.MatchString(line)
}
