package code

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// ignoredNames are what tools leave beside the code and no function needs. The platform leaves them out as well, so that they must not
// be in the hash either.
var ignoredNames = map[string]bool{
	".git": true, ".hg": true, ".svn": true,
	"__pycache__": true, ".pytest_cache": true, ".mypy_cache": true, ".ruff_cache": true, ".tox": true, ".venv": true,
	".idea": true, ".vscode": true, ".env": true, ".terraform": true,
	".DS_Store": true, "__MACOSX": true, "Thumbs.db": true, "desktop.ini": true,
}

// ignored says whether a path is left out because of one of its parts.
func ignored(name string) bool {
	before := ""
	for part := range strings.SplitSeq(name, "/") {
		if ignoredNames[part] || strings.HasSuffix(part, "~") || strings.HasSuffix(part, ".swp") || strings.HasSuffix(part, ".swo") ||
			(before == "node_modules" && part == ".cache") {
			return true
		}
		before = part
	}
	return false
}

// private says whether a path is Terraform's own: a state has secrets, and changes with every apply.
func private(name string) bool {
	base := path.Base(name)
	return strings.HasSuffix(base, ".tfstate") || strings.Contains(base, ".tfstate.") || base == ".terraform.lock.hcl"
}

// Excludes are patterns of files to leave out.
type Excludes struct{ rules []rule }

type rule struct {
	pattern  *regexp.Regexp
	folders  bool // matches folders only
	included bool // takes back what an earlier rule left out
}

// NewExcludes reads patterns as .gitignore has them: a pattern without a slash matches a name in any folder, one with a slash the path
// from the root; * and ? do not match a slash, ** does; a slash at the end means folders only; ! at the beginning takes back. What lies
// in a folder that is left out can't be taken back.
func NewExcludes(patterns []string) (*Excludes, error) {
	excludes := &Excludes{}
	for _, pattern := range patterns {
		compiled, err := newRule(pattern)
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", pattern, err)
		}
		excludes.rules = append(excludes.rules, compiled)
	}
	return excludes, nil
}

func newRule(pattern string) (rule, error) {
	var made rule
	pattern, made.included = strings.CutPrefix(strings.TrimSpace(pattern), "!")
	pattern, made.folders = strings.CutSuffix(pattern, "/")
	if pattern == "" {
		return made, errors.New("it is empty")
	}
	anchored := strings.Contains(pattern, "/")
	pattern = strings.TrimPrefix(pattern, "/")
	var expression strings.Builder
	expression.WriteString("^")
	if !anchored {
		expression.WriteString("(?:.*/)?")
	}
	for len(pattern) > 0 {
		switch {
		case strings.HasPrefix(pattern, "**/"):
			expression.WriteString("(?:.*/)?")
			pattern = pattern[3:]
		case strings.HasPrefix(pattern, "**"):
			expression.WriteString(".*")
			pattern = pattern[2:]
		case pattern[0] == '*':
			expression.WriteString("[^/]*")
			pattern = pattern[1:]
		case pattern[0] == '?':
			expression.WriteString("[^/]")
			pattern = pattern[1:]
		case pattern[0] == '[':
			end := strings.IndexByte(pattern, ']')
			if end < 2 {
				return made, errors.New("[ has no ]")
			}
			set := strings.ReplaceAll(pattern[1:end], `\`, `\\`)
			if strings.HasPrefix(set, "!") {
				set = "^" + set[1:]
			}
			expression.WriteString("[" + set + "]")
			pattern = pattern[end+1:]
		default:
			next := strings.IndexAny(pattern, "*?[")
			if next < 0 {
				next = len(pattern)
			}
			expression.WriteString(regexp.QuoteMeta(pattern[:next]))
			pattern = pattern[next:]
		}
	}
	compiled, err := regexp.Compile(expression.String() + "$")
	made.pattern = compiled
	return made, err
}

// match says whether a path is left out; the last rule that matches decides.
func (e *Excludes) match(name string, folder bool) bool {
	if e == nil {
		return false
	}
	out := false
	for _, rule := range e.rules {
		if (folder || !rule.folders) && rule.pattern.MatchString(name) {
			out = !rule.included
		}
	}
	return out
}
