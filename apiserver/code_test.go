package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/apiserver/internal/sources"
)

// archiveOf packs files.
func archiveOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := zip.NewWriter(&out)
	for name, text := range files {
		file, err := writer.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(file, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestPutCodeIsAnUploadAndOneWrite(t *testing.T) {
	tenant := newTenant(t)
	functions := tenant.Functions(tenant.namespace)
	ctx := t.Context()
	archive := archiveOf(t, map[string]string{"handler.py": "def handle(event): return 2"})
	if _, err := tenant.PutCode(ctx, tenant.namespace, "hello", bytes.NewReader(archive), ""); !rest.IsNotFound(err) {
		t.Errorf("of a function that does not exist: %v", err)
	}
	made := must[rest.Stored[rest.Function]](t)(functions.Create(ctx, hello("hello")))
	first := must[rest.Stored[rest.Function]](t)(tenant.PutCode(ctx, tenant.namespace, "hello", bytes.NewReader(archive), ""))
	sum := sha256.Sum256(archive)
	want := &rest.Source{S3: &rest.S3Source{Key: sources.Key(hex.EncodeToString(sum[:])), SHA256: hex.EncodeToString(sum[:])}}
	if diff := cmp.Diff(want, first.Object.Source); diff != "" || first.Object.CodeHash != want.S3.SHA256 || first.Object.Generation != made.Object.Generation+1 {
		t.Errorf("got %+v\n%s", first.Object, diff)
	}
	again := must[rest.Stored[rest.Function]](t)(tenant.PutCode(ctx, tenant.namespace, "hello", bytes.NewReader(archive), ""))
	if again.ETag != first.ETag || again.Object.Generation != first.Object.Generation {
		t.Error("the same archive changed something")
	}
	named := must[rest.Stored[rest.Function]](t)(tenant.PutCode(ctx, tenant.namespace, "hello", bytes.NewReader(archive), "v2", rest.IfMatch(first.ETag)))
	if named.Object.CodeHash != "v2" {
		t.Errorf("code_hash %s", named.Object.CodeHash)
	}
	_, err := tenant.PutCode(ctx, tenant.namespace, "hello", bytes.NewReader(archive), "v3", rest.IfMatch(first.ETag))
	wantCode(t, err, 412, rest.CodePreconditionFailed)
}

func TestPutCodeTakesTheSourcesPlaceWhateverItWas(t *testing.T) {
	tenant := newTenant(t)
	archive := archiveOf(t, map[string]string{"handler.py": "def handle(event): return 2"})
	for name, source := range map[string]*rest.Source{
		"git":   {Git: &rest.GitSource{URL: "https://git.example.org/x", Ref: "main", Path: "code", SecretName: "deploy-key"}},
		"http":  {HTTP: &rest.HTTPSource{URL: "https://example.org/x.zip", SHA256: strings.Repeat("0", 64)}},
		"s3":    {S3: &rest.S3Source{Key: "x.zip", Bucket: "mine", Endpoint: "https://s3.example.org", Region: "eu", VersionID: "1", SecretName: "keys", PollSec: new(int32(60))}},
		"image": {Image: "registry.example.org/x:v1"},
	} {
		fn := hello(name)
		fn.Source = source
		must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), fn))
		put := must[rest.Stored[rest.Function]](t)(tenant.PutCode(t.Context(), tenant.namespace, name, bytes.NewReader(archive), ""))
		sum := put.Object.CodeHash
		if diff := cmp.Diff(&rest.Source{S3: &rest.S3Source{Key: sources.Key(sum), SHA256: sum}}, put.Object.Source); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestBadUploads(t *testing.T) {
	tenant := newTenant(t)
	path := "/v1/namespaces/" + tenant.namespace + "/sources"
	archive := archiveOf(t, map[string]string{"handler.py": strings.Repeat("x", 1000)})
	digest := func(data []byte) string {
		sum := sha256.Sum256(data)
		return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	}
	for name, test := range map[string]struct {
		body   io.Reader
		header []string
		status int
		code   string
	}{
		"no archive":     {strings.NewReader("hello"), nil, 422, rest.CodeNotAnArchive},
		"empty":          {strings.NewReader(""), nil, 422, rest.CodeNotAnArchive},
		"truncated":      {bytes.NewReader(archive[:len(archive)-3]), nil, 422, rest.CodeNotAnArchive},
		"wrong digest":   {bytes.NewReader(archive), []string{"Content-Digest", digest([]byte("x"))}, 400, rest.CodeDigestMismatch},
		"other digest":   {bytes.NewReader(archive), []string{"Content-Digest", "sha-512=:AAAA:"}, 400, rest.CodeBadRequest},
		"bad digest":     {bytes.NewReader(archive), []string{"Content-Digest", "sha-256=:AAAA:"}, 400, rest.CodeBadRequest},
		"too large":      {bytes.NewReader(make([]byte, 1<<20+1)), nil, 413, rest.CodeBodyTooLarge},
		"too large late": {io.MultiReader(bytes.NewReader(make([]byte, 1<<20+1))), nil, 413, rest.CodeBodyTooLarge},
		"media":          {bytes.NewReader(archive), []string{"Content-Type", "application/json"}, 415, rest.CodeUnsupportedMediaType},
	} {
		t.Run(name, func(t *testing.T) {
			response, body := send(t, tenant.token, "POST", path, test.body, test.header...)
			wantProblem(t, response, body, test.status, test.code)
		})
	}
	first := must[rest.SourceUpload](t)(tenant.Upload(t.Context(), tenant.namespace, bytes.NewReader(archive)))
	response, body := send(t, tenant.token, "POST", path, io.MultiReader(bytes.NewReader(archive)), "Content-Type", "application/zip")
	if response.StatusCode != 201 || !strings.Contains(body, first.Key) {
		t.Errorf("again, of unknown length and hash: %d %s", response.StatusCode, body)
	}
}

func TestCollectKeepsWhatFunctionsName(t *testing.T) {
	tenant := newTenant(t)
	must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), hello("hello")))
	put := must[rest.Stored[rest.Function]](t)(tenant.PutCode(t.Context(), tenant.namespace, "hello", bytes.NewReader(archiveOf(t, map[string]string{"a": "b"})), ""))
	// One that names an upload by itself, as kubectl and Terraform do, and one whose key is of a bucket of its own.
	for name, source := range map[string]*rest.S3Source{"by-key": {Key: "sources/named.zip", PollSec: new(int32(60))}, "theirs": {Key: "sources/theirs.zip", SecretName: "keys"}} {
		fn := hello(name)
		fn.Source = &rest.Source{S3: source}
		must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), fn))
	}
	named := must[map[string]map[string]bool](t)(shared.service.references(t.Context()))
	uid := must[string](t)(shared.service.store.Tenant(t.Context(), tenant.namespace))
	want := map[string]bool{put.Object.Source.S3.Key: true, "sources/named.zip": true}
	if diff := cmp.Diff(want, named[uid]); diff != "" {
		t.Error(diff)
	}
}

