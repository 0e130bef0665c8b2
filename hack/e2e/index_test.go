package e2e

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// indexToken opens the private index; it must not be found anywhere.
const indexToken = "t0ken-of-the-private-index"

// privateIndex is an index for pip (basic authentication) and a registry for npm (a bearer token) with one package each.
type privateIndex struct {
	wheel, tarball []byte
	opened         atomic.Int32 // how often something was asked for with the token
}

func newPrivateIndex(t *testing.T) *privateIndex {
	t.Helper()
	index := &privateIndex{}
	var wheel bytes.Buffer
	zipped := zip.NewWriter(&wheel)
	for _, file := range [][2]string{
		{"sless_e2e_private.py", "word = 'private'\n"},
		{"sless_e2e_private-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: sless-e2e-private\nVersion: 1.0\n"},
		{"sless_e2e_private-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"sless_e2e_private-1.0.dist-info/RECORD", ""},
	} {
		writer, err := zipped.Create(file[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(writer, file[1]); err != nil {
			t.Fatal(err)
		}
	}
	var tarball bytes.Buffer
	zipper := gzip.NewWriter(&tarball)
	tarred := tar.NewWriter(zipper)
	for _, file := range [][2]string{{"package/package.json", `{"name":"@sless-e2e/private","version":"1.0.0"}`}, {"package/index.js", "exports.word = 'private';\n"}} {
		if err := tarred.WriteHeader(&tar.Header{Name: file[0], Mode: 0o644, Size: int64(len(file[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(tarred, file[1]); err != nil {
			t.Fatal(err)
		}
	}
	for _, closer := range []io.Closer{zipped, tarred, zipper} {
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	index.wheel, index.tarball = wheel.Bytes(), tarball.Bytes()
	return index
}

func (x *privateIndex) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, password, _ := r.BasicAuth()
	if password != indexToken && r.Header.Get("Authorization") != "Bearer "+indexToken {
		w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	x.opened.Add(1)
	const wheel = "sless_e2e_private-1.0-py3-none-any.whl"
	path, _ := url.PathUnescape(r.URL.EscapedPath())
	switch path {
	case "/simple/sless-e2e-private/":
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!DOCTYPE html><html><body><a href="/files/%[1]s">%[1]s</a></body></html>`, wheel)
	case "/files/" + wheel:
		w.Write(x.wheel) //nolint:errcheck // the client notices
	case "/npm/@sless-e2e/private":
		digest := sha512.Sum512(x.tarball)
		dist := map[string]string{"tarball": "http://" + r.Host + "/npm/@sless-e2e/private/-/private-1.0.0.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(digest[:])}
		json.NewEncoder(w).Encode(map[string]any{ //nolint:errcheck // the client notices
			"name": "@sless-e2e/private", "dist-tags": map[string]string{"latest": "1.0.0"},
			"versions": map[string]any{"1.0.0": map[string]any{"name": "@sless-e2e/private", "version": "1.0.0", "dist": dist}},
		})
	case "/npm/@sless-e2e/private/-/private-1.0.0.tgz":
		w.Write(x.tarball) //nolint:errcheck // the client notices
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// letBuildsReach opens an address of this machine to build pods, as the operator of a platform with an index inside does.
func letBuildsReach(t *testing.T, namespace, address string) {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(at.Host)
	if err != nil {
		t.Fatal(err)
	}
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace, Namespace: names.BuildNamespace},
		Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Egress: []networkingv1.NetworkPolicyEgressRule{{
				To:    []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: host + "/32"}}},
				Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.Parse(port))}},
			}},
		},
	}
	if err := kube.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.Delete(context.Background(), policy); err != nil {
			t.Error(err)
		}
	})
}

// A private index is opened by the tenant's own Secret, which shows nowhere; without it the build says what it could not get.
func TestPrivateIndex(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	index := newPrivateIndex(t)
	address := serve(t, index)
	letBuildsReach(t, namespace, address)
	host := strings.TrimPrefix(address, "http://")
	machine, _, _ := net.SplitHostPort(host)
	py := func(more ...string) string {
		return function("py", "python3.11", map[string]string{
			"handler.py": "import sless_e2e_private, idna\ndef handle(event):\n    return sless_e2e_private.word\n", "requirements.txt": "sless-e2e-private==1.0\nidna==3.10\n",
		}, more...) + httpTrigger("py")
	}
	js := func(more ...string) string {
		return function("js", "nodejs20", map[string]string{
			"handler.js": "exports.handle = () => require('@sless-e2e/private').word + require('ms')(60000);\n", "package.json": `{"dependencies":{"@sless-e2e/private":"1.0.0","ms":"2.1.3"}}`,
		}, more...) + httpTrigger("js")
	}
	apply(t, namespace, py())
	apply(t, namespace, js())
	for function, missing := range map[string]string{"py": "sless-e2e-private", "js": "@sless-e2e/private"} {
		f := waitFunction(t, namespace, function, "False", v1alpha1.ReasonDependenciesFailed)
		if !strings.Contains(strings.ReplaceAll(f.Status.Build.LogTail, "%2f", "/"), missing) {
			t.Errorf("the log of %s does not name %s:\n%s", function, missing, f.Status.Build.LogTail)
		}
	}
	if n := index.opened.Load(); n != 0 {
		t.Fatalf("the index was opened %d times without the Secret", n)
	}
	kubectl(t, "", "create", "secret", "generic", "index", "-n", namespace,
		"--from-literal=pip.conf=[global]\nextra-index-url = "+address+"/simple\ntrusted-host = "+host+"\n",
		"--from-literal=netrc=machine "+machine+" login ci password "+indexToken+"\n",
		"--from-literal=npmrc=@sless-e2e:registry="+address+"/npm/\n//"+host+"/npm/:_authToken="+indexToken+"\n")
	apply(t, namespace, py("build: {secretName: index}"))
	apply(t, namespace, js("build: {secretName: index}"))
	// It prints what it got, and fails.
	apply(t, namespace, function("leak", "nodejs20", map[string]string{
		"handler.js":   "exports.handle = () => 1;\n",
		"package.json": `{"dependencies":{"ms":"2.1.3"},"scripts":{"postinstall":"cat $NPM_CONFIG_USERCONFIG $NETRC; exit 3"}}`,
	}, "build: {secretName: index}"))
	for function, want := range map[string]string{"py": "private", "js": "private1m"} {
		f := waitFunction(t, namespace, function, "True", v1alpha1.ReasonReady)
		if got := mustCall(t, "GET", namespace, function, "", "", 200); got.body != want {
			t.Errorf("%s answers %q", function, got.body)
		}
		findInImage(t, f.Status.Image, indexToken)
	}
	if index.opened.Load() == 0 {
		t.Error("nobody opened the index")
	}
	f := waitFunction(t, namespace, "leak", "False", v1alpha1.ReasonDependenciesFailed)
	if tail := f.Status.Build.LogTail; !strings.Contains(tail, ":_authToken=***") || !strings.Contains(tail, "password ***") {
		t.Errorf("the log's end is\n%s", tail)
	}
	shown := map[string]string{"the operator's log": programLogs(t, "operator")}
	for _, args := range [][]string{
		{"get", "functions", "-n", namespace, "-o", "yaml"}, {"get", "events", "-A", "-o", "yaml"},
		{"get", "jobs,pods,configmaps", "-n", names.BuildNamespace, "-o", "yaml"}, {"get", "all,secrets,configmaps", "-n", names.FunctionNamespace(namespace), "-o", "yaml"},
	} {
		shown["what kubectl "+strings.Join(args, " ")+" says"] = kubectl(t, "", args...)
	}
	for where, text := range shown {
		if strings.Contains(text, indexToken) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(indexToken))) {
			t.Errorf("the token is in %s", where)
		}
	}
	eventually(t, "the build's copy of the Secret is gone", func() error {
		// The one that fails is tried again later.
		kubectl(t, "", "delete", "function", "leak", "-n", namespace, "--ignore-not-found", "--wait=false")
		return nothingOf(t, names.BuildNamespace, namespace)
	})
}

// findInImage looks for a text in all that an image is made of: its manifest, its configuration, and what its layers unpack to.
func findInImage(t *testing.T, image, text string) {
	t.Helper()
	ref, err := name.ParseReference(image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(ref, remote.WithContext(t.Context()), remote.WithTransport(clusterTransport()), remote.WithAuth(registryLogin(t, "registry-pull", readPlatform(t).Registry.Host)))
	if err != nil {
		t.Fatal(err)
	}
	for what, read := range map[string]func() ([]byte, error){"manifest": pulled.RawManifest, "configuration": pulled.RawConfigFile} {
		if raw, err := read(); err != nil || bytes.Contains(raw, []byte(text)) {
			t.Errorf("the %s of %s has it (%v)", what, image, err)
		}
	}
	layers, err := pulled.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for i, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		found, err := contains(content, []byte(text))
		content.Close()
		if err != nil || found {
			t.Errorf("layer %d of %s has it: %v, %v", i, image, found, err)
		}
	}
}

// contains reads a stream to its end, unless the text comes first.
func contains(stream io.Reader, text []byte) (bool, error) {
	const piece = 1 << 20
	buffer := make([]byte, 0, piece+len(text))
	for {
		n, err := stream.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		if bytes.Contains(buffer, text) {
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		keep := min(len(buffer), len(text)-1)
		buffer = buffer[:copy(buffer, buffer[len(buffer)-keep:])]
	}
}
