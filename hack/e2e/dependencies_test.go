package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// Real packages from the real indexes, three for each language; a change of code alone installs nothing and makes no Job.
func TestThreePackages(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	py := func(version string) string {
		return function("py", "python3.11", map[string]string{
			"requirements.txt": "requests==2.32.3\npython-dateutil==2.9.0.post0\nPyYAML==6.0.2\n",
			"handler.py":       "import requests, dateutil.parser, yaml\ndef handle(event):\n    return f\"{requests.__version__} {dateutil.parser.parse('2026-01-02').year} {yaml.safe_load('a: 1')['a']} " + version + "\"\n",
		}) + httpTrigger("py")
	}
	js := func(version string) string {
		return function("js", "nodejs20", map[string]string{
			"package.json": `{"type": "module", "dependencies": {"ms": "2.1.3", "uuid": "10.0.0", "lodash": "4.17.21"}}`,
			"handler.js":   "import ms from 'ms';\nimport { validate } from 'uuid';\nimport _ from 'lodash';\nexport const handle = () => `${ms(60000)} ${validate('x')} ${_.capitalize('ok')} " + version + "`;\n",
		}) + httpTrigger("js")
	}
	want := map[string]string{"py": "2.32.3 2026 1 ", "js": "1m false Ok "}
	first, second := map[string]time.Duration{}, map[string]time.Duration{}
	build := func(name, manifest, version string) time.Duration {
		begin := time.Now()
		apply(t, namespace, manifest)
		waitFunction(t, namespace, name, "True", v1alpha1.ReasonReady)
		took := time.Since(begin)
		if got := mustCall(t, "GET", namespace, name, "", "", 200); got.body != want[name]+version {
			t.Errorf("%s answers %q, want %q", name, got.body, want[name]+version)
		}
		return took
	}
	first["py"], first["js"] = build("py", py("one"), "one"), build("js", js("one"), "one")
	eventually(t, "the Jobs are gone", func() error { return nothingOf(t, names.BuildNamespace, namespace) })
	seen := watchJobs(t, namespace)
	second["py"], second["js"] = build("py", py("two"), "two"), build("js", js("two"), "two")
	if jobs := seen(); len(jobs) > 0 {
		t.Errorf("the change of code made the Jobs %v", jobs)
	}
	for _, name := range []string{"py", "js"} {
		t.Logf("%s: first build %.1f s, change of code %.1f s", name, first[name].Seconds(), second[name].Seconds())
	}
}

