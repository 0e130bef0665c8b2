package build

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/build/install"
	"github.com/naeel/sless/operator/internal/build/layout"
	"github.com/naeel/sless/operator/internal/build/registry"
)

func TestCodeAloneIsOneLayer(t *testing.T) {
	withBoth(t, func(t *testing.T, b *bench) {
		request := b.inline("ns", "hello", map[string]string{"handler.py": "x", "lib/util.py": "y"})
		first := b.must(t, request)
		if !slices.Equal(b.steps, []Step{Fetching, Pushing}) {
			t.Errorf("steps %v", b.steps)
		}
		if diff := cmp.Diff([]string{"function/code/handler.py", "function/code/lib/util.py"}, files(t, first.Image)); diff != "" {
			t.Error(diff)
		}
		again := b.must(t, request)
		if again.Image != first.Image || again.SourceDigest != first.SourceDigest || again.Size != first.Size {
			t.Errorf("got %+v, then %+v", first, again)
		}
		if !slices.Equal(b.steps, []Step{Fetching}) {
			t.Errorf("pushed what was there: %v", b.steps)
		}
	})
}

func TestV1V2V3V2(t *testing.T) {
	withBoth(t, func(t *testing.T, b *bench) {
		var images []string
		for _, code := range []string{"1", "2", "3", "2"} {
			images = append(images, b.must(t, b.inline("ns", "hello", map[string]string{"handler.py": code})).Image)
		}
		if len(b.steps) != 1 || b.steps[0] != Fetching {
			t.Errorf("going back took the steps %v", b.steps)
		}
		if images[1] != images[3] || images[0] == images[1] || images[1] == images[2] || images[0] == images[2] {
			t.Errorf("got %q", images)
		}
	})
}

func TestZipAndInlineAreOneSource(t *testing.T) {
	withBoth(t, func(t *testing.T, b *bench) {
		request := b.inline("ns", "hello", map[string]string{"handler.py": "x"})
		inline := b.must(t, request)
		var buffer bytes.Buffer
		writer := zip.NewWriter(&buffer)
		w, err := writer.Create("project/handler.py")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, "x"); err != nil {
			t.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		b.objects["/sless/tenants/uid-of-ns/hello.zip"] = buffer.Bytes()
		request.Source = Source{S3: &S3Source{Key: "hello.zip"}}
		if zipped := b.must(t, request); zipped.SourceDigest != inline.SourceDigest || zipped.Image != inline.Image {
			t.Errorf("got %+v, want %+v", zipped, inline)
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(buffer.Bytes()) })) //nolint:errcheck // the client notices
		defer server.Close()
		sum := sha256.Sum256(buffer.Bytes())
		request.Source = Source{HTTP: &HTTPSource{URL: server.URL, SHA256: hex.EncodeToString(sum[:])}}
		if fetched := b.must(t, request); fetched.SourceDigest != inline.SourceDigest || fetched.Image != inline.Image {
			t.Errorf("got %+v, want %+v", fetched, inline)
		}
	})
}

func TestImagesOfTwoFunctionsAreTwo(t *testing.T) {
	withBoth(t, func(t *testing.T, b *bench) {
		code := map[string]string{"handler.py": "x"}
		a, c := b.must(t, b.inline("ns", "a", code)), b.must(t, b.inline("ns", "c", code))
		if a.Image == c.Image {
			t.Error("one digest: deleting the one would delete the other")
		}
		if a.SourceDigest != c.SourceDigest {
			t.Error("two source digests of one source")
		}
	})
}

func TestNamespaceMadeAgainInheritsNothing(t *testing.T) {
	withBoth(t, func(t *testing.T, b *bench) {
		request := b.inline("ns", "hello", map[string]string{"handler.py": "x", "requirements.txt": "x"})
		before, err := b.try(t, request)
		if err != nil {
			t.Fatal(err)
		}
		request.NamespaceUID = "another"
		after, err := b.try(t, request)
		if err != nil {
			t.Fatal(err)
		}
		if before.job.Key == after.job.Key {
			t.Error("one dependency image for both")
		}
	})
}

