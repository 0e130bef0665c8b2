package sources

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/config"
	"github.com/naeel/sless/apiserver/internal/problem"
)

// clock is what an object store in a test takes for now.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time                  { return c.now }
func (c *clock) Since(t time.Time) time.Duration { return c.now.Sub(t) }

// newStore returns a Store whose object store is a server in this process, that keeps the time of age ago.
func newStore(t testing.TB, ttl time.Duration) (*Store, *clock) {
	t.Helper()
	clock := &clock{time.Now()}
	backend := s3mem.New(s3mem.WithTimeSource(clock))
	if err := backend.CreateBucket("sless"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithTimeSource(clock), gofakes3.WithTimeSkewLimit(0)).Server())
	t.Cleanup(server.Close)
	store, err := New(settings(t, server.URL), ttl)
	if err != nil {
		t.Fatal(err)
	}
	return store, clock
}

// newKeepingStore returns one whose object store keeps what it got of a body that broke off, and says that it failed.
func newKeepingStore(t testing.TB) *Store {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("sless"); err != nil {
		t.Fatal(err)
	}
	next := gofakes3.New(backend, gofakes3.WithTimeSkewLimit(0)).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		key, isObject := strings.CutPrefix(r.URL.Path, "/sless/")
		if err != nil && r.URL.Query().Has("uploadId") {
			panic(http.ErrAbortHandler) // half a part is no object anywhere
		}
		if err != nil && isObject && r.Method == http.MethodPut {
			if _, err := backend.PutObject("sless", key, map[string]string{"Last-Modified": time.Now().UTC().Format(http.TimeFormat)}, bytes.NewReader(body), int64(len(body)), nil); err != nil {
				t.Error(err)
			}
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	store, err := New(settings(t, server.URL), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func settings(t testing.TB, endpoint string) config.ObjectStore {
	t.Helper()
	dir := t.TempDir()
	for name, value := range map[string]string{"accessKeyID": "sless", "secretAccessKey": "sless-secret\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config.ObjectStore{Endpoint: endpoint, Bucket: "sless", Region: "us-east-1", CredentialsDir: dir}
}

// keys lists all objects of the bucket.
func keys(t testing.TB, store *Store) []string {
	t.Helper()
	var all []string
	for found := range store.client.ListObjects(context.Background(), store.bucket, minio.ListObjectsOptions{Recursive: true}) {
		if found.Err != nil {
			t.Fatal(found.Err)
		}
		all = append(all, found.Key)
	}
	return all
}

func known(archive []byte) Upload {
	sum := sha256.Sum256(archive)
	return Upload{Tenant: "uid", Body: bytes.NewReader(archive), Size: int64(len(archive)), SHA256: sum[:]}
}

func unknown(archive []byte) Upload {
	return Upload{Tenant: "uid", Body: iotest.HalfReader(bytes.NewReader(archive)), Size: -1}
}

func TestTheSameBytesAreStoredOnce(t *testing.T) {
	store, _ := newStore(t, time.Hour)
	archive := newZip(t, 17<<20, "")
	var first rest.SourceUpload
	for i, upload := range []Upload{known(archive), unknown(archive), known(archive)} {
		uploaded, err := store.Put(t.Context(), upload)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = uploaded
		}
		if uploaded != first || uploaded.Size != int64(len(archive)) {
			t.Errorf("upload %d: got %+v, first was %+v", i, uploaded, first)
		}
	}
	all := keys(t, store)
	if len(all) != 1 || all[0] != "tenants/uid/"+first.Key {
		t.Fatalf("objects %v", all)
	}
	stored, err := store.client.GetObject(t.Context(), "sless", all[0], minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stored.Close()
	if got, err := io.ReadAll(stored); err != nil || !bytes.Equal(got, archive) {
		t.Errorf("read %d bytes of %d, error %v", len(got), len(archive), err)
	}
}

func codeOf(err error) string {
	if p, ok := problem.From(err); ok {
		return p.Code
	}
	return ""
}

func TestABadUploadLeavesNothing(t *testing.T) {
	store, _ := newStore(t, time.Hour)
	t.Run("atomic store", func(t *testing.T) { testBadUploads(t, store) })
	t.Run("store that keeps what came", func(t *testing.T) { testBadUploads(t, newKeepingStore(t)) })
}

func TestWhatBrokeOffIsNotTakenForTheWhole(t *testing.T) {
	store, _ := newStore(t, time.Hour)
	archive := newZip(t, 1<<20, "")
	upload := known(archive)
	target := object(upload.Tenant, Key(hex.EncodeToString(upload.SHA256)))
	for _, again := range []Upload{known(archive), unknown(archive)} {
		half := archive[:len(archive)/2]
		if _, err := store.client.PutObject(t.Context(), "sless", target, bytes.NewReader(half), int64(len(half)), minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Put(t.Context(), again); err != nil {
			t.Error(err)
		}
		if info, err := store.stat(t.Context(), target); err != nil || info.Size != int64(len(archive)) {
			t.Errorf("%d bytes of %d are there, error %v", info.Size, len(archive), err)
		}
	}
}

func testBadUploads(t *testing.T, store *Store) {
	archive := newZip(t, 9<<20, "")
	damaged := bytes.Clone(archive)
	damaged[1000] ^= 1
	broken := problem.New(400, rest.CodeIncompleteBody, "broken off")
	gone := func(upload Upload, after int) Upload {
		upload.Body = io.MultiReader(bytes.NewReader(archive[:after]), iotest.ErrReader(broken))
		return upload
	}
	wrong := known(archive)
	wrong.Body = bytes.NewReader(damaged)
	for name, test := range map[string]struct {
		upload Upload
		code   string
	}{
		"wrong digest":             {wrong, rest.CodeDigestMismatch},
		"gone, known":              {gone(known(archive), 8<<20), rest.CodeIncompleteBody},
		"gone early, known":        {gone(known(archive), 10), rest.CodeIncompleteBody},
		"gone, unknown":            {gone(unknown(archive), 8<<20+5), rest.CodeIncompleteBody},
		"gone early, unknown":      {gone(unknown(archive), 10), rest.CodeIncompleteBody},
		"no archive, length known": {known(bytes.Repeat([]byte("x"), 1<<20)), rest.CodeNotAnArchive},
		"no archive":               {unknown(bytes.Repeat([]byte("x"), 9<<20)), rest.CodeNotAnArchive},
		"nothing":                  {Upload{Tenant: "uid", Body: bytes.NewReader(nil)}, rest.CodeNotAnArchive},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := store.Put(t.Context(), test.upload); codeOf(err) != test.code {
				t.Errorf("got %v, want %s", err, test.code)
			}
			if all := keys(t, store); len(all) != 0 {
				t.Errorf("objects %v", all)
			}
			for found := range store.client.ListIncompleteUploads(t.Context(), store.bucket, "", true) {
				if minio.ToErrorResponse(found.Err).Code != minio.NoSuchUpload { // the server's word for none
					t.Errorf("incomplete upload %v", found)
				}
			}
		})
	}
}

// breaking is a body that ends before it should, and says so.
type breaking struct{ broke chan struct{} }

func (b *breaking) Read([]byte) (int, error) {
	select {
	case <-b.broke:
	default:
		close(b.broke)
	}
	return 0, io.ErrUnexpectedEOF
}

// A part that the store still takes in while the upload is aborted may stay, so that none may be on its way then.
func TestNoPartIsOnItsWayWhenAnUploadIsAborted(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("sless"); err != nil {
		t.Fatal(err)
	}
	next := gofakes3.New(backend, gofakes3.WithTimeSkewLimit(0)).Server()
	broke := make(chan struct{}) // when the body has
	var under, aborted atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch part := r.URL.Query().Has("partNumber"); {
		case part:
			under.Add(1)
			defer under.Add(-1)
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Errorf("a part is cut off: %v", err)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			<-broke
			time.Sleep(50 * time.Millisecond) // for who would abort now
			if r.Context().Err() != nil {
				t.Error("a part is given up")
			}
		case r.Method == http.MethodDelete && r.URL.Query().Has("uploadId"):
			aborted.Add(1)
			if n := under.Load(); n > 0 {
				t.Errorf("aborted while %d parts are on their way", n)
			}
		}
		next.ServeHTTP(w, r)
	}))
	defer server.Close()
	store, err := New(settings(t, server.URL), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	upload := known(newZip(t, 3*partSize, ""))
	upload.Body = io.MultiReader(io.LimitReader(upload.Body, 2*partSize+partSize/2), &breaking{broke})
	if _, err := store.Put(t.Context(), upload); !errors.Is(err, io.ErrUnexpectedEOF) || aborted.Load() != 1 {
		t.Errorf("aborted %d times: %v", aborted.Load(), err)
	}
	if left := keys(t, store); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestAnObjectStoreThatIsAwayIsNoFaultOfTheCaller(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"broken": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"denied": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"gone":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			store, err := New(settings(t, server.URL), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			archive := newZip(t, 100, "")
			for _, upload := range []Upload{known(archive), unknown(archive)} {
				if _, err := store.Put(t.Context(), upload); codeOf(err) != rest.CodeObjectStoreAway {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

func TestCollectRemovesWhatIsOldAndNotNamed(t *testing.T) {
	const ttl = 24 * time.Hour
	store, clock := newStore(t, ttl)
	put := func(size int, age time.Duration) string {
		t.Helper()
		clock.now = time.Now().Add(-age)
		uploaded, err := store.Put(t.Context(), known(newZip(t, size, "")))
		if err != nil {
			t.Fatal(err)
		}
		return uploaded.Key
	}
	old, named, young := put(1, 25*time.Hour), put(2, 25*time.Hour), put(3, time.Hour)
	renewed := put(4, 25*time.Hour)
	if again := put(4, 0); again != renewed {
		t.Fatalf("got %s", again)
	}
	clock.now = time.Now().Add(-48 * time.Hour)
	for _, key := range []string{"tenants/uid/own/app.zip", "tenants/uid/uploads/half"} {
		if _, err := store.client.PutObject(t.Context(), "sless", key, bytes.NewReader([]byte("x")), 1, minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	clock.now = time.Now()
	asked := errors.New("can't be asked")
	if removed, err := store.Collect(t.Context(), func(context.Context) (map[string]map[string]bool, error) { return nil, asked }); removed != 0 || !errors.Is(err, asked) {
		t.Errorf("removed %d without knowing what is named, error %v", removed, err)
	}
	removed, err := store.Collect(t.Context(), func(context.Context) (map[string]map[string]bool, error) {
		return map[string]map[string]bool{"uid": {named: true}, "other": {old: true}}, nil
	})
	if err != nil || removed != 2 {
		t.Errorf("removed %d, error %v", removed, err)
	}
	want := map[string]bool{"tenants/uid/" + named: true, "tenants/uid/" + young: true, "tenants/uid/" + renewed: true, "tenants/uid/own/app.zip": true}
	all := keys(t, store)
	for _, key := range all {
		if !want[key] {
			t.Errorf("%s is still there", key)
		}
	}
	if len(all) != len(want) {
		t.Errorf("objects %v, want %v", all, want)
	}
}
