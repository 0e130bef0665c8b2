package provider

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/terraform-provider-sless/internal/code"
)

const (
	someHash  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	otherHash = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// block is a nested attribute of a function.
func (c *core) block(name string, set values) tftypes.Value {
	c.t.Helper()
	return c.object(c.kind("sless_function").(tftypes.Object).AttributeTypes[name], set)
}

// TestSources goes from each source to each other, and holds what the API has afterwards: that source with these fields alone. After
// each step a plan is empty, and after an import too.
func TestSources(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, api.URL, nil)
	git := rest.GitSource{URL: "https://git.example.org/team/code.git", Ref: "main"}
	gitFolder := rest.GitSource{URL: git.URL, Ref: "v1.2+3", Path: "functions/hello", SecretName: "git"}
	all := []struct {
		set  values
		want rest.Source
	}{
		{values{"git": c.block("git", values{"url": git.URL, "ref": "main"})}, rest.Source{Git: &git}},
		{values{"git": c.block("git", values{"url": git.URL, "ref": "v1.2+3", "path": "functions/hello", "secret_name": "git"})}, rest.Source{Git: &gitFolder}},
		{values{"http": c.block("http", values{"url": "https://example.org/a.zip?x=1", "sha256": someHash})},
			rest.Source{HTTP: &rest.HTTPSource{URL: "https://example.org/a.zip?x=1", SHA256: someHash}}},
		{values{"http": c.block("http", values{"url": "http://example.org", "sha256": otherHash}), "code_hash": "mine"},
			rest.Source{HTTP: &rest.HTTPSource{URL: "http://example.org", SHA256: otherHash}}},
		{values{"s3": c.block("s3", values{"key": "k", "bucket": "b", "secret_name": "s", "poll_interval_sec": 60, "version_id": "1", "region": "r", "endpoint": "https://s3.example.org", "sha256": someHash})},
			rest.Source{S3: &rest.S3Source{Key: "k", Bucket: "b", SecretName: "s", PollSec: new(int32(60)), VersionID: "1", Region: "r", Endpoint: "https://s3.example.org", SHA256: someHash}}},
		{values{"s3": c.block("s3", values{"key": "k"})}, rest.Source{S3: &rest.S3Source{Key: "k"}}},
		{values{"inline": map[string]string{"handler.py": "x"}}, rest.Source{Inline: map[string]string{"handler.py": "x"}}},
		{values{"image": "registry.example.org/a@sha256:" + someHash}, rest.Source{Image: "registry.example.org/a@sha256:" + someHash}},
	}
	function := c.instance("sless_function")
	try := func(set values, want rest.Source) {
		t.Helper()
		function.must(hello(set))
		if got := *api.functions["hello"].Source; !reflect.DeepEqual(got, want) {
			t.Errorf("%v: the API has %+v, want %+v", set, got, want)
		}
		for what, now := range map[string]*instance{"refresh": function, "import": c.imported(&tfprotov6.ImportResourceStateRequest{TypeName: "sless_function", ID: "ns/hello"})} {
			if failure := now.read(); failure != "" {
				t.Fatal(failure)
			}
			if planned := now.plan(hello(set)); planned.errors != "" || now.changes(planned) != "" {
				t.Errorf("%v: the plan after a %s changes %s %s", set, what, now.changes(planned), planned.errors)
			}
		}
	}
	for _, from := range all {
		for _, to := range all {
			function = c.instance("sless_function")
			api.set(func() { clear(api.functions) })
			function.must(hello(from.set))
			try(to.set, to.want)
		}
	}
	if api.uploads != 0 {
		t.Errorf("%d uploads", api.uploads)
	}
}

