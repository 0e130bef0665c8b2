package layout

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/operator/internal/build/archive"
	"github.com/naeel/sless/operator/internal/build/fault"
)

func TestEntrypoints(t *testing.T) {
	for _, test := range []struct {
		language   Language
		entrypoint string
		want       []string
	}{
		{Python, "handler.handle", []string{"handler.py", "handler/__init__.py"}},
		{Python, "pkg.sub.main", []string{"pkg/sub.py", "pkg/sub/__init__.py"}},
		{Python, "pkg/sub.main", []string{"pkg/sub.py", "pkg/sub/__init__.py"}},
		{Node, "handler.handle", []string{"handler.js", "handler.mjs", "handler.cjs"}},
		{Node, "src.index.handle", []string{"src/index.js", "src/index.mjs", "src/index.cjs"}},
	} {
		if diff := cmp.Diff(test.want, Entrypoints(test.language, test.entrypoint)); diff != "" {
			t.Errorf("%s %s: %s", test.language, test.entrypoint, diff)
		}
	}
}

func TestFindManifest(t *testing.T) {
	type files = map[string]string
	for name, test := range map[string]struct {
		language Language
		files    files
		want     *Manifest
	}{
		"python, none":              {Python, files{"handler.py": ""}, nil},
		"python, vendored":          {Python, files{"handler.py": "", "lib/requests/__init__.py": ""}, nil},
		"python, only comments":     {Python, files{"requirements.txt": "# nothing\n\n"}, nil},
		"python, below the root":    {Python, files{"docs/requirements.txt": "x"}, nil},
		"python, plain":             {Python, files{"handler.py": "", "requirements.txt": "requests==2.32.3\n"}, &Manifest{Files: []string{"requirements.txt"}}},
		"python, not python's":      {Python, files{"package.json": `{"dependencies":{"x":"1"}}`}, nil},
		"python, includes":          {Python, files{"requirements.txt": "-r requirements-base.txt\n-c ./constraints.txt", "requirements-base.txt": "x", "constraints.txt": "x<2"}, &Manifest{Files: []string{"constraints.txt", "requirements-base.txt", "requirements.txt"}}},
		"python, includes a folder": {Python, files{"requirements.txt": "-r deps/base.txt", "deps/base.txt": "x"}, &Manifest{Files: []string{"requirements.txt"}, AllCode: true}},
		"python, included local":    {Python, files{"requirements.txt": "-r requirements-b.txt", "requirements-b.txt": "./local"}, &Manifest{Files: []string{"requirements-b.txt", "requirements.txt"}, AllCode: true}},
		"pyproject, tools only":     {Python, files{"pyproject.toml": "[tool.ruff]\nline-length = 100"}, nil},
		"pyproject":                 {Python, files{"pyproject.toml": "[project]\nname = \"x\"\ndependencies = [\"requests\"]"}, &Manifest{Files: []string{"pyproject.toml"}}},
		"pyproject, local":          {Python, files{"pyproject.toml": "[project]\ndependencies = [\"x @ file:///a\"]"}, &Manifest{Files: []string{"pyproject.toml"}, AllCode: true}},
		"pyproject, dynamic":        {Python, files{"pyproject.toml": "[project]\ndynamic = [\n \"version\", \"dependencies\"]"}, &Manifest{Files: []string{"pyproject.toml"}}},
		"pyproject, poetry":         {Python, files{"pyproject.toml": "[tool.poetry.dependencies]\nx = \"1\""}, &Manifest{Files: []string{"pyproject.toml"}}},
		"pyproject, poetry groups":  {Python, files{"pyproject.toml": "[tool.poetry.group.dev.dependencies]\nx = \"1\""}, nil},
		"pylock":                    {Python, files{"pylock.toml": "", "pylock.dev.toml": ""}, &Manifest{Files: []string{"pylock.toml"}}},
		"foreign lock":              {Python, files{"poetry.lock": "", "pyproject.toml": ""}, &Manifest{Files: []string{"poetry.lock", "pyproject.toml"}}},

		"node, none":           {Node, files{"handler.js": ""}, nil},
		"node, no dependency":  {Node, files{"package.json": `{"type":"module","devDependencies":{"x":"1"}}`}, nil},
		"node, plain":          {Node, files{"package.json": `{"dependencies":{"ms":"2.1.3"}}`}, &Manifest{Files: []string{"package.json"}}},
		"node, BOM":            {Node, files{"package.json": "\ufeff" + `{"dependencies":{"ms":"2.1.3"}}`}, &Manifest{Files: []string{"package.json"}}},
		"node, lock":           {Node, files{"package.json": `{"dependencies":{"ms":"2.1.3"}}`, "package-lock.json": "{}", ".npmrc": ""}, &Manifest{Files: []string{".npmrc", "package-lock.json", "package.json"}}},
		"node, vendored":       {Node, files{"package.json": `{"dependencies":{"ms":"2","@a/b":"1"}}`, "node_modules/ms/index.js": "", "node_modules/@a/b/index.js": ""}, nil},
		"node, half vendored":  {Node, files{"package.json": `{"dependencies":{"ms":"2","@a/b":"1"}}`, "node_modules/ms/index.js": ""}, &Manifest{Files: []string{"package.json"}}},
		"node, optional":       {Node, files{"package.json": `{"optionalDependencies":{"ms":"2"}}`}, &Manifest{Files: []string{"package.json"}}},
		"node, local":          {Node, files{"package.json": `{"dependencies":{"x":"file:./x"}}`}, &Manifest{Files: []string{"package.json"}, AllCode: true}},
		"node, local path":     {Node, files{"package.json": `{"dependencies":{"x":"../x"}}`}, &Manifest{Files: []string{"package.json"}, AllCode: true}},
		"node, override":       {Node, files{"package.json": `{"dependencies":{"x":"1"},"overrides":{"y":"file:y"}}`}, &Manifest{Files: []string{"package.json"}, AllCode: true}},
		"node, script":         {Node, files{"package.json": `{"dependencies":{"x":"1"},"scripts":{"postinstall":"node p.js"}}`}, &Manifest{Files: []string{"package.json"}, AllCode: true}},
		"node, another script": {Node, files{"package.json": `{"dependencies":{"x":"1"},"scripts":{"test":"x","prepare":"husky"}}`}, &Manifest{Files: []string{"package.json"}}},
		"node, workspaces":     {Node, files{"package.json": `{"dependencies":{"x":"1"},"workspaces":["a"]}`}, &Manifest{Files: []string{"package.json"}, AllCode: true}},
		"node, pnpm":           {Node, files{"package.json": `{"dependencies":{"x":"1"}}`, "pnpm-lock.yaml": ""}, &Manifest{Files: []string{"package.json", "pnpm-lock.yaml"}}},
		"node, pnpm workspace": {Node, files{"package.json": `{"dependencies":{"x":"1"}}`, "pnpm-lock.yaml": "", "pnpm-workspace.yaml": ""}, &Manifest{Files: []string{"package.json", "pnpm-lock.yaml", "pnpm-workspace.yaml"}, AllCode: true}},
		"node, yarn":           {Node, files{"package.json": `{"dependencies":{"x":"1"}}`, "yarn.lock": "", ".yarnrc.yml": ""}, &Manifest{Files: []string{".yarnrc.yml", "package.json", "yarn.lock"}}},
		"node, yarn's files":   {Node, files{"package.json": `{"dependencies":{"x":"1"}}`, "yarn.lock": "", ".yarn/plugins/p.cjs": ""}, &Manifest{Files: []string{"package.json", "yarn.lock"}, AllCode: true}},
		"node, patch":          {Node, files{"package.json": `{"dependencies":{"x":"patch:x@1#./p"}}`}, &Manifest{Files: []string{"package.json"}, AllCode: true}},
		"node, build":          {Node, files{"package.json": `{"devDependencies":{"typescript":"5"},"scripts":{"build":"tsc"}}`, "src/handler.ts": ""}, &Manifest{Files: []string{"package.json"}, AllCode: true, Build: true}},
		"node, empty build":    {Node, files{"package.json": `{"scripts":{"build":""}}`}, nil},
		"node, built before":   {Node, files{"package.json": `{"dependencies":{"x":"1"},"scripts":{"build":"tsc"}}`, "node_modules/x/index.js": ""}, nil},
		"node, addon":          {Node, files{"package.json": `{"dependencies":{"x":"1"}}`, "binding.gyp": ""}, &Manifest{Files: []string{"package.json"}, AllCode: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FindManifest(test.language, tree(t, test.files))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func tree(t *testing.T, files map[string]string) *archive.Tree {
	t.Helper()
	made, err := archive.FromFiles(files, archive.Limits{Files: 100, Bytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestBrokenPackageJSON(t *testing.T) {
	_, err := FindManifest(Node, tree(t, map[string]string{"package.json": "{"}))
	refused, ok := errors.AsType[*fault.Error](err)
	if !ok || !refused.Terminal || !strings.Contains(refused.Message, "package.json") {
		t.Errorf("got %v", err)
	}
}

func TestNeedsCode(t *testing.T) {
	for line, want := range map[string]bool{
		"requests": false, "requests==2.32.3": false, "requests[socks, security]>=2,<3": false, "Django ~= 5.0": false, "x (>=1)": false,
		`colorama; sys_platform == "win32"`: false, "a==1 --hash=sha256:abc --hash=sha256:def": false, "x===1.0+local": false,
		"x @ https://files.example.org/x-1.whl": false, "git+https://git.example.org/x.git@v1": false, "https://example.org/x.tar.gz": false,
		"-i https://index.example.org/simple": false, "--extra-index-url=https://e.example.org": false, "--no-binary :all:": false, "--pre": false,
		"-r requirements.txt": false, "--constraint=constraints.txt": false, "-c https://example.org/c.txt": false,
		"-e .": true, "--editable ./pkg": true, ".": true, "./pkg": true, "../pkg": true, "/abs/pkg": true, "pkg/": true, "pkg/sub": true,
		"x.whl": true, "dist/x-1.0.tar.gz": true, "local.zip": true, "file:./x": true, "x @ file:///x": true, "x @ ./y": true,
		"-f ./wheels": true, "--find-links wheels": true, "-r other.txt": true, "-rother.txt": true, "--requirement=sub/r.txt": true,
		"--unheard-of": true, "$(touch x)": true,
	} {
		if got := needsCode(line, []string{"constraints.txt", "requirements.txt"}); got != want {
			t.Errorf("needsCode(%q) = %v, want %v", line, got, want)
		}
	}
}

func TestRequirementLines(t *testing.T) {
	got := requirementLines("a==1 \\\r\n  --hash=sha256:x\r\n# c\n\n  b # why\nc#notcomment\n")
	for i := range got {
		got[i] = strings.Join(strings.Fields(got[i]), " ")
	}
	if want := []string{"a==1 --hash=sha256:x", "b", "c#notcomment"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
