package admission

import (
	"fmt"
	"strings"
)

// inline is a spec that is let in, for cases about something else.
const inline = `
runtime: python3.11
source: {inline: {handler.py: "def handle(event): pass"}}
`

func functionCases() []ruleCase {
	var all []ruleCase
	for _, some := range [][]ruleCase{functionNames(), functionSources(), functionAddresses(), functionFiles(), functionEnv(), functionNumbers()} {
		all = append(all, some...)
	}
	return all
}

func functionNames() []ruleCase {
	const rule = "metadata.name must be a DNS label of RFC 1035"
	return []ruleCase{
		{about: "a name", name: "resize-image", spec: inline},
		{about: "a name that ends with a digit", name: "function1", spec: inline},
		{about: "a name of one letter", name: "a", spec: inline},
		{about: "a name of 63 letters", name: strings.Repeat("a", 63), spec: inline},
		{about: "a name of 64 letters", name: strings.Repeat("a", 64), spec: inline, refusal: rule},
		{about: "a name that begins with a digit", name: "1fn", spec: inline, refusal: rule},
		{about: "a name with a dot", name: "a.b", spec: inline, refusal: rule},
		{about: "a name with an underscore", name: "a_b", spec: inline, refusal: "RFC 1123"},
		{about: "a name with capitals", name: "MyFn", spec: inline, refusal: "RFC 1123"},
		{about: "a name that begins with a hyphen", name: "-a", spec: inline, refusal: "RFC 1123"},
	}
}

func functionSources() []ruleCase {
	const (
		one  = "exactly one of inline, s3, http, git and image must be set"
		key  = "key must not start with a slash or have . or .. parts"
		from = `runtime: python3.11
source: {s3: {key: `
	)
	return []ruleCase{
		{about: "inline", spec: inline},
		{about: "an archive", spec: from + "uploads/code.zip}}"},
		{about: "an archive in a bucket of the tenant's own", spec: from + "code.zip, bucket: mine, endpoint: 'https://s3.example.org', secretName: keys}}"},
		{about: "an image", spec: "source: {image: 'registry.example.org/team/hello:v1'}"},
		{about: "an image by digest", spec: "source: {image: 'registry.example.org/hello@sha256:" + strings.Repeat("0", 64) + "'}"},
		{about: "no source", spec: "runtime: python3.11\nsource: {}", refusal: one},
		{about: "two sources", spec: "runtime: python3.11\nsource: {image: a, s3: {key: b}}", refusal: one},
		{about: "three sources", spec: "runtime: python3.11\nsource: {image: a, s3: {key: b}, inline: {handler.py: c}}", refusal: one},
		{about: "code without a runtime", spec: "source: {s3: {key: code.zip}}", refusal: "runtime is required unless source.image is set"},
		{about: "a runtime that can be no name", spec: "runtime: Python 3\nsource: {s3: {key: code.zip}}", refusal: "spec.runtime"},
		{about: "a bucket with the platform's credentials", spec: from + "code.zip, bucket: theirs}}", refusal: "bucket needs secretName"},
		{about: "an endpoint with the platform's credentials", spec: from + "code.zip, endpoint: 'https://s3.example.org'}}", refusal: "endpoint needs secretName"},
		{about: "an endpoint with a password in it", spec: from + "code.zip, endpoint: 'https://a:b@s3.example.org', secretName: keys}}", refusal: "endpoint"},
		{about: "a key from the root", spec: from + "/code.zip}}", refusal: key},
		{about: "a key that climbs", spec: from + "a/../../b/code.zip}}", refusal: key},
		{about: "a key with a dot part", spec: from + "./code.zip}}", refusal: key},
		{about: "a key with dots in names", spec: from + "v1..2/code.tar.zip}}"},
		{about: "a digest that is none", spec: from + "code.zip, sha256: abc}}", refusal: "sha256"},
	}
}