// TestPollingIsNoOtherCode holds that how often a bucket is looked at is written alone, and that what the platform then finds by itself
// is no change of a plan.
func TestPollingIsNoOtherCode(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, api.URL, nil)
	function := c.instance("sless_function")
	with := func(poll any) values {
		return hello(values{"s3": c.block("s3", values{"key": "k", "bucket": "b", "secret_name": "s", "poll_interval_sec": poll})})
	}
	function.must(with(nil))
	for _, poll := range []any{60, 120, nil} {
		planned := function.plan(with(poll))
		if got := function.changes(planned); got != "phase s3 url" || len(planned.replaces) != 0 {
			t.Errorf("poll_interval_sec %v: the plan changes %s and replaces %v", poll, got, planned.replaces)
		}
		if failure := function.apply(t.Context(), planned); failure != "" {
			t.Fatal(failure)
		}
		source, _ := api.patches[len(api.patches)-1]["source"].(map[string]any)
		if s3, _ := source["s3"].(map[string]any); len(source) != 1 || len(s3) != 1 {
			t.Errorf("poll_interval_sec %v: wrote %v", poll, source)
		}
	}
	api.set(func() {
		api.status = func(fn *rest.Function) *rest.FunctionStatus {
			status := readyStatus(fn)
			status.Image, status.CodeSHA256, status.SourceRevision = "registry/it@another", "another", "another-etag"
			return status
		}
	})
	if failure := function.read(); failure != "" {
		t.Fatal(failure)
	}
	if planned := function.plan(with(nil)); function.text("source_revision") != "another-etag" || function.changes(planned) != "" {
		t.Errorf("revision %q, the plan changes %s", function.text("source_revision"), function.changes(planned))
	}
}

// TestBuildSecret holds that another Secret for the package index is told in place.
func TestBuildSecret(t *testing.T) {
	api := newFakeAPI(t)
	function := newCore(t, api.URL, nil).instance("sless_function")
	for _, name := range []any{"index", "other", nil} {
		set := hello(values{"inline": map[string]string{"handler.py": "x"}, "build_secret_name": name})
		if planned := function.plan(set); len(planned.replaces) != 0 {
			t.Errorf("%v replaces %v", name, planned.replaces)
		}
		function.must(set)
		if got := api.functions["hello"].BuildSecret; got != "" && got != name || got == "" && name != nil {
			t.Errorf("the API has %q, want %v", got, name)
		}
	}
}

// TestSourceRules holds what is refused when planning, at which attribute, and that the message says the rule and no password.
func TestSourceRules(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, api.URL, nil)
	git := func(change values) values {
		set := values{"url": "https://git.example.org/team/code.git", "ref": "main"}
		maps.Copy(set, change)
		return values{"git": c.block("git", set)}
	}
	http := func(change values) values {
		set := values{"url": "https://example.org/a.zip", "sha256": someHash}
		maps.Copy(set, change)
		return values{"http": c.block("http", set)}
	}
	s3 := func(set values) values { return values{"s3": c.block("s3", set)} }
	for _, test := range []struct {
		set      values
		at, rule string
	}{
		{git(values{"url": "ssh://git.example.org/team/code.git"}), `"url"`, "https or http"},
		{git(values{"url": "git@git.example.org:team/code.git"}), `"url"`, "https or http"},
		{git(values{"url": "https://me:pa55word@git.example.org/team/code.git"}), `"url"`, "no user or password"},
		{git(values{"url": "https://git.example.org"}), `"url"`, "must have a path"},
		{git(values{"url": "https://git.example.org/code.git#main"}), `"url"`, "fragment"},
		{git(values{"ref": ""}), `"ref"`, "a branch, a tag"},
		{git(values{"ref": "--upload-pack=x"}), `"ref"`, "a branch, a tag"},
		{git(values{"path": "/etc"}), `"path"`, "relative"},
		{git(values{"path": "a/../../b"}), `"path"`, "without . and .. parts"},
		{git(values{"path": ""}), `"path"`, "relative"},
		{git(values{"secret_name": ""}), `"secret_name"`, "length"},
		{http(values{"url": "ftp://example.org/a.zip"}), `"url"`, "https or http"},
		{http(values{"url": "https://me:pa55word@example.org/a.zip"}), `"url"`, "no user or password"},
		{http(values{"url": "https://example.org/a.zip#x"}), `"url"`, "without a fragment"},
		{http(values{"sha256": "ABC"}), `"sha256"`, "64 hexadecimal digits"},
		{s3(values{"key": "k", "poll_interval_sec": 9}), `"poll_interval_sec"`, "between 10 and 86400"},
		{s3(values{"key": "k", "endpoint": "https://s3.example.org"}), `"endpoint"`, "needs secret_name"},
		{values{"inline": map[string]string{"a": "b"}, "build_secret_name": ""}, `"build_secret_name"`, "length"},
		{values{"inline": map[string]string{"a": strings.Repeat("x", 96<<10+1)}}, `"inline"`, "96 KiB"},
		{values{"inline": map[string]string{"../a": "b"}}, `"inline"`, ".. parts"},
	} {
		planned := c.instance("sless_function").plan(hello(test.set))
		if !strings.Contains(planned.errors, test.at) || !strings.Contains(planned.errors, test.rule) || strings.Contains(planned.errors, "pa55word") {
			t.Errorf("want %s and %q: %s", test.at, test.rule, planned.errors)
		}
	}
	// Each pair of sources is one too many; a part that is required is required; an unknown one may turn out to be null.
	sources := map[string]any{
		"source_dir": codeFolder(t, "one"), "filename": "a.zip", "inline": map[string]string{"a": "b"}, "s3": s3(values{"key": "k"})["s3"],
		"http": http(nil)["http"], "git": git(nil)["git"], "image": "a/b",
	}
	for one := range sources {
		for other := range sources {
			planned := c.instance("sless_function").plan(hello(values{one: sources[one], other: sources[other], "code_hash": "x"}))
			if refused := strings.Contains(planned.errors, "Exactly one of source_dir, filename, inline, s3, http, git and image"); refused != (one != other) {
				t.Errorf("%s and %s: %s", one, other, planned.errors)
			}
		}
		if planned := c.instance("sless_function").plan(hello(values{one: unknown})); planned.errors != "" {
			t.Errorf("%s unknown: %s", one, planned.errors)
		}
	}
	for name, part := range map[string]string{"git": "ref", "http": "sha256", "s3": "key"} {
		for _, attribute := range c.schema.ResourceSchemas["sless_function"].Block.Attributes {
			if attribute.Name != name {
				continue
			}
			for _, nested := range attribute.NestedType.Attributes {
				if nested.Name == part && !nested.Required {
					t.Errorf("%s.%s is not required", name, part)
				}
			}
		}
	}
}

