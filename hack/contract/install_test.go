package contract

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// manifests are what a function brings for the install step. None needs an index: what they name lies beside them, or in a folder that
// pip takes for one.
type manifests struct {
	name  string
	files map[string]string
}

var installable = map[string][]manifests{
	"python3.11": {
		{"requirements", map[string]string{"requirements.txt": "./tinydep-1.0-py3-none-any.whl\n", "tinydep-1.0-py3-none-any.whl": wheel}},
		{"requirements that include others", map[string]string{
			"requirements.txt": "-r requirements-more.txt\n", "requirements-more.txt": "./wheels/tinydep-1.0-py3-none-any.whl\n", "wheels/tinydep-1.0-py3-none-any.whl": wheel,
		}},
		{"project dependencies", map[string]string{
			"pyproject.toml": "[project]\nname = 'x'\nversion = '1'\ndependencies = ['tinydep @ file:///proc/self/cwd/tinydep-1.0-py3-none-any.whl']\n", "tinydep-1.0-py3-none-any.whl": wheel,
		}},
		{"lock of another tool", map[string]string{"pyproject.toml": tinyProject, "uv.lock": uvLock(sha256.Sum256([]byte(wheel)))}},
	},
	"nodejs20": {
		{"package.json alone", map[string]string{"package.json": `{"dependencies":{"tinydep":"file:./tinydep"}}`, "tinydep/package.json": tinyPackage, "tinydep/index.js": tinyModule}},
		{"package.json that prepares itself in development", map[string]string{
			"package.json":         `{"scripts":{"prepare":"exit 9"},"dependencies":{"tinydep":"file:./tinydep"},"devDependencies":{"nothing":"file:./nowhere"}}`,
			"tinydep/package.json": tinyPackage, "tinydep/index.js": tinyModule, "package-lock.json": lockWithDev,
		}},
		{"package.json and lock", map[string]string{
			"package.json": `{"name":"x","version":"1.0.0","dependencies":{"tinydep":"file:./tinydep"}}`, "package-lock.json": lock,
			"tinydep/package.json": tinyPackage, "tinydep/index.js": tinyModule,
		}},
	},
}

const tinyProject = "[project]\nname = 'x'\nversion = '1'\ndependencies = ['tinydep>=1']\n[dependency-groups]\ndev = ['nothing']\n"

// uvLock pins tinydep, which the index has, and for development something that it has not.
func uvLock(digest [sha256.Size]byte) string {
	return fmt.Sprintf(`version = 1
[[package]]
name = "x"
source = { virtual = "." }
dependencies = [{ name = "tinydep" }]
[package.dev-dependencies]
dev = [{ name = "nothing" }]
[[package]]
name = "tinydep"
version = "1.0"
source = { registry = "https://index.example.org/simple" }
wheels = [{ url = "https://index.example.org/tinydep-1.0-py3-none-any.whl", hash = "sha256:%x" }]
[[package]]
name = "nothing"
version = "1"
source = { registry = "https://index.example.org/simple" }
`, digest)
}

const (
	// Its install script must run: packages with native code need theirs.
	tinyPackage = `{"name":"tinydep","version":"1.0.0","bin":{"tinycommand":"index.js"},"scripts":{"install":"node -e \"require('fs').writeFileSync('made', 'fo')\""}}`
	tinyModule  = "#!/usr/bin/env node\nexports.word = require('fs').readFileSync(__dirname + '/made', 'utf8') + 'und';\n"
	lock        = `{"name":"x","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{
		"":{"name":"x","version":"1.0.0","dependencies":{"tinydep":"file:./tinydep"}},
		"node_modules/tinydep":{"version":"1.0.0","resolved":"file:tinydep","hasInstallScript":true,"bin":{"tinycommand":"index.js"}}}}`
	lockWithDev = `{"lockfileVersion":3,"requires":true,"packages":{
		"":{"dependencies":{"tinydep":"file:./tinydep"},"devDependencies":{"nothing":"file:./nowhere"}},
		"node_modules/nothing":{"version":"1.0.0","resolved":"file:nowhere","dev":true},
		"node_modules/tinydep":{"version":"1.0.0","resolved":"file:tinydep","hasInstallScript":true,"bin":{"tinycommand":"index.js"}}}}`
)