func functionAddresses() []ruleCase {
	const (
		archive = "runtime: python3.11\nsource: {http: {url: "
		tree    = "runtime: python3.11\nsource: {git: {url: "
	)
	digest := ", sha256: " + strings.Repeat("a", 64) + "}}"
	return []ruleCase{
		{about: "an archive at an address", spec: archive + "'https://example.org/code.zip'" + digest},
		{about: "an archive at an address with a port and a signature", spec: archive + "'http://example.org:8080/code.zip?signature=a%2Fb'" + digest},
		{about: "an archive at an address without a digest", spec: archive + "'https://example.org/code.zip'}}", refusal: "sha256"},
		{about: "an archive at an address with a digest that is none", spec: archive + "'https://example.org/code.zip', sha256: abc}}", refusal: "sha256"},
		{about: "an archive in a file", spec: archive + "'file:///etc/passwd'" + digest, refusal: "url"},
		{about: "an archive by ftp", spec: archive + "'ftp://example.org/code.zip'" + digest, refusal: "url"},
		{about: "an archive at an address with a password in it", spec: archive + "'https://a:b@example.org/code.zip'" + digest, refusal: "url"},
		{about: "a repository", spec: tree + "'https://example.org/team/code.git', ref: main}}"},
		{about: "a commit of a folder of a private repository", spec: tree + "'http://example.org/code', ref: " + strings.Repeat("0a", 20) + ", path: functions/hello, secretName: login}}"},
		{about: "a full reference", spec: tree + "'https://example.org/code', ref: refs/tags/v1.0.0}}"},
		{about: "a repository without a ref", spec: tree + "'https://example.org/code'}}", refusal: "ref"},
		{about: "a ref that is an option", spec: tree + "'https://example.org/code', ref: --upload-pack=evil}}", refusal: "ref"},
		{about: "a ref with a space", spec: tree + "'https://example.org/code', ref: 'a b'}}", refusal: "ref"},
		{about: "a repository by ssh", spec: tree + "'ssh://git@example.org/code', ref: main}}", refusal: "url"},
		{about: "a repository on a disk", spec: tree + "/srv/code, ref: main}}", refusal: "url"},
		{about: "a repository with a password in its address", spec: tree + "'https://a:b@example.org/code', ref: main}}", refusal: "url"},
		{about: "a folder that climbs out", spec: tree + "'https://example.org/code', ref: main, path: ../../etc}}", refusal: "path"},
		{about: "a folder from the root", spec: tree + "'https://example.org/code', ref: main, path: /etc}}", refusal: "path"},
		{about: "two addresses", spec: "runtime: python3.11\nsource: {http: {url: 'https://example.org/a', sha256: " + strings.Repeat("a", 64) + "}, git: {url: 'https://example.org/b', ref: main}}", refusal: "exactly one of"},
		{about: "an object that is looked at", spec: "runtime: python3.11\nsource: {s3: {key: a.zip, pollIntervalSeconds: 10}}"},
		{about: "an object that is looked at too often", spec: "runtime: python3.11\nsource: {s3: {key: a.zip, pollIntervalSeconds: 9}}", refusal: "pollIntervalSeconds"},
		{about: "an object that is hardly ever looked at", spec: "runtime: python3.11\nsource: {s3: {key: a.zip, pollIntervalSeconds: 86401}}", refusal: "pollIntervalSeconds"},
	}
}

func functionFiles() []ruleCase {
	const (
		names = "file names must be relative paths"
		size  = "the files together must not be larger than 96 KiB"
	)
	files := func(list ...string) string {
		return "runtime: python3.11\nsource:\n  inline:\n    " + strings.Join(list, "\n    ")
	}
	file := func(name string, bytes int) string { return fmt.Sprintf("%q: %q", name, strings.Repeat("x", bytes)) }
	many := make([]string, 65)
	for i := range many {
		many[i] = file(fmt.Sprintf("f%d.py", i), 1)
	}
	return []ruleCase{
		{about: "files in folders", spec: files(file("handler.py", 1), file("lib/sub/util.py", 1), file(".npmrc", 1), file("@scope/a+b.js", 1))},
		{about: "a file that climbs out", spec: files(file("../handler.py", 1)), refusal: names},
		{about: "a file that climbs in the middle", spec: files(file("lib/../handler.py", 1)), refusal: names},
		{about: "a file from the root", spec: files(file("/etc/passwd", 1)), refusal: names},
		{about: "a folder", spec: files(file("lib/", 1)), refusal: names},
		{about: "a file with a backslash", spec: files(file(`lib\\util.py`, 1)), refusal: names},
		{about: "a file whose name is too long", spec: files(file(strings.Repeat("a", 257), 1)), refusal: names},
		{about: "as much as is allowed", spec: files(file("a.py", 49152), file("b.py", 49152))},
		{about: "too much in two files", spec: files(file("a.py", 49152), file("b.py", 49153)), refusal: size},
		{about: "few characters with too many bytes", spec: files(`"a.py": "` + strings.Repeat("é", 49153) + `"`), refusal: size},
		{about: "too much in one file", spec: files(file("a.py", 98305)), refusal: "98304"},
		{about: "64 files", spec: files(many[:64]...)},
		{about: "too many files", spec: files(many...), refusal: "64"},
	}
}