// TestCodeRules holds that code which can't be a function's is refused when planning, at its attribute, with the rule.
func TestCodeRules(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, api.URL, nil)
	empty, leaking, huge := t.TempDir(), codeFolder(t, "one"), codeFolder(t, "one")
	file := filepath.Join(leaking, "handler.py")
	large, err := os.Create(filepath.Join(huge, "model.bin"))
	if err == nil {
		err = errors.Join(large.Truncate(code.MaxBytes), large.Close(), os.Symlink("/etc/passwd", filepath.Join(leaking, "users")))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		set      values
		at, rule string
	}{
		{values{"source_dir": filepath.Join(empty, "nowhere")}, "source_dir", "does not exist"},
		{values{"source_dir": empty}, "source_dir", "has no files"},
		{values{"source_dir": file}, "source_dir", "is no folder"},
		{values{"source_dir": leaking}, "source_dir", `"users" leads to "/etc/passwd"`},
		{values{"source_dir": huge}, "source_dir", "larger than 1024 MiB"},
		{values{"source_dir": leaking, "excludes": c.texts("[a")}, "excludes", "[a"},
		{values{"filename": filepath.Join(empty, "nowhere.zip")}, "filename", "does not exist"},
		{values{"filename": empty}, "filename", "is no file"},
		{values{"filename": file}, "filename", "no zip archive"},
		{values{"filename": "x", "excludes": c.texts("*.md")}, "excludes", "needs source_dir"},
	} {
		planned := c.instance("sless_function").plan(hello(test.set))
		if !strings.Contains(planned.errors, `AttributeName("`+test.at+`")`) || !strings.Contains(planned.errors, test.rule) {
			t.Errorf("want %s and %q: %s", test.at, test.rule, planned.errors)
		}
	}
	if len(api.calls) != 0 {
		t.Errorf("the API was called: %v", api.calls)
	}
}

// texts is a list of strings.
func (c *core) texts(all ...string) tftypes.Value {
	elements := make([]tftypes.Value, len(all))
	for i, text := range all {
		elements[i] = tftypes.NewValue(tftypes.String, text)
	}
	return tftypes.NewValue(tftypes.List{ElementType: tftypes.String}, elements)
}
