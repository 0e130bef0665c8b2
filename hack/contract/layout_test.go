package contract

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// layout is code in some shape, which answers "found" when the runtime finds all of it.
type layout struct {
	name       string
	entrypoint string
	files      map[string]string
}

var layouts = map[string][]layout{
	"python3.11": {
		{name: "module in a package", entrypoint: "pkg.sub.handler", files: map[string]string{
			"code/pkg/__init__.py": "", "code/pkg/sub.py": "import sibling\nfrom pkg.other import word\ndef handler(event):\n    return sibling.begin + word\n",
			"code/pkg/other.py": "word = 'und'\n", "code/sibling.py": "begin = 'fo'\n",
		}},
		{name: "module in a directory without __init__", entrypoint: "pkg/sub.handler", files: map[string]string{
			"code/pkg/sub.py": "def handler(event):\n    return 'found'\n",
		}},
		{name: "package itself", entrypoint: "pkg.handler", files: map[string]string{
			"code/pkg/__init__.py": "from .inner import handler\n", "code/pkg/inner.py": "def handler(event):\n    return 'found'\n",
		}},
		{name: "libraries in the code's lib", files: map[string]string{
			"code/handler.py": "import vendored\ndef handle(event, context):\n    return vendored.word\n", "code/lib/vendored.py": "word = 'found'\n",
		}},
		{name: "libraries beside the code", files: map[string]string{
			"code/handler.py": "import vendored\ndef handle(event, context=None):\n    return vendored.word\n", "code/vendored/__init__.py": "word = 'found'\n",
		}},
		{name: "installed libraries, with a .pth", files: map[string]string{
			"code/handler.py":     "import installed, extra\ndef handle(*args):\n    return installed.word + extra.word\n",
			"python/installed.py": "word = 'fo'\n", "python/more.pth": "more\n", "python/more/extra.py": "word = 'und'\n",
		}},
		{name: "the code comes before what is installed", files: map[string]string{
			"code/handler.py": "import both\nhandle = lambda event: both.word\n", "code/both.py": "word = 'found'\n", "python/both.py": "word = 'wrong'\n",
		}},
		// What the server is made of must not be what the user gets.
		{name: "the user's own versions of the runtime's libraries", files: map[string]string{
			"code/handler.py":     "import uvicorn, httptools, uvloop, click, slessd\ndef handle(event):\n    return uvicorn.word + httptools.word + uvloop.word + click.word + slessd.word\n",
			"python/uvicorn.py":   "word = 'f'\n",
			"python/httptools.py": "word = 'o'\n",
			"python/uvloop.py":    "word = 'u'\n",
			"code/click.py":       "word = 'n'\n",
			"code/slessd.py":      "word = 'd'\n",
		}},
		{name: "nothing of the runtime's can be imported", files: map[string]string{
			"code/handler.py": "import importlib.util, sys\nseen = [n for n in ('uvicorn', 'httptools', 'uvloop', 'click', 'slessd', 'pip', 'setuptools') if importlib.util.find_spec(n)]\n" +
				"def handle(event):\n    return 'found' if not seen else str((seen, sys.path))\n",
		}},
		{name: "asyncio at import", files: map[string]string{
			"code/handler.py": "import asyncio\nasync def word():\n    return 'found'\nready = asyncio.run(word())\nasync def handle(event):\n    await asyncio.sleep(0)\n    return ready\n",
		}},
		{name: "a callable object", files: map[string]string{
			"code/handler.py": "class Handler:\n    async def __call__(self, event, context):\n        return 'found'\nhandle = Handler()\n",
		}},
	},
	"nodejs20": {
		{name: "CommonJS", files: map[string]string{
			"code/handler.js": "const { word } = require('./other');\nexports.handle = async () => word;\n", "code/other.js": "module.exports = { word: 'found' };\n",
		}},
		{name: ".cjs", files: map[string]string{"code/handler.cjs": "module.exports = { handle: () => 'found' };\n"}},
		{name: ".mjs, named export", files: map[string]string{
			"code/handler.mjs": "import { word } from './other.mjs';\nexport const handle = () => word;\n", "code/other.mjs": "export const word = 'found';\n",
		}},
		{name: "type module, default export", files: map[string]string{
			"code/package.json": `{"type":"module"}`, "code/handler.js": "export default async () => 'found';\n",
		}},
		{name: "default export with the function in it", files: map[string]string{"code/handler.mjs": "export default { handle: () => 'found' };\n"}},
		{name: "module.exports is the function", files: map[string]string{"code/handler.js": "module.exports = () => 'found';\n"}},
		{name: "await at the top", files: map[string]string{"code/handler.mjs": "const word = await Promise.resolve('found');\nexport const handle = () => word;\n"}},
		{name: "module in a directory", entrypoint: "pkg.sub.handler", files: map[string]string{
			"code/pkg/sub.js": "exports.handler = () => require('./other') + require('../root');\n", "code/pkg/other.js": "module.exports = 'fo';\n", "code/root.js": "module.exports = 'und';\n",
		}},
		{name: "index of a directory", entrypoint: "pkg/sub.handler", files: map[string]string{"code/pkg/sub/index.mjs": "export const handler = () => 'found';\n"}},
		{name: "the code's own node_modules", files: map[string]string{
			"code/handler.js": "exports.handle = () => require('vendored');\n", "code/node_modules/vendored/index.js": "module.exports = 'found';\n",
		}},
		{name: "installed libraries, required", files: map[string]string{
			"code/handler.js": "exports.handle = () => require('installed');\n", "node_modules/installed/index.js": "module.exports = 'found';\n",
		}},
		{name: "installed libraries, imported", files: map[string]string{
			"code/handler.mjs":                    "import word from 'installed';\nexport const handle = () => word;\n",
			"node_modules/installed/package.json": `{"type":"module","exports":"./main.js"}`, "node_modules/installed/main.js": "export default 'found';\n",
		}},
		{name: "the code's own come before what is installed", files: map[string]string{
			"code/handler.js": "exports.handle = () => require('both');\n", "code/node_modules/both/index.js": "module.exports = 'found';\n", "node_modules/both/index.js": "module.exports = 'wrong';\n",
		}},
	},
}