func TestDependenciesAreInstalledFirst(t *testing.T) {
	withBoth(t, func(t *testing.T, b *bench) {
		code := func(text string) Request {
			return b.inline("ns", "hello", map[string]string{"handler.py": text, "requirements.txt": "requests==2.32.3"})
		}
		out, err := b.try(t, code("1"))
		if err != nil {
			t.Fatal(err)
		}
		spec := out.job
		if spec == nil {
			t.Fatal("nothing to install")
		}
		if diff := cmp.Diff([]string{"manifests/requirements.txt"}, b.manifests(t, spec)); diff != "" {
			t.Error("the installer has more than manifests", diff)
		}
		want := install.Spec{
			Key: spec.Key, Namespace: "ns", Base: b.runtime, Installer: spec.Installer, Parcel: spec.Parcel, Destination: b.host + "/sless-ns:deps-" + spec.Key, TimeoutSeconds: 60,
			Labels: map[string]string{registry.NamespaceUIDLabel: "uid-of-ns", tagLabel: "deps-" + spec.Key},
		}
		if diff := cmp.Diff(want, *spec); diff != "" {
			t.Error(diff)
		}
		deps, err := random.Image(2048, 2)
		if err != nil {
			t.Fatal(err)
		}
		push(t, spec.Destination, deps)
		for _, text := range []string{"1", "2"} { // another code has the same dependencies
			result := b.must(t, code(text))
			if diff := cmp.Diff([]string{"function/code/handler.py", "function/code/requirements.txt"}, files(t, result.Image)); diff != "" {
				t.Error(diff)
			}
		}
	})
}

// Credentials give a Job of its own and no other image: they are no input of what is installed.
func TestCredentialsAreNotInTheImage(t *testing.T) {
	withBoth(t, func(t *testing.T, b *bench) {
		request := b.inline("ns", "hello", map[string]string{"handler.py": "x", "requirements.txt": "x"})
		jobs := map[string]*install.Spec{}
		for _, secret := range []string{"", "one", "two"} {
			if request.Index = nil; secret != "" {
				request.Index = &Index{SecretName: secret, Files: install.Index{"netrc": []byte("password " + secret)}}
			}
			out, err := b.try(t, request)
			if err != nil {
				t.Fatal(err)
			}
			jobs[secret] = out.job
			if secret != "" && string(out.job.Index["netrc"]) != "password "+secret {
				t.Errorf("the Job of %q has %q", secret, out.job.Index)
			}
		}
		if jobs[""].Key == jobs["one"].Key || jobs["one"].Key == jobs["two"].Key {
			t.Error("one Job for several Secrets")
		}
		if jobs[""].Destination != jobs["one"].Destination || jobs["one"].Destination != jobs["two"].Destination {
			t.Error("several images of the same dependencies")
		}
	})
}

// What a build script makes is looked for where it is made, and the entrypoint, of which it is made, is in the key.
func TestBuildScriptMakesTheEntrypoint(t *testing.T) {
	withBoth(t, func(t *testing.T, b *bench) {
		request := b.inline("ns", "hello", map[string]string{"src/handler.ts": "x", "package.json": `{"scripts":{"build":"tsc"}}`})
		request.Runtime.Language, request.Entrypoint = layout.Node, "dist.handler.handle"
		out, err := b.try(t, request)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"built/dist/handler.js", "built/dist/handler.mjs", "built/dist/handler.cjs"}
		if diff := cmp.Diff(want, out.job.Wanted); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"manifests/package.json", "manifests/src/handler.ts"}, b.manifests(t, out.job)); diff != "" {
			t.Error(diff)
		}
		request.Entrypoint = "dist.other.handle"
		other, err := b.try(t, request)
		if err != nil {
			t.Fatal(err)
		}
		if out.job.Key == other.job.Key {
			t.Error("one Job for two entrypoints")
		}
	})
}