func TestInvokeGoesThroughTheGateway(t *testing.T) {
	tenant := newTenant(t)
	for _, name := range []string{"echo", "zero", "gone", "broken"} {
		must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), hello(name)))
	}
	result := must[[]byte](t)(tenant.Invoke(t.Context(), tenant.namespace, "echo", []byte(`{"a":1}`)))
	if string(result) != `{"event":{"a":1},"media":"application/json","cookie":""}` {
		t.Errorf("got %s", result)
	}
	response, body := send(t, tenant.token, "POST", "/v1/namespaces/"+tenant.namespace+"/functions/echo/invoke", strings.NewReader("1"), "Cookie", "a=b", "X-Request-Id", "mine")
	if response.StatusCode != 200 || strings.Contains(body, "a=b") || response.Header.Get("X-Request-Id") != "mine" {
		t.Errorf("got %d %s %v", response.StatusCode, body, response.Header)
	}
	for name, want := range map[string]struct {
		status int
		code   string
	}{"zero": {503, "scaled_to_zero"}, "gone": {503, rest.CodeGatewayUnavailable}, "broken": {500, "function_failed"}} {
		_, err := tenant.Invoke(t.Context(), tenant.namespace, name, nil)
		wantCode(t, err, want.status, want.code)
	}
}

func TestLogsOfAllReplicas(t *testing.T) {
	tenant := newTenant(t)
	must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), hello("hello")))
	where := "sless-fn-" + tenant.namespace
	for _, pod := range []string{tenant.namespace + "-1", tenant.namespace + "-2"} {
		around.pod(t, where, pod, labelsOf(tenant, "hello"), func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "tail %s since %s\n%s", r.URL.Query().Get("tailLines"), r.URL.Query().Get("sinceSeconds"), strings.Repeat("x", 100000))
		})
	}
	around.pod(t, where, tenant.namespace+"-3", labelsOf(tenant, "other"), func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "not mine") })
	log := must[io.ReadCloser](t)(tenant.Logs(t.Context(), tenant.namespace, "hello", rest.LogOptions{Tail: 7, Since: time.Minute}))
	defer log.Close()
	text := string(must[[]byte](t)(io.ReadAll(log)))
	for _, pod := range []string{"-1", "-2"} {
		for _, line := range []string{" tail 7 since 60\n", " " + strings.Repeat("x", 100000) + "\n"} {
			if !strings.Contains(text, tenant.namespace+pod+line) {
				t.Errorf("pod %s lacks a line %.20s", pod, line)
			}
		}
	}
	if strings.Contains(text, "not mine") {
		t.Error("the log of another function")
	}
}

