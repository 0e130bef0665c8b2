package images

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

func testFiles(t *testing.T) []File {
	t.Helper()
	source := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(source, []byte("binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []File{
		{Path: "/bin/program", Source: source, Mode: 0o755},
		{Path: "/bin/alias", Link: "program"},
		{Path: "/etc/text", Data: []byte("text")},
		{Path: "/tmp", Mode: 0o1777},
	}
}

func TestFromFilesGivesTheSameDigestForTheSameFiles(t *testing.T) {
	var digests []string
	for range 2 {
		image, err := FromFiles(testFiles(t), v1.Config{Entrypoint: []string{"/bin/program"}})
		if err != nil {
			t.Fatal(err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest.String())
	}
	if digests[0] != digests[1] {
		t.Errorf("digests differ: %q", digests)
	}
}

func TestFromFilesHoldsFilesAndTheirFolders(t *testing.T) {
	image, err := FromFiles(testFiles(t), v1.Config{})
	if err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(image)
	defer content.Close()
	reader := tar.NewReader(content)
	var got []string
	for {
		head, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		entry := head.FileInfo().Mode().String() + " " + strings.TrimSuffix(head.Name, "/")
		if head.Linkname != "" {
			entry += " -> " + head.Linkname
		}
		got = append(got, entry)
	}
	slices.Sort(got)
	want := []string{
		"-rw-r--r-- etc/text", "-rwxr-xr-x bin/program", "Lrwxrwxrwx bin/alias -> program",
		"drwxr-xr-x bin", "drwxr-xr-x etc", "dtrwxrwxrwx tmp",
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEnsureMakesOnceAndPushesWhatTheRegistryLacks(t *testing.T) {
	newRegistry := func() Registry {
		server := httptest.NewServer(registry.New())
		t.Cleanup(server.Close)
		return Registry{
			Prefix: "registry.test/sless", Insecure: true, Dial: strings.TrimPrefix(server.URL, "http://"),
			Keychain: Account{User: "u", Password: "p"},
		}
	}
	record, err := OpenRecord(filepath.Join(t.TempDir(), "images.json"))
	if err != nil {
		t.Fatal(err)
	}
	store := Store{Registry: newRegistry(), Cache: Cache{Dir: t.TempDir()}, Record: record}
	made := 0
	item := Item{Name: "thing", Tag: "v1", Inputs: "0123456789abcdef"}
	item.Make = func(context.Context) (v1.Image, error) {
		made++
		return FromFiles([]File{{Path: "/file", Data: []byte(item.Inputs)}}, v1.Config{})
	}
	ensure := func() {
		t.Helper()
		if err := store.Ensure(t.Context(), item); err != nil {
			t.Fatal(err)
		}
	}
	current := func(want bool) {
		t.Helper()
		if got, err := store.Current(t.Context(), item); err != nil || got != want {
			t.Fatalf("current: got %v, %v, want %v", got, err, want)
		}
	}
	current(false)
	ensure()
	current(true)

	store.Registry = newRegistry() // an empty one, as after the cluster was made anew
	current(false)
	ensure()
	current(true)
	if made != 1 {
		t.Errorf("made %d times, want once", made)
	}

	item.Inputs = "fedcba9876543210"
	current(false)
	ensure()
	if made != 2 {
		t.Errorf("made %d times, want twice", made)
	}
	again, err := OpenRecord(record.path)
	if err != nil {
		t.Fatal(err)
	}
	if image := again.Image("thing"); !strings.HasPrefix(image, "registry.test/sless/thing@sha256:") {
		t.Errorf("recorded %q", image)
	}
}

func TestPruneKeepsTheNewestOfOneName(t *testing.T) {
	cache := Cache{Dir: t.TempDir()}
	keys := []string{"a-0000000000000001", "a-0000000000000002", "a-0000000000000003", "a-0000000000000004", "a-b-0000000000000001"}
	for i, key := range keys {
		image, err := FromFiles([]File{{Path: "/f", Data: []byte(key)}}, v1.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cache.Get(key, func() (v1.Image, error) { return image, nil }); err != nil {
			t.Fatal(err)
		}
		when := epoch.AddDate(0, 0, i)
		if err := os.Chtimes(filepath.Join(cache.Dir, key), when, when); err != nil {
			t.Fatal(err)
		}
	}
	cache.prune("a")
	for i, key := range keys {
		if got, want := cache.Has(key), i > 0; got != want {
			t.Errorf("%s kept: %v, want %v", key, got, want)
		}
	}
}

func TestInputsFollowWhatABuildReads(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(root, "module", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	hash := func(texts ...string) string {
		t.Helper()
		hash, err := Inputs(root, []string{"module"}, texts...)
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	write("main.go", "package main", 0o644)
	first := hash()
	for _, name := range []string{"main_test.go", "testdata/x", "node_modules/x", "a/__pycache__/x", "x.pyc"} {
		write(name, "ignored", 0o644)
		if hash() != first {
			t.Errorf("%s counts", name)
		}
	}
	write("main.go", "package main", 0o755)
	if hash() == first {
		t.Error("the right to execute does not count")
	}
	if hash("a", "bc") == hash("ab", "c") {
		t.Error("texts run together")
	}
}

func TestPickMirror(t *testing.T) {
	tests := map[string]struct{ targets, want string }{
		"the suite itself": {"http://m/security/ main bookworm-security Debian\nhttp://m/trixie/ main trixie Debian\nhttp://m/debian/ main bookworm Debian\n", "http://m/debian/"},
		"another release":  {"http://other/x/ main x Docker\nhttp://m/debian/ main trixie Debian\n", "http://m/debian/"},
		"nothing":          {"http://other/x/ main noble Ubuntu\n", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := pickMirror(strings.NewReader(test.targets))
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
