package e2e

import (
	"archive/zip"
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/naeel/sless/api/v1alpha1"
)

// entry is one entry of an archive a test makes.
type entry struct {
	name, text string
	mode       fs.FileMode
}

// archive makes a zip of the entries as they are, good or hostile.
func archive(t *testing.T, entries ...entry) []byte {
	t.Helper()
	buffer := &bytes.Buffer{}
	writer := zip.NewWriter(buffer)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		header.SetMode(e.mode | 0o644)
		file, err := writer.CreateHeader(header)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

const goodHandler = "def handle(event):\n    return 'mended'\n"

// fromS3 is a Function whose code is the object of this key in the tenant's own folder.
func fromS3(name, key, codeHash string) string {
	return fmt.Sprintf("apiVersion: sless.io/v1alpha1\nkind: Function\nmetadata: {name: %s}\nspec: {runtime: python3.11, source: {s3: {key: %s}}, codeHash: %q}\n", name, key, codeHash)
}

// Every bad archive ends in a condition that names the thing; good bytes under the same key heal it; a neighbour notices nothing.
func TestBadArchivesHeal(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	apply(t, namespace, python("neighbour", "def handle(event):\n    return 'fine'\n")+httpTrigger("neighbour"))
	bomb := strings.Repeat("\x00", 64<<20)
	manyFiles := make([]entry, 20001)
	for i := range manyFiles {
		manyFiles[i] = entry{name: fmt.Sprintf("f%d", i)}
	}
	noise := make([]byte, 4096)
	_, _ = rand.Read(noise)
	bombs := make([]entry, 17)
	for i := range bombs {
		bombs[i] = entry{name: fmt.Sprintf("zero%d", i), text: bomb}
	}
	good := entry{name: "handler.py", text: goodHandler}
	tests := map[string]struct {
		bytes  []byte
		reason string
		says   string
	}{
		"absent":    {nil, v1alpha1.ReasonSourceNotFound, "absent.zip"},
		"no-zip":    {noise, v1alpha1.ReasonSourceInvalid, "zip"},
		"dot-dot":   {archive(t, good, entry{name: "../evil.py", text: "x"}), v1alpha1.ReasonSourceInvalid, "../evil.py"},
		"absolute":  {archive(t, good, entry{name: "/etc/evil.py", text: "x"}), v1alpha1.ReasonSourceInvalid, "/etc/evil.py"},
		"symlink":   {archive(t, good, entry{"link", "../../etc/passwd", fs.ModeSymlink}), v1alpha1.ReasonSourceInvalid, "link"},
		"bomb":      {archive(t, append(bombs, good)...), v1alpha1.ReasonSourceTooLarge, ""},
		"many":      {archive(t, manyFiles...), v1alpha1.ReasonSourceTooLarge, "20000"},
		"no-module": {archive(t, entry{name: "other.py", text: goodHandler}), v1alpha1.ReasonSourceInvalid, "handler"},
		"no-entry":  {archive(t, entry{name: "handler.py", text: "def other(event): pass\n"}), v1alpha1.ReasonCrashed, "handle"},
		"syntax":    {archive(t, entry{name: "handler.py", text: "def handle(event:\n"}), v1alpha1.ReasonCrashed, "handler.py"},
	}
	for name, test := range tests {
		if test.bytes != nil {
			upload(t, namespace, name+".zip", test.bytes)
		}
		apply(t, namespace, fromS3(name, name+".zip", "1"))
	}
	for name, test := range tests {
		f := waitFunction(t, namespace, name, "False", test.reason)
		if ready, _ := condition(f.Status.Conditions, f.Generation); !strings.Contains(ready.Message, test.says) {
			t.Errorf("%s: the message does not say %q: %s", name, test.says, ready.Message)
		}
		if f.Status.Phase != v1alpha1.FunctionFailed {
			t.Errorf("%s: phase %s", name, f.Status.Phase)
		}
	}
	waitFunction(t, namespace, "neighbour", "True", v1alpha1.ReasonReady)
	mustCall(t, "GET", namespace, "neighbour", "", "", 200)

	for name := range tests {
		upload(t, namespace, name+".zip", archive(t, good))
		if name != "absent" { // what was not there is looked for again by itself
			apply(t, namespace, fromS3(name, name+".zip", "2"))
		}
	}
	for name := range tests {
		waitFunction(t, namespace, name, "True", v1alpha1.ReasonReady)
	}
}

// The handler of an archive is found in its one top-level folder, brings its own packages and its executables' bits.
func TestArchive(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	upload(t, namespace, "code.zip", archive(t,
		entry{name: "project/pkg/__init__.py"},
		entry{name: "project/pkg/main.py", text: "import subprocess, vendored\nfrom pkg.sibling import word\ndef run(event):\n    return ' '.join([word, vendored.word, subprocess.check_output(['/function/code/tool'], text=True).strip()])\n"},
		entry{name: "project/pkg/sibling.py", text: "word = 'sibling'\n"},
		entry{name: "project/lib/vendored.py", text: "word = 'vendored'\n"},
		entry{name: "project/.git/config", text: "[remote]\n"},
		entry{"project/tool", "#!/bin/sh\necho tool; test -e /function/code/.git && echo git || true\n", 0o755},
	))
	apply(t, namespace, strings.Replace(fromS3("f", "code.zip", "1"), "runtime:", "entrypoint: pkg.main.run, runtime:", 1)+httpTrigger("f"))
	waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
	if got := mustCall(t, "GET", namespace, "f", "", "", 200); got.body != "sibling vendored tool" {
		t.Errorf("got %q", got.body)
	}
}

// What only the cluster can refuse ends in a condition too; what admission can refuse never gets in.
func TestBadInput(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	apply(t, namespace, function("runtime", "cobol85", map[string]string{"handler.py": goodHandler}))
	f := waitFunction(t, namespace, "runtime", "False", v1alpha1.ReasonUnknownRuntime)
	if ready, _ := condition(f.Status.Conditions, f.Generation); !strings.Contains(ready.Message, "cobol85") || !strings.Contains(ready.Message, "python3.11") {
		t.Errorf("message %q", ready.Message)
	}
	apply(t, namespace, function("runtime", "python3.11", map[string]string{"handler.py": goodHandler}))
	waitFunction(t, namespace, "runtime", "True", v1alpha1.ReasonReady)

	apply(t, namespace, python("env", goodHandler, "env: [{name: A, valueFrom: {secretKeyRef: {name: absent, key: k}}}]"))
	f = waitFunction(t, namespace, "env", "False", v1alpha1.ReasonEnvNotFound)
	if ready, _ := condition(f.Status.Conditions, f.Generation); !strings.Contains(ready.Message, "absent") {
		t.Errorf("message %q", ready.Message)
	}
	kubectl(t, "", "create", "secret", "generic", "absent", "-n", namespace, "--from-literal=k=v")
	waitFunction(t, namespace, "env", "True", v1alpha1.ReasonReady)

	apply(t, namespace, function("deps", "python3.11", map[string]string{"handler.py": goodHandler, "requirements.txt": "no-such-package-of-anybody==99.99.99\n"}))
	f = waitFunction(t, namespace, "deps", "False", v1alpha1.ReasonDependenciesFailed)
	if !strings.Contains(f.Status.Build.LogTail, "no-such-package-of-anybody") {
		t.Errorf("the log tail does not name the package: %q", f.Status.Build.LogTail)
	}

	for name, refused := range map[string]string{
		"a_b":   "metadata.name",
		"1fn":   "DNS label",
		"MyFn":  "metadata.name",
		"kube-": "metadata.name",
	} {
		out, err := tryKubectl(t, python(name, goodHandler), "apply", "-n", namespace, "-f", "-")
		if err == nil || !strings.Contains(out, refused) {
			t.Errorf("a Function named %q: %v %s", name, err, out)
		}
	}
	if out, err := tryKubectl(t, python("f", goodHandler), "apply", "-n", "kube-system", "-f", "-"); err == nil {
		t.Errorf("a Function in kube-system is accepted: %s", out)
	}
	for _, schedule := range []string{"*/5 * * * * *", "*/0 * * * *", "@every 1s", "TZ=UTC 1 * * * *", "0 0 32 * *"} {
		out, err := tryKubectl(t, cronTrigger("t", "f", fmt.Sprintf("{schedule: %q}", schedule)), "apply", "-n", namespace, "-f", "-")
		if err == nil || !strings.Contains(out, "schedule") {
			t.Errorf("schedule %q: %v %s", schedule, err, out)
		}
	}
	apply(t, namespace, cronTrigger("day", "runtime", `{schedule: "0 0 31 2 *"}`))
	waitTrigger(t, namespace, "day", "False", v1alpha1.ReasonInvalidSchedule)
	apply(t, namespace, cronTrigger("zone", "runtime", `{schedule: "0 0 * * *", timeZone: Atlantis/Capital}`))
	waitTrigger(t, namespace, "zone", "False", v1alpha1.ReasonInvalidSchedule)
}

// Whatever is below /function belongs to root, can be read by the function and written by nobody else, with dependencies and without.
func TestFilesBelongToRoot(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	walk := `import os
def handle(event):
    wrong, readable = [], 0
    for folder, folders, files in os.walk('/function', onerror=lambda e: wrong.append(str(e))):
        for path in [folder] + [os.path.join(folder, f) for f in files]:
            stat = os.lstat(path)
            if stat.st_uid or stat.st_gid or (stat.st_mode & 0o022 and not os.path.islink(path)):
                wrong.append('%s %o %d:%d' % (path, stat.st_mode, stat.st_uid, stat.st_gid))
            if os.access(path, os.R_OK):
                readable += 1
            else:
                wrong.append(path)
    return 'good' if readable and not wrong else str(wrong[:10])
`
	apply(t, namespace, python("bare", walk)+httpTrigger("bare"))
	files := map[string]string{"handler.py": walk, "pkg/module.py": "x = 1\n", "requirements.txt": "idna==3.10\n"}
	apply(t, namespace, function("deps", "python3.11", files)+httpTrigger("deps"))
	for _, name := range []string{"bare", "deps"} {
		waitFunction(t, namespace, name, "True", v1alpha1.ReasonReady)
		if got := mustCall(t, "GET", namespace, name, "", "", 200); got.body != "good" {
			t.Errorf("%s: %s", name, got.body)
		}
	}
}