func TestALogThatIsCutSaysSo(t *testing.T) {
	tenant := newTenant(t)
	must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), hello("hello")))
	around.pod(t, "sless-fn-"+tenant.namespace, tenant.namespace+"-1", labelsOf(tenant, "hello"), func(w http.ResponseWriter, r *http.Request) {
		tail, _ := strconv.Atoi(r.URL.Query().Get("tailLines"))
		_, _ = io.WriteString(w, strings.Repeat("line\n", min(tail, 1500))) // the caller is gone if this fails
	})
	for tail, want := range map[int]bool{0: true, 10: false, 3000: false} {
		log := must[io.ReadCloser](t)(tenant.Logs(t.Context(), tenant.namespace, "hello", rest.LogOptions{Tail: tail}))
		text := string(must[[]byte](t)(io.ReadAll(log)))
		log.Close()
		if got := strings.Contains(text, "--- "+tenant.namespace+"-1: these are the last 1000 lines"); got != want {
			t.Errorf("tail %d: %d lines, and that it is cut is said: %v", tail, strings.Count(text, "\n"), got)
		}
	}
}

func TestLogsOfWhatNeverRan(t *testing.T) {
	tenant := newTenant(t)
	must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), hello("hello")))
	empty := func(when string) {
		t.Helper()
		log := must[io.ReadCloser](t)(tenant.Logs(t.Context(), tenant.namespace, "hello", rest.LogOptions{}))
		defer log.Close()
		if text, err := io.ReadAll(log); err != nil || len(text) > 0 {
			t.Errorf("%s: got %q, %v", when, text, err)
		}
	}
	empty("before there is a namespace")
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "sless-fn-" + tenant.namespace}}
	if err := cluster.client.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	empty("before the right to read is bound in it")
	if err := cluster.client.Delete(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	empty("while the namespace is being deleted")
}

func TestAFollowedLogGoesOnWithNewReplicas(t *testing.T) {
	tenant := newTenant(t)
	must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), hello("hello")))
	where := "sless-fn-" + tenant.namespace
	endless := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "follow", r.URL.Query().Get("follow"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	around.pod(t, where, tenant.namespace+"-1", labelsOf(tenant, "hello"), endless)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log := must[io.ReadCloser](t)(tenant.Logs(ctx, tenant.namespace, "hello", rest.LogOptions{Follow: true}))
	defer log.Close()
	want := func(line string) {
		t.Helper()
		got := make([]byte, len(line))
		if _, err := io.ReadFull(log, got); err != nil || string(got) != line {
			t.Fatalf("got %q %v, want %q", got, err, line)
		}
	}
	want(tenant.namespace + "-1 follow true\n")
	around.pod(t, where, tenant.namespace+"-2", labelsOf(tenant, "hello"), endless)
	want(tenant.namespace + "-2 follow true\n")
}

func TestBuildLogIsOfTheTenantsOwnJobs(t *testing.T) {
	tenant := newTenant(t)
	must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), hello("hello")))
	read := func() string {
		t.Helper()
		log := must[io.ReadCloser](t)(tenant.Logs(t.Context(), tenant.namespace, "hello", rest.LogOptions{Build: true}))
		defer log.Close()
		return string(must[[]byte](t)(io.ReadAll(log)))
	}
	if text := read(); !strings.HasPrefix(text, "--- ") {
		t.Errorf("without a build: %q", text)
	}
	job := "job-" + tenant.namespace
	status := func(change func(*v1alpha1.FunctionStatus)) {
		t.Helper()
		if err := eventually(func() error {
			fn := &v1alpha1.Function{}
			if err := cluster.client.Get(t.Context(), tenant.key("hello"), fn); err != nil {
				return err
			}
			change(&fn.Status)
			if err := cluster.client.Status().Update(t.Context(), fn); err != nil {
				return err
			}
			// The log is found by what the apiserver has read of the status.
			return eventually(func() error {
				got, err := tenant.Functions(tenant.namespace).Get(t.Context(), "hello")
				if err == nil && (got.Object.Status.Build == nil || got.Object.Status.Build.LogTail != fn.Status.Build.LogTail) {
					err = fmt.Errorf("not seen yet")
				}
				return err
			})
		}); err != nil {
			t.Fatal(err)
		}
	}
	labels := map[string]string{"batch.kubernetes.io/job-name": job, "sless.io/namespace": "another", "app.kubernetes.io/managed-by": "sless"}
	around.pod(t, "sless-build", tenant.namespace+"-a", labels, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "another's") })
	status(func(s *v1alpha1.FunctionStatus) {
		s.Build = &v1alpha1.BuildStatus{JobName: job, LogTail: "the end of it"}
	})
	if text := read(); text != "the end of it\n" {
		t.Errorf("with the job of another tenant: %q", text)
	}
	labels["sless.io/namespace"] = tenant.namespace
	around.pod(t, "sless-build", tenant.namespace+"-b", labels, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "installing") })
	if text := read(); text != tenant.namespace+"-b installing\n" {
		t.Errorf("with its own: %q", text)
	}
}
