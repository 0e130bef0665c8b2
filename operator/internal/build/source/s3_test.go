package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/dial"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/config"
)

// store answers as an object store does, and remembers who asked. How real ones sign and address is tested end to end.
type store struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string]string // by path
	codes   map[string]string // error codes, by path
	keys    []string          // the access keys that asked
	broken  bool
}

func newStore(t *testing.T) *store {
	s := &store{objects: map[string]string{}, codes: map[string]string{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ := strings.Cut(credential, "/")
	s.keys = append(s.keys, key)
	object, found := s.objects[r.URL.Path+"?"+r.URL.Query().Get("versionId")]
	switch code := s.codes[r.URL.Path]; {
	case s.broken:
		w.WriteHeader(http.StatusNotImplemented)
	case code != "":
		refuse(w, code)
	case !found:
		refuse(w, "NoSuchKey")
	default:
		w.Header().Set("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
		w.Header().Set("ETag", `"x"`)
		io.WriteString(w, object) //nolint:errcheck // the client notices
	}
}

func refuse(w http.ResponseWriter, code string) {
	w.Header().Set("Content-Type", "application/xml")
	status := http.StatusForbidden
	if strings.HasPrefix(code, "NoSuch") {
		status = http.StatusNotFound
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
}

func (s *store) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.keys
	s.keys = nil
	return seen
}

const maxBytes = 100

func newTestS3(t *testing.T, endpoint string, allowedHosts ...string) *S3 {
	t.Helper()
	folder := t.TempDir()
	for name, value := range map[string]string{"accessKeyID": "platform\n", "secretAccessKey": "platform-secret\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	guard, err := dial.NewGuard(config.Network{AllowedHosts: allowedHosts})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newS3(config.ObjectStore{Endpoint: endpoint, Region: "us-east-1", Bucket: "sless", CredentialsDir: folder}, guard, spool{t.TempDir(), maxBytes})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFetch(t *testing.T) {
	s := newStore(t)
	s.objects["/sless/tenants/uid/hello.zip?"] = "latest"
	s.objects["/sless/tenants/uid/hello.zip?v1"] = "earlier"
	s.objects["/sless/tenants/other/hello.zip?"] = "another tenant's"
	s.objects["/own/hello.zip?"] = "own"
	s.objects["/sless/tenants/uid/large.zip?"] = strings.Repeat("0", maxBytes+1)
	s.objects["/sless/tenants/uid/fits.zip?"] = strings.Repeat("0", maxBytes)
	s.codes["/sless/tenants/uid/denied.zip"] = "AccessDenied"
	s.codes["/own/denied.zip"] = "AccessDenied"
	s.codes["/own/signature.zip"] = "SignatureDoesNotMatch"
	s.codes["/sless/tenants/uid/signature.zip"] = "SignatureDoesNotMatch"
	s.codes["/absent/hello.zip"] = "NoSuchBucket"
	s.codes["/sless/tenants/uid/nobucket.zip"] = "NoSuchBucket"
	sum := sha256.Sum256([]byte("latest"))
	right := hex.EncodeToString(sum[:])
	for name, test := range map[string]struct {
		object   Object
		want     string
		reason   string
		terminal bool
		says     string
	}{
		"platform's":          {object: Object{Key: "hello.zip"}, want: "latest"},
		"version":             {object: Object{Key: "hello.zip", VersionID: "v1"}, want: "earlier"},
		"digest":              {object: Object{Key: "hello.zip", SHA256: right}, want: "latest"},
		"wrong digest":        {object: Object{Key: "hello.zip", SHA256: strings.Repeat("0", 64)}, reason: v1alpha1.ReasonSourceInvalid, terminal: true, says: right},
		"fits":                {object: Object{Key: "fits.zip"}, want: strings.Repeat("0", maxBytes)},
		"large":               {object: Object{Key: "large.zip"}, reason: v1alpha1.ReasonSourceTooLarge, terminal: true, says: "100 bytes"},
		"absent":              {object: Object{Key: "absent.zip"}, reason: v1alpha1.ReasonSourceNotFound, terminal: true, says: `"tenants/uid/absent.zip"`},
		"absent version":      {object: Object{Key: "hello.zip", VersionID: "v9"}, reason: v1alpha1.ReasonSourceNotFound, terminal: true, says: `"v9"`},
		"another tenant's":    {object: Object{Key: "../other/hello.zip"}, reason: v1alpha1.ReasonSourceNotFound, terminal: true},
		"bucket without keys": {object: Object{Key: "hello.zip", Bucket: "own", Endpoint: "http://evil.example.org"}, want: "latest"},
		"denied":              {object: Object{Key: "denied.zip"}, reason: v1alpha1.ReasonSourceNotFound, terminal: true},
		"platform's keys":     {object: Object{Key: "signature.zip"}, reason: v1alpha1.ReasonObjectStoreUnavailable},
		"platform's bucket":   {object: Object{Key: "nobucket.zip"}, reason: v1alpha1.ReasonObjectStoreUnavailable},
		"own":                 {object: Object{Key: "hello.zip", Bucket: "own", AccessKeyID: "tenant", SecretAccessKey: "s3cr3t"}, want: "own"},
		"own, denied":         {object: Object{Key: "denied.zip", Bucket: "own", AccessKeyID: "tenant", SecretAccessKey: "s3cr3t"}, reason: v1alpha1.ReasonSourceNotFound, terminal: true, says: "may not be read"},
		"own, wrong keys":     {object: Object{Key: "signature.zip", Bucket: "own", AccessKeyID: "tenant", SecretAccessKey: "s3cr3t"}, reason: v1alpha1.ReasonSourceNotFound, terminal: true, says: "secretName"},
		"own, no bucket":      {object: Object{Key: "hello.zip", Bucket: "absent", AccessKeyID: "tenant", SecretAccessKey: "s3cr3t"}, reason: v1alpha1.ReasonSourceNotFound, terminal: true, says: `"absent"`},
	} {
		t.Run(name, func(t *testing.T) {
			fetcher := newTestS3(t, s.URL)
			test.object.NamespaceUID = "uid"
			s.seen()
			file, size, _, err := fetcher.Fetch(t.Context(), test.object)
			for _, key := range s.seen() {
				if want := cmp.Or(test.object.AccessKeyID, "platform"); key != want {
					t.Errorf("asked with the keys of %q, want %q", key, want)
				}
			}
			if test.reason != "" {
				known, ok := errors.AsType[*fault.Error](err)
				if !ok || known.Reason != test.reason || known.Terminal != test.terminal || !strings.Contains(known.Message, test.says) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			got := make([]byte, size)
			if _, err := file.ReadAt(got, 0); err != nil || string(got) != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestFetchLeavesNoFile(t *testing.T) {
	s := newStore(t)
	s.objects["/sless/tenants/uid/hello.zip?"] = "x"
	fetcher := newTestS3(t, s.URL)
	file, _, _, err := fetcher.Fetch(t.Context(), Object{Key: "hello.zip", NamespaceUID: "uid"})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	left, err := os.ReadDir(fetcher.spool.dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestATenantsEndpointIsGuarded(t *testing.T) {
	platform, own := newStore(t), newStore(t)
	own.objects["/own/hello.zip?"] = "own"
	object := Object{Key: "hello.zip", Bucket: "own", Endpoint: own.URL, AccessKeyID: "tenant", SecretAccessKey: "s3cr3t", NamespaceUID: "uid"}
	_, _, _, err := newTestS3(t, platform.URL).Fetch(t.Context(), object)
	known, ok := errors.AsType[*fault.Error](err)
	if !ok || known.Reason != v1alpha1.ReasonSourceInvalid || !strings.Contains(known.Message, "127.0.0.1") {
		t.Errorf("at a forbidden address: %v", err)
	}
	if seen := own.seen(); len(seen) > 0 {
		t.Errorf("it was called by %q", seen)
	}
	file, _, _, err := newTestS3(t, platform.URL, "127.0.0.1").Fetch(t.Context(), object)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	for _, key := range own.seen() {
		if key != "tenant" {
			t.Errorf("the keys of %q were sent to a host that a tenant named", key)
		}
	}
}

// A tenant's object store that takes buckets as hosts only is found out.
func TestAnObjectStoreThatWantsHosts(t *testing.T) {
	s := newStore(t)
	s.objects["/hello.zip?"] = "own"
	s.codes["/own/hello.zip"] = "PathStyleDomainForbidden"
	s.codes["/own/absent.zip"] = "PathStyleDomainForbidden"
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	newFetcher := func() *S3 {
		fetcher := newTestS3(t, "http://127.0.0.1:1")
		fetcher.guarded.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
		}
		return fetcher
	}
	own := Object{Key: "hello.zip", Bucket: "own", Endpoint: "http://s3.example.test", AccessKeyID: "tenant", SecretAccessKey: "s3cr3t"}
	fetcher := newFetcher()
	for range 2 {
		file, size, _, err := fetcher.Fetch(t.Context(), own)
		check(t, file, size, err, "own", "", false, "")
	}
	for _, fetcher := range []*S3{fetcher, newFetcher()} { // also when nothing was fetched before
		if etag, err := fetcher.Revision(t.Context(), own); err != nil || etag != "x" {
			t.Errorf("got %q, %v", etag, err)
		}
	}
	own.Key = "absent.zip"
	_, _, _, err := newFetcher().Fetch(t.Context(), own)
	checkFault(t, err, v1alpha1.ReasonSourceNotFound, true, "refuses to read")
}

func TestS3ReachesNothingInside(t *testing.T) {
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request got inside") }))
	defer inside.Close()
	address, err := url.Parse(inside.URL)
	if err != nil {
		t.Fatal(err)
	}
	to := ""
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	}))
	defer outside.Close()
	outsideAddress, err := url.Parse(outside.URL)
	if err != nil {
		t.Fatal(err)
	}
	own := Object{Key: "hello.zip", Bucket: "own", AccessKeyID: "tenant", SecretAccessKey: "s3cr3t"}
	for _, host := range insideForms {
		own.Endpoint = "http://" + host + ":" + address.Port()
		_, _, _, err := newTestS3(t, "http://127.0.0.1:1").Fetch(t.Context(), own)
		checkFault(t, err, v1alpha1.ReasonSourceInvalid, true, "functions may not name")
		if host == "localhost" {
			continue // the outside's name in what follows
		}
		to = own.Endpoint + "/own/hello.zip"
		own.Endpoint = "http://localhost:" + outsideAddress.Port()
		_, _, _, err = newTestS3(t, "http://127.0.0.1:1", "localhost").Fetch(t.Context(), own)
		checkFault(t, err, v1alpha1.ReasonObjectStoreUnavailable, false, "") // it follows none
	}
}

func TestRevisionsAreShort(t *testing.T) {
	for etag, want := range map[string]int{"x": 1, "d41d8cd98f00b204e9800998ecf8427e-2": 34, strings.Repeat("x", 129): 64, "a b": 64, "\xff": 64, "": 0} {
		if got := revision(etag); len(got) != want {
			t.Errorf("%q became %q", etag, got)
		}
	}
}

func TestAnObjectStoreThatIsAway(t *testing.T) {
	s := newStore(t)
	s.broken = true
	for name, endpoint := range map[string]string{"broken": s.URL, "away": "http://127.0.0.1:1"} {
		_, _, _, err := newTestS3(t, endpoint).Fetch(t.Context(), Object{Key: "hello.zip", NamespaceUID: "uid"})
		known, ok := errors.AsType[*fault.Error](err)
		if !ok || known.Reason != v1alpha1.ReasonObjectStoreUnavailable || known.Terminal {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestADiskThatIsFull(t *testing.T) {
	s := newStore(t)
	s.objects["/sless/tenants/uid/hello.zip?"] = "x"
	fetcher := newTestS3(t, s.URL)
	fetcher.spool.dir = filepath.Join(t.TempDir(), "absent")
	_, _, _, err := fetcher.Fetch(t.Context(), Object{Key: "hello.zip", NamespaceUID: "uid"})
	if known, ok := errors.AsType[*fault.Error](err); !ok || known.Reason != v1alpha1.ReasonBuildFailed || known.Terminal {
		t.Errorf("got %v", err)
	}
}
