package build

import (
	"strings"
	"testing"
)

func TestTagsTellWhoseTheyAre(t *testing.T) {
	buildKey, dependency := strings.Repeat("a", buildKeyLen), strings.Repeat("a", dependencyKeyLen)
	for _, test := range []struct {
		tag, function string
		own           bool
		shared        bool
	}{
		{"hello-" + buildKey, "hello", true, false},
		{"hello-" + buildKey, "hell", false, false},
		{"hello-world-" + buildKey, "hello", false, false},
		{"hello-" + buildKey + "-" + buildKey, "hello", false, false},
		{"hello-" + buildKey + "-" + buildKey, "hello-" + buildKey, true, false},
		{"hello-" + buildKey + "-" + dependency, "hello", true, false},
		{"hello-" + buildKey + "-" + dependency, "hello-" + buildKey, false, false},
		{"hello-" + dependency, "hello", false, false},
		{"deps-" + buildKey + "-" + dependency, "deps", true, false},
		{"deps-" + buildKey, "deps", true, false},
		{"deps-" + dependency, "deps", false, true},
		{"src-" + dependency, "src", false, true},
		{"src-" + buildKey, "src", true, false},
		{"hello-v1", "hello", false, false},
		{"hello-" + strings.ToUpper(buildKey), "hello", false, false},
	} {
		if own, shared := tagOf(test.tag, test.function), dependencyTag(test.tag); own != test.own || shared != test.shared {
			t.Errorf("%s and %s: own %v, shared %v", test.tag, test.function, own, shared)
		}
	}
	for tag, want := range map[string]string{
		"hello-" + buildKey + "-" + dependency: "deps-" + dependency, "deps-" + buildKey + "-" + dependency: "deps-" + dependency,
		"hello-" + buildKey: "", "deps-" + dependency: "", "hello-" + dependency: "", "hello-" + buildKey + "-" + buildKey: "", "v1": "",
	} {
		if got := dependenciesOf(tag); got != want {
			t.Errorf("%s needs %q, want %q", tag, got, want)
		}
	}
	longest := functionTag(Request{Owner: Owner{"ns", strings.Repeat("f", 63)}}, dependency, "sha256:0")
	if len(longest) > 128 || !tagOf(longest, strings.Repeat("f", 63)) {
		t.Errorf("%q is no tag", longest)
	}
}

func TestKeyCoversWhatDecides(t *testing.T) {
	base := func() Request {
		return Request{
			Owner: Owner{"ns", "hello"}, NamespaceUID: "uid", Runtime: Runtime{Image: "r", Language: "python"}, Entrypoint: "h.h", CodeHash: "c",
			Source: Source{S3: &S3Source{Key: "k", Bucket: "b", Credentials: &S3Credentials{"id", "secret"}}}, TimeoutSeconds: 1,
		}
	}
	key := base().Key()
	for name, change := range map[string]func(*Request){
		"namespace": func(r *Request) { r.Owner.Namespace = "x" }, "name": func(r *Request) { r.Owner.Name = "x" }, "UID": func(r *Request) { r.NamespaceUID = "x" },
		"runtime": func(r *Request) { r.Runtime.Image = "x" }, "entrypoint": func(r *Request) { r.Entrypoint = "x" }, "code hash": func(r *Request) { r.CodeHash = "x" },
		"key": func(r *Request) { r.Source.S3.Key = "x" }, "bucket": func(r *Request) { r.Source.S3.Bucket = "x" }, "version": func(r *Request) { r.Source.S3.VersionID = "x" },
		"endpoint": func(r *Request) { r.Source.S3.Endpoint = "x" }, "digest": func(r *Request) { r.Source.S3.SHA256 = "x" }, "whose keys": func(r *Request) { r.Source.S3.Credentials = nil },
		"image": func(r *Request) { r.Source = Source{Image: "x"} }, "inline": func(r *Request) { r.Source = Source{Inline: map[string]string{"a": "b"}} },
	} {
		r := base()
		if change(&r); r.Key() == key {
			t.Errorf("%s is not in the key", name)
		}
	}
	r := base()
	r.Index = &Index{SecretName: "x"}
	r.TimeoutSeconds, r.Source.S3.Credentials.SecretAccessKey = 2, "rotated"
	if r.Key() != key {
		t.Error("the key changes with what does not decide about the image")
	}
}