// watchJobs notes every Job of a tenant's builds from now on, and tells which when it is called.
func watchJobs(t *testing.T, namespace string) func() map[string]bool {
	t.Helper()
	seen, done, stop := map[string]bool{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			jobs := &batchv1.JobList{}
			if err := kube.List(t.Context(), jobs, client.InNamespace(names.BuildNamespace), client.MatchingLabels{names.NamespaceLabel: namespace}); err == nil {
				for _, job := range jobs.Items {
					seen[job.Name] = true
				}
			}
			select {
			case <-stop:
				return
			case <-t.Context().Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() map[string]bool { close(stop); <-done; return seen }
}

// Lock files of other tools are installed from, and refused when they are not what the manifest asks for.
func TestLockFiles(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	const packageJSON, handler = `{"dependencies": {"ms": "2.1.3"}, "devDependencies": {"is-number": "7.0.0"}}`,
		"exports.handle = () => { try { require('is-number'); return 'development'; } catch { return require('ms')(60000); } };\n"
	const ms, isNumber = "sha512-6FlzubTLZG3J2a/NVCAleEhjzq5oxgHyaCU9yYXvcLsvoVaHJq/s5xXI6/XXP6tz7R9xAOtHnSO/tXtF3WRTlA==", "sha512-41Cifkg6e8TylSpdtTpeLVMqvSBEVzTttHvERD741+pnZ8ANv0004MRL43QKPDlK9cGvNp6NZWZUBlbGXYxxng=="
	pnpm := fmt.Sprintf(`lockfileVersion: '9.0'
settings:
  autoInstallPeers: true
  excludeLinksFromLockfile: false
importers:
  .:
    dependencies:
      ms:
        specifier: 2.1.3
        version: 2.1.3
    devDependencies:
      is-number:
        specifier: 7.0.0
        version: 7.0.0
packages:
  is-number@7.0.0:
    resolution: {integrity: %s}
    engines: {node: '>=0.12.0'}
  ms@2.1.3:
    resolution: {integrity: %s}
snapshots:
  is-number@7.0.0: {}
  ms@2.1.3: {}
`, isNumber, ms)
	classic := fmt.Sprintf("# yarn lockfile v1\n\n\nis-number@7.0.0:\n  version \"7.0.0\"\n  integrity %s\n\nms@2.1.3:\n  version \"2.1.3\"\n  integrity %s\n", isNumber, ms)
	yarn := `__metadata:
  version: 8
  cacheKey: 10c0

"is-number@npm:7.0.0":
  version: 7.0.0
  resolution: "is-number@npm:7.0.0"
  checksum: 10c0/b4686d0d3053146095ccd45346461bc8e53b80aeb7671cc52a4de02dbbf7dc0d1d2a986e2fe4ae206984b4d34ef37e8b795ebc4f4295c978373e6575e295d811
  languageName: node
  linkType: hard

"ms@npm:2.1.3":
  version: 2.1.3
  resolution: "ms@npm:2.1.3"
  checksum: 10c0/d924b57e7312b3b63ad21fc5b3dc0af5e78d61a1fc7cfb5457edaf26326bf62be5307cc87ffb6862ef1c2b33b0233cdb5d4f01c4c958cc0d660948b65a287a48
  languageName: node
  linkType: hard

"root-workspace-0b6124@workspace:.":
  version: 0.0.0-use.local
  resolution: "root-workspace-0b6124@workspace:."
  dependencies:
    is-number: "npm:7.0.0"
    ms: "npm:2.1.3"
  languageName: unknown
  linkType: soft
`
	node := map[string]map[string]string{
		"pnpm": {"pnpm-lock.yaml": pnpm}, "yarn1": {"yarn.lock": classic}, "yarn4": {"yarn.lock": "# comment\n\n" + yarn},
	}
	for name, files := range node {
		files["package.json"], files["handler.js"] = packageJSON, handler
		apply(t, namespace, function(name, "nodejs20", files)+httpTrigger(name))
		stale := map[string]string{}
		for file, text := range files {
			stale[file] = strings.ReplaceAll(text, `"ms": "2.1.3"}`, `"ms": "2.1.3", "uuid": "10.0.0"}`)
		}
		apply(t, namespace, function(name+"-stale", "nodejs20", stale))
	}
	const uv = `version = 1
[[package]]
name = "hello"
version = "1"
source = { virtual = "." }
dependencies = [{ name = "idna" }]
[[package]]
name = "idna"
version = "3.10"
source = { registry = "https://index.example.org/simple" }
wheels = [{ url = "https://index.example.org/idna-3.10-py3-none-any.whl", hash = "sha256:946d195a0d259cbba61165e88e65941f16e9b36ea6ddb97f00452bae8b1287d3" }]
`
	py := map[string]string{"handler.py": "import idna\ndef handle(event):\n    return idna.__version__\n", "pyproject.toml": "[project]\nname = 'hello'\nversion = '1'\ndependencies = ['idna>=3']\n", "uv.lock": uv}
	apply(t, namespace, function("uv", "python3.11", py)+httpTrigger("uv"))
	py["uv.lock"] = strings.Replace(uv, "sha256:946d", "sha256:0000", 1)
	apply(t, namespace, function("uv-stale", "python3.11", py))
	for name, want := range map[string]string{"pnpm": "1m", "yarn1": "1m", "yarn4": "1m", "uv": "3.10"} {
		waitFunction(t, namespace, name, "True", v1alpha1.ReasonReady)
		if got := mustCall(t, "GET", namespace, name, "", "", 200); got.body != want {
			t.Errorf("%s answers %q", name, got.body)
		}
	}
	for name, want := range map[string]string{"pnpm": "uuid", "yarn1": "needs to be updated", "yarn4": "yarn.lock is not what package.json asks for", "uv": "HASHES"} {
		f := waitFunction(t, namespace, name+"-stale", "False", v1alpha1.ReasonDependenciesFailed)
		if !strings.Contains(f.Status.Build.LogTail, want) {
			t.Errorf("%s: the log does not say %q:\n%s", name, want, f.Status.Build.LogTail)
		}
	}
}

// TypeScript is compiled by the function's own build script; the compiler does not come along.
func TestBuildScript(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	typescript := func(word, script string) string {
		return function("ts", "nodejs20", map[string]string{
			"package.json":   `{"scripts": {"build": "` + script + `"}, "dependencies": {"ms": "2.1.3"}, "devDependencies": {"typescript": "5.6.3", "@types/node": "20.14.0"}}`,
			"tsconfig.json":  `{"compilerOptions": {"outDir": "dist", "module": "commonjs", "target": "es2022", "types": ["node"]}, "include": ["src"]}`,
			"src/word.ts":    "export const word: string = '" + word + "';\n",
			"src/handler.ts": "import { existsSync } from 'node:fs';\nimport { word } from './word';\nconst ms = require('ms');\nexport function handle(event: unknown): string {\n  return [word, ms(60000), process.cwd(), existsSync('/function/node_modules/typescript')].join(' ');\n}\n",
		}, "entrypoint: dist.handler.handle") + httpTrigger("ts")
	}
	for _, word := range []string{"one", "two"} {
		apply(t, namespace, typescript(word, "tsc"))
		waitFunction(t, namespace, "ts", "True", v1alpha1.ReasonReady)
		if got := mustCall(t, "GET", namespace, "ts", "", "", 200); got.body != word+" 1m /function/built false" {
			t.Errorf("got %q", got.body)
		}
	}
	apply(t, namespace, typescript("three", "tsc --outDir lib"))
	f := waitFunction(t, namespace, "ts", "False", v1alpha1.ReasonSourceInvalid)
	if ready, _ := condition(f.Status.Conditions, f.Generation); !strings.Contains(ready.Message, "dist/handler.js") {
		t.Errorf("message %q", ready.Message)
	}
	apply(t, namespace, typescript("four'; const wrong: number = 'x", "tsc"))
	f = waitFunction(t, namespace, "ts", "False", v1alpha1.ReasonDependenciesFailed)
	if !strings.Contains(f.Status.Build.LogTail, "src/word.ts") {
		t.Errorf("the log does not name the file:\n%s", f.Status.Build.LogTail)
	}
	if got := mustCall(t, "GET", namespace, "ts", "", "", 200); !strings.HasPrefix(got.body, "two ") {
		t.Errorf("the version before answers %q", got.body)
	}
}

// A build that takes too much says what of, heals when it takes less, and leaves nothing.
func TestBuildsThatTakeTooMuch(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	greedy := map[string]struct{ lines, reason, says, more string }{
		"memory": {"\nimport ctypes\nkept = []\nwhile True:\n    kept.append(bytearray(b'x') * (64 << 20))", v1alpha1.ReasonBuildOutOfMemory, "build.memory", "build: {timeoutSeconds: 300}"},
		"time":   {"\nimport time\nprint('it goes on', flush=True)\ntime.sleep(3600)", v1alpha1.ReasonBuildTimeout, "20 seconds", "build: {timeoutSeconds: 20}"},
		"disk":   {"\nimport os, time\nos.posix_fallocate(os.open('/deps/python/large', os.O_CREAT | os.O_WRONLY), 0, 5 << 30)\ntime.sleep(240)", v1alpha1.ReasonBuildOutOfDisk, "build.volumeSize", "build: {timeoutSeconds: 300}"},
	}
	files := func(lines string) map[string]string {
		made := localPackage("greedy", lines)
		made["handler.py"] = "import greedy\ndef handle(event):\n    return 'fed'\n"
		return made
	}
	for name, test := range greedy {
		apply(t, namespace, function(name, "python3.11", files(test.lines), test.more))
	}
	for name, test := range greedy {
		f := waitFunction(t, namespace, name, "False", test.reason)
		if ready, _ := condition(f.Status.Conditions, f.Generation); !strings.Contains(ready.Message, test.says) {
			t.Errorf("%s: message %q", name, ready.Message)
		}
	}
	for name := range greedy { // a slow machine may need longer than was too long before
		apply(t, namespace, function(name, "python3.11", files("\n# little "+name), "build: {timeoutSeconds: 300}")+httpTrigger(name))
	}
	for name := range greedy {
		waitFunction(t, namespace, name, "True", v1alpha1.ReasonReady)
		mustCall(t, "GET", namespace, name, "", "", 200)
	}
	eventually(t, "the builds are gone", func() error { return nothingOf(t, names.BuildNamespace, namespace) })
}

// A build that is cancelled, by deleting its Function or by another source, leaves neither Job nor Secret nor image.
func TestCancelledBuildLeavesNothing(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	slow := localPackage("slow", "\nimport time\ntime.sleep(3600)")
	slow["handler.py"] = goodHandler
	for _, name := range []string{"deleted", "changed"} {
		slow["slow/which"] = name // builds of their own
		apply(t, namespace, function(name, "python3.11", slow))
	}
	eventually(t, "both builds run", func() error {
		jobs := &batchv1.JobList{}
		if err := kube.List(t.Context(), jobs, client.InNamespace(names.BuildNamespace), client.MatchingLabels{names.NamespaceLabel: namespace}); err != nil {
			return err
		}
		running := 0
		for _, job := range jobs.Items {
			running += int(job.Status.Active)
		}
		if running != 2 {
			return fmt.Errorf("%d run", running)
		}
		return nil
	})
	kubectl(t, "", "delete", "function", "deleted", "-n", namespace)
	apply(t, namespace, python("changed", goodHandler))
	waitFunction(t, namespace, "changed", "True", v1alpha1.ReasonReady)
	eventually(t, "the builds are gone", func() error { return nothingOf(t, names.BuildNamespace, namespace) })
	eventually(t, "no image of theirs is left", func() error {
		for _, tag := range tagsOf(t, namespace) {
			if !strings.HasPrefix(tag, "changed-") {
				return fmt.Errorf("there is %s", tag)
			}
		}
		return nil
	})
}