func TestLayouts(t *testing.T) {
	eachRuntime(t, func(t *testing.T, r *runtime) {
		for _, c := range layouts[r.name] {
			t.Run(c.name, func(t *testing.T) {
				r.wantFound(t, function{entrypoint: c.entrypoint, files: c.files})
			})
		}
	})
}

// wantFound runs code once and wants "found" from it.
func (r *runtime) wantFound(t *testing.T, f function, env ...string) {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"event.json": "{}"})
	p := r.launch(t, f, append(env, "SLESS_EVENT_FILE="+filepath.Join(dir, "event.json"))...)
	code := p.exit(t)
	var words struct{ Result string }
	if err := json.Unmarshal(p.lastWords(t), &words); err != nil || code != 0 || words.Result != "found" {
		t.Errorf("exit code %d, last words %s", code, p.lastWords(t))
	}
}

// The user's variables for the language are for the handler; the server must live with any of them.
func TestLanguageVariablesAreTheHandlers(t *testing.T) {
	cases := map[string]struct {
		env  []string
		code string
	}{
		"python3.11": {
			env:  []string{"PYTHONPATH=/nowhere:/function-own", "PYTHONHASHSEED=7", "PYTHONOPTIMIZE=1"},
			code: "import sys\ndef handle(event):\n    return 'found' if '/function-own' in sys.path and sys.flags.optimize == 1 else str(sys.path)\n",
		},
		"nodejs20": {
			env:  []string{"NODE_OPTIONS=--max-old-space-size=123 --no-warnings"},
			code: "import v8 from 'node:v8';\nexport const handle = () => process.env.NODE_OPTIONS?.includes('=123') && v8.getHeapStatistics().heap_size_limit < 400 << 20 ? 'found' : 'wrong';\n",
		},
	}
	eachRuntime(t, func(t *testing.T, r *runtime) {
		c := cases[r.name]
		r.wantFound(t, function{files: map[string]string{"code/handler" + r.ending: c.code}}, c.env...)
	})
}

// Where the code lies is where the handler is, and what was installed can be started by name.
func TestWorkingDirectory(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		got := s.send(t, request{do: "files"}).json(t)
		want, err := filepath.EvalSymlinks(filepath.Join(s.dir, "root", "code"))
		if err != nil {
			t.Fatal(err)
		}
		if got["cwd"] != want {
			t.Errorf("working directory %v, want %s", got["cwd"], want)
		}
		if path, _ := got["path"].(string); !strings.Contains(path, "/usr/bin") {
			t.Errorf("PATH %q", path)
		}
	})
}