func TestLocalDependenciesNeedAllCode(t *testing.T) {
	withBoth(t, func(t *testing.T, b *bench) {
		request := func(text string) Request {
			return b.inline("ns", "hello", map[string]string{"handler.py": "x", "requirements.txt": "./local", "local/setup.py": text})
		}
		one, err := b.try(t, request("1"))
		if err != nil {
			t.Fatal(err)
		}
		two, err := b.try(t, request("2"))
		if err != nil {
			t.Fatal(err)
		}
		if one.job.Key == two.job.Key {
			t.Error("the key does not cover the local package")
		}
		want := []string{"manifests/handler.py", "manifests/local/setup.py", "manifests/requirements.txt"}
		if diff := cmp.Diff(want, b.manifests(t, one.job)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestBadSources(t *testing.T) {
	withBoth(t, func(t *testing.T, b *bench) {
		request := func(source Source) Request {
			r := b.inline("ns", "hello", nil)
			r.Source = source
			return r
		}
		b.objects["/sless/tenants/uid-of-ns/text.zip"] = []byte("hello")
		elsewhere := request(Source{Inline: map[string]string{"src/main.py": "", "a": "", "b": "", "c": "", "d": "", "e": ""}})
		elsewhere.Entrypoint = "pkg.sub.main"
		for name, test := range map[string]struct {
			request Request
			reason  string
			says    []string
		}{
			"no entrypoint":   {elsewhere, v1alpha1.ReasonSourceInvalid, []string{"pkg.sub.main", "pkg/sub.py", "pkg/sub/__init__.py", `"a"`, "…", "spec.entrypoint"}},
			"no object":       {request(Source{S3: &S3Source{Key: "absent.zip"}}), v1alpha1.ReasonSourceNotFound, []string{"tenants/uid-of-ns/absent.zip"}},
			"no zip":          {request(Source{S3: &S3Source{Key: "text.zip"}}), v1alpha1.ReasonSourceInvalid, []string{"zip"}},
			"empty Secret":    {request(Source{S3: &S3Source{Key: "x.zip", Bucket: "own", Credentials: &S3Credentials{}}}), v1alpha1.ReasonSourceNotFound, []string{"accessKeyID"}},
			"another's image": {request(Source{Image: b.host + "/sless-other:v1"}), v1alpha1.ReasonImageNotAllowed, []string{"sless-ns"}},
			"no image":        {request(Source{Image: b.host + "/sless-ns:v1"}), v1alpha1.ReasonSourceNotFound, []string{"sless-ns:v1"}},
		} {
			t.Run(name, func(t *testing.T) {
				_, err := b.try(t, test.request)
				known, ok := errors.AsType[*fault.Error](err)
				if !ok || known.Reason != test.reason || !known.Terminal {
					t.Fatalf("got %v, want %s", err, test.reason)
				}
				for _, part := range test.says {
					if !strings.Contains(known.Message, part) {
						t.Errorf("message %q lacks %q", known.Message, part)
					}
				}
			})
		}
	})
}

func TestImageIsPinned(t *testing.T) {
	withBoth(t, func(t *testing.T, b *bench) {
		image, err := random.Image(1024, 1)
		if err != nil {
			t.Fatal(err)
		}
		want := push(t, b.host+"/sless-ns:v1", image)
		request := b.inline("ns", "hello", nil)
		request.Source = Source{Image: b.host + "/sless-ns:v1"}
		if result := b.must(t, request); result.Image != want || !strings.HasSuffix(want, "@"+result.SourceDigest) {
			t.Errorf("got %+v, want %s", result, want)
		}
	})
}

func TestUnfitRegistryGetsNothing(t *testing.T) {
	b := newBench(t, Append)
	b.config.Registry.AllowAnonymousPush = false
	b.pipeline = newPipeline(t, Append, b.config)
	if _, err := b.try(t, b.inline("ns", "hello", map[string]string{"handler.py": ""})); !errors.Is(err, registry.ErrAnonymousPush) {
		t.Errorf("got %v", err)
	}
	repository, err := name.NewRepository(b.host+"/sless-ns", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if tags, err := remote.List(repository); err == nil {
		t.Errorf("pushed %v", tags)
	}
}

// With the kaniko builder this process pushes nothing: what goes into the registry goes by Jobs, and the files for them by the object
// store, which has them no longer than the Job is there.
func TestKanikoBuilderPushesNothing(t *testing.T) {
	b := newBench(t, Kaniko)
	for what, files := range map[string]map[string]string{
		"code": {"handler.py": "x"}, "dependencies": {"handler.py": "x", "requirements.txt": "idna"},
	} {
		t.Run(what, func(t *testing.T) {
			out, err := b.try(t, b.inline("ns", "hello", files))
			if err != nil {
				t.Fatal(err)
			}
			repository, err := name.NewRepository(b.host+"/sless-ns", name.Insecure)
			if err != nil {
				t.Fatal(err)
			}
			if tags, err := remote.List(repository); err == nil {
				t.Errorf("pushed %v", tags)
			}
			if len(b.objects) != 1 || b.objects["/sless/"+out.job.Parcel.Object] == nil {
				t.Errorf("the object store has %d objects, want %s", len(b.objects), out.job.Parcel.Object)
			}
			if err := b.release(t.Context(), *out.job); err != nil {
				t.Fatal(err)
			}
			if len(b.objects) != 0 {
				t.Error("the parcel stays")
			}
		})
	}
}

func TestFaults(t *testing.T) {
	expired, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for name, test := range map[string]struct {
		ctx    context.Context
		err    error
		reason string
	}{
		"time":           {expired, fmt.Errorf("read: %w", context.DeadlineExceeded), v1alpha1.ReasonBuildTimeout},
		"another's time": {t.Context(), fmt.Errorf("read: %w", context.DeadlineExceeded), v1alpha1.ReasonBuildFailed},
		"disk":           {t.Context(), &os.PathError{Op: "write", Path: "/spool/x", Err: syscall.ENOSPC}, v1alpha1.ReasonBuildOutOfDisk},
		"open registry":  {t.Context(), registry.ErrAnonymousPush, v1alpha1.ReasonRegistryDenied},
		"known":          {t.Context(), fault.Terminal(v1alpha1.ReasonSourceInvalid, "x"), v1alpha1.ReasonSourceInvalid},
	} {
		if got := asFault(test.ctx, test.err, 60); got.Reason != test.reason {
			t.Errorf("%s: got %v, want %s", name, got, test.reason)
		}
	}
}
