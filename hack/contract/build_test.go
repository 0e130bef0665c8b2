package contract

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// buildable is a package whose handler only its build script makes, with a tool that only development installs.
var buildable = map[string]string{
	"package.json": `{"name":"x","version":"1.0.0","packageManager":"npm@10.0.0","scripts":{"prepare":"exit 9","build":"maker"},
		"dependencies":{"tinydep":"file:./tinydep"},"devDependencies":{"maker":"file:./maker"}}`,
	"source.txt":         "word",
	"tinydep/index.js":   tinyModule,
	"maker/package.json": `{"name":"maker","version":"1.0.0","bin":{"maker":"index.js"}}`,
	"maker/index.js": `#!/usr/bin/env node
		const fs = require('fs');
		fs.mkdirSync('dist');
		fs.writeFileSync('dist/handler.js', "const { word } = require('tinydep'); exports.handle = () => require('fs').readFileSync('source.txt', 'utf8') === 'word' && word;");
		fs.mkdirSync('node_modules/.made', { recursive: true });
		fs.writeFileSync('node_modules/.made/index.js', '');
	`,
	"tinydep/package.json": tinyPackage,
}

// A build script runs with what development needs, and its code is left without that, beside what else the build made.
func TestBuildScript(t *testing.T) {
	t.Parallel()
	r := runtimes[slices.IndexFunc(runtimes, func(r *runtime) bool { return r.name == "nodejs20" })]
	deps := t.TempDir()
	writeFiles(t, deps, map[string]string{"built/left-from-before": "x"})
	output, ok := r.runInstall(t, buildable, deps)
	if !ok || !strings.HasSuffix(output, "sless install: 1 packages installed\n") {
		t.Fatalf("output:\n%s", output)
	}
	left := read(t, deps)
	for _, want := range []string{"built/dist/handler.js", "built/source.txt", "node_modules/tinydep/made", "node_modules/.made/index.js"} {
		if !slices.Contains(left, want) {
			t.Errorf("%s is not there", want)
		}
	}
	for _, name := range left {
		if strings.HasPrefix(name, "node_modules/maker") || strings.HasPrefix(name, "built/node_modules") || strings.HasSuffix(name, "left-from-before") {
			t.Errorf("%s is there", name)
		}
	}
	if text, err := os.ReadFile(filepath.Join(deps, "built/package.json")); err != nil || string(text) != buildable["package.json"] {
		t.Errorf("package.json became %s (%v)", text, err)
	}
	built := function{entrypoint: "dist.handler.handle", files: map[string]string{}}
	for _, name := range left {
		text, err := os.ReadFile(filepath.Join(deps, name))
		if err != nil {
			t.Fatal(err)
		}
		built.files[name] = string(text)
	}
	r.wantFound(t, built)
}

// localPackage is a requirement whose build runs some lines of Python without asking an index for anything; its module has their text.
func localPackage(name, lines string) map[string]string {
	return map[string]string{
		"requirements.txt":       "./" + name + "\n",
		name + "/pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n",
		name + "/backend.py": fmt.Sprintf(`
import zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    text = ''
    %[2]s
    wheel = '%[1]s-1-py3-none-any.whl'
    with zipfile.ZipFile(directory + '/' + wheel, 'w') as archive:
        archive.writestr('%[1]s.py', 'text = ' + repr(text))
        archive.writestr('%[1]s-1.dist-info/METADATA', 'Metadata-Version: 2.1\nName: %[1]s\nVersion: 1\n')
        archive.writestr('%[1]s-1.dist-info/WHEEL', 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        archive.writestr('%[1]s-1.dist-info/RECORD', '')
    return wheel
`, name, lines),
	}
}

// What SLESS_SECRETS_FILE lists comes into no line of the log, and into no file that is kept.
func TestInstallKeepsSecrets(t *testing.T) {
	const value = "hunter2-hunter2"
	thieves := map[string][]map[string]string{
		"python3.11": {
			localPackage("thief", "raise SystemExit('saw hunter2-hunter2')"),
			localPackage("thief", "text = 'hunter2' + '-hunter2'"),
		},
		"nodejs20": {
			{"package.json": `{"dependencies":{},"scripts":{"postinstall":"echo saw hunter2-hunter2; exit 3"}}`},
			{"package.json": `{"dependencies":{},"scripts":{"postinstall":"mkdir -p node_modules/thief; echo hunter2-hunter2 > node_modules/thief/index.js"}}`},
		},
	}
	says := []string{"saw ***", "a credential of build.secretName"}
	eachRuntime(t, func(t *testing.T, r *runtime) {
		for i, files := range thieves[r.name] {
			list := filepath.Join(t.TempDir(), "list")
			if err := os.WriteFile(list, []byte(value+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			output, ok := r.runInstall(t, files, t.TempDir(), "SLESS_SECRETS_FILE="+list)
			if ok || !strings.Contains(output, says[i]) || strings.Contains(output, value) {
				t.Errorf("ended with %v and\n%s", ok, output)
			}
		}
	})
}