// wheel is a Python package with a module and a command.
var wheel = func() string {
	var buffer bytes.Buffer
	archive := zip.NewWriter(&buffer)
	for _, file := range []struct{ name, text string }{
		{"tinydep.py", "word = 'found'\ndef main():\n    print(word)\n"},
		{"tinydep-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinydep\nVersion: 1.0\n"},
		{"tinydep-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"tinydep-1.0.dist-info/entry_points.txt", "[console_scripts]\ntinycommand = tinydep:main\n"},
		{"tinydep-1.0.dist-info/RECORD", "tinydep.py,,\ntinydep-1.0.dist-info/METADATA,,\ntinydep-1.0.dist-info/WHEEL,,\ntinydep-1.0.dist-info/entry_points.txt,,\ntinydep-1.0.dist-info/RECORD,,\n"},
	} {
		writer, err := archive.Create(file.name)
		if err != nil {
			panic(err)
		}
		if _, err := writer.Write([]byte(file.text)); err != nil {
			panic(err)
		}
	}
	if err := archive.Close(); err != nil {
		panic(err)
	}
	return buffer.String()
}()

// runInstall runs the install step and returns where it installed to, its output and whether it was content.
func (r *runtime) runInstall(t *testing.T, files map[string]string, deps string, env ...string) (output string, ok bool) {
	t.Helper()
	source := t.TempDir()
	writeFiles(t, source, files)
	index := t.TempDir()
	writeFiles(t, index, map[string]string{"tinydep-1.0-py3-none-any.whl": wheel})
	command := exec.Command(r.install())
	command.Dir = "/"
	command.Env = append(baseEnv(r), "HOME="+t.TempDir(), "SLESS_MANIFESTS="+source, "SLESS_DEPS="+deps, "PIP_NO_INDEX=1", "PIP_FIND_LINKS="+index,
		"NPM_CONFIG_OFFLINE=true", "NODE_ENV=production")
	command.Env = append(command.Env, env...)
	out, err := command.CombinedOutput()
	if err != nil && command.ProcessState.ExitCode() != 1 {
		t.Errorf("exit code %d, want 0 or 1", command.ProcessState.ExitCode())
	}
	after := read(t, source)
	if len(after) != len(files) {
		t.Errorf("the step wrote beside the manifests: %v", after)
	}
	return string(out), err == nil
}

// read lists the files below a directory.
func read(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found = append(found, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var (
	depsDir = map[string]string{"python3.11": "python", "nodejs20": "node_modules"}
	command = map[string]string{"python3.11": "python/bin/tinycommand", "nodejs20": "node_modules/.bin/tinycommand"}
	user    = map[string]string{
		"python3.11": "import tinydep\ndef handle(event):\n    return tinydep.word\n",
		"nodejs20":   "import { word } from 'tinydep';\nexport const handle = () => word;\n",
	}
)

func TestInstall(t *testing.T) {
	eachRuntime(t, func(t *testing.T, r *runtime) {
		for _, c := range installable[r.name] {
			t.Run(c.name, func(t *testing.T) {
				deps := t.TempDir()
				writeFiles(t, deps, map[string]string{depsDir[r.name] + "/left-from-before": "x"})
				output, ok := r.runInstall(t, c.files, deps)
				if !ok || !strings.HasSuffix(output, "sless install: 1 packages installed\n") {
					t.Fatalf("output:\n%s", output)
				}
				files := map[string]string{"code/handler" + r.ending: user[r.name]}
				for _, name := range read(t, deps) {
					if !strings.HasPrefix(name, depsDir[r.name]+"/") || strings.HasSuffix(name, "left-from-before") {
						t.Errorf("%s was left in the volume", name)
					}
				}
				if info, err := os.Stat(filepath.Join(deps, command[r.name])); err != nil || info.Mode()&0o111 == 0 {
					t.Errorf("the package's command: %v", err)
				}
				for _, name := range read(t, deps) {
					text, err := os.ReadFile(filepath.Join(deps, name))
					if err != nil {
						t.Fatal(err)
					}
					files[name] = string(text)
				}
				r.wantFound(t, function{files: files})
			})
		}
	})
}

func TestInstallOfNothing(t *testing.T) {
	nothing := map[string]map[string]string{
		"python3.11": {"pyproject.toml": "[tool.x]\nline = 1\n"},
		"nodejs20":   {"package.json": `{"type":"module"}`},
	}
	eachRuntime(t, func(t *testing.T, r *runtime) {
		for _, files := range []map[string]string{{}, nothing[r.name]} {
			deps := t.TempDir()
			output, ok := r.runInstall(t, files, deps)
			if !ok || !strings.HasSuffix(output, "sless install: 0 packages installed\n") {
				t.Errorf("output:\n%s", output)
			}
			if _, err := os.Stat(filepath.Join(deps, depsDir[r.name])); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestInstallFails(t *testing.T) {
	cases := map[string][]struct {
		files map[string]string
		says  []string
	}{
		"python3.11": {
			{map[string]string{"requirements.txt": "./nowhere.whl\n"}, []string{"nowhere.whl", "pip failed"}},
			{map[string]string{"requirements.txt": "this is no requirement\n"}, []string{"this is no requirement", "pip failed"}},
			{map[string]string{"pyproject.toml": tinyProject, "uv.lock": "version = 1\n"}, []string{"uv.lock does not have tinydep>=1", "uv lock"}},
			{map[string]string{"pyproject.toml": tinyProject, "uv.lock": uvLock(sha256.Sum256(nil))}, []string{"HASH", "pip failed"}},
			{map[string]string{"pyproject.toml": "[tool.poetry.dependencies]\nx = '1'\n"}, []string{"poetry.lock", "poetry lock"}},
			{map[string]string{"pyproject.toml": "[project]\ndynamic = ['dependencies']\n"}, []string{"pyproject.toml", "requirements.txt"}},
			{map[string]string{"pyproject.toml": "[project\n"}, []string{"pyproject.toml is no TOML"}},
		},
		"nodejs20": {
			{map[string]string{"package.json": `{"dependencies":{"x":"file:./nowhere"}}`}, []string{"package.json names x by a path"}},
			{map[string]string{"package.json": `{"dependencies":{"x":"1"}}`, "package-lock.json": lock}, []string{"npm ci failed"}},
			{map[string]string{"package.json": `{"dependencies":{"x":"1"}}`, "bun.lock": ""}, []string{"bun", "package-lock-only"}},
			{map[string]string{"package.json": `{"scripts":{"build":"echo so it goes; exit 9"}}`}, []string{"so it goes", "the build script (npm run build) failed with exit code 9"}},
			{map[string]string{"package.json": `{"dependencies":`}, []string{"package.json is no JSON"}},
		},
	}
	eachRuntime(t, func(t *testing.T, r *runtime) {
		for _, c := range cases[r.name] {
			output, ok := r.runInstall(t, c.files, t.TempDir())
			lines := strings.Split(strings.TrimSpace(output), "\n")
			if ok || !strings.HasPrefix(lines[len(lines)-1], "sless install: ") {
				t.Errorf("%v: ended with %v and the output\n%s", c.files, ok, output)
			}
			for _, part := range c.says {
				if !strings.Contains(output, part) {
					t.Errorf("%v: the output does not say %q:\n%s", c.files, part, output)
				}
			}
		}
	})
}