func functionEnv() []ruleCase {
	env := func(items string) string { return inline + "env: [" + items + "]" }
	const own = "names starting with SLESS_, and PORT, are sless's own"
	return []ruleCase{
		{about: "a value", spec: env("{name: LEVEL, value: debug}, {name: EMPTY}")},
		{about: "a key of a Secret", spec: env("{name: TOKEN, valueFrom: {secretKeyRef: {name: a, key: b, optional: true}}}")},
		{about: "a key of a ConfigMap", spec: env("{name: LEVEL, valueFrom: {configMapKeyRef: {name: a, key: b}}}")},
		{about: "a value twice", spec: env("{name: A, value: b, valueFrom: {configMapKeyRef: {name: a, key: b}}}"), refusal: "value and valueFrom can't both be set"},
		{about: "a key of two objects", spec: env("{name: A, valueFrom: {configMapKeyRef: {name: a, key: b}, secretKeyRef: {name: a, key: b}}}"), refusal: "exactly one of secretKeyRef and configMapKeyRef must be set"},
		{about: "a key of no object", spec: env("{name: A, valueFrom: {}}"), refusal: "exactly one of secretKeyRef and configMapKeyRef must be set"},
		{about: "a name of sless's", spec: env("{name: SLESS_ENTRYPOINT, value: a}"), refusal: own},
		{about: "the port", spec: env("{name: PORT, value: '1'}"), refusal: own},
		{about: "names that only resemble sless's", spec: env("{name: MY_SLESS_, value: a}, {name: PORTS, value: b}")},
		{about: "a name that is none", spec: env("{name: 'a b', value: c}"), refusal: "env[0].name"},
		{about: "one name twice", spec: env("{name: A, value: b}, {name: A, value: c}"), refusal: "Duplicate value"},
	}
}

func functionNumbers() []ruleCase {
	return []ruleCase{
		{about: "all there is", spec: inline + `
entrypoint: pkg.sub.main
codeHash: v1
build: {timeoutSeconds: 3600}
resources: {limits: {cpu: 500m, memory: 256Mi}, requests: {cpu: 100m}}
timeoutSeconds: 3600
concurrency: 1000
replicas: 1000`},
		{about: "off", spec: inline + "replicas: 0"},
		{about: "fewer than none", spec: inline + "replicas: -1", refusal: "replicas"},
		{about: "no time", spec: inline + "timeoutSeconds: 0", refusal: "timeoutSeconds"},
		{about: "too much time", spec: inline + "timeoutSeconds: 3601", refusal: "timeoutSeconds"},
		{about: "half a second", spec: inline + "timeoutSeconds: 0.5", refusal: "timeoutSeconds"},
		{about: "no call at a time", spec: inline + "concurrency: 0", refusal: "concurrency"},
		{about: "an entrypoint without a module", spec: inline + "entrypoint: handle", refusal: "entrypoint"},
		{about: "a limit of something else", spec: inline + "resources: {limits: {nvidia.com/gpu: 1}}", refusal: "only cpu and memory can be limited"},
		{about: "a request of something else", spec: inline + "resources: {requests: {ephemeral-storage: 1Gi}}", refusal: "only cpu and memory can be requested"},
		{about: "a quantity that is none", spec: inline + "resources: {limits: {memory: lots}}", refusal: "memory"},
	}
}
