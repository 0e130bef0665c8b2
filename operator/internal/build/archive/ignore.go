package archive

import "strings"

// ignoredNames are files and folders that tools leave beside the code and no function needs: version control, caches, editors, the
// environment of the developer's own machine.
var ignoredNames = map[string]bool{
	".git": true, ".hg": true, ".svn": true,
	"__pycache__": true, ".pytest_cache": true, ".mypy_cache": true, ".ruff_cache": true, ".tox": true, ".nox": true, ".venv": true,
	".hypothesis": true, ".ipynb_checkpoints": true, ".coverage": true, ".nyc_output": true, ".eslintcache": true,
	".idea": true, ".vscode": true, ".vs": true, ".env": true, ".terraform": true,
	".DS_Store": true, "__MACOSX": true, "Thumbs.db": true, "desktop.ini": true,
}

// ignored says whether an entry is left out because of a part of its path.
func ignored(clean string) bool {
	previous := ""
	for part := range strings.SplitSeq(clean, "/") {
		editor := strings.HasSuffix(part, "~") || strings.HasPrefix(part, ".#") || strings.HasSuffix(part, ".swp") || strings.HasSuffix(part, ".swo")
		if ignoredNames[part] || editor || (previous == "node_modules" && part == ".cache") {
			return true
		}
		previous = part
	}
	return false
}
