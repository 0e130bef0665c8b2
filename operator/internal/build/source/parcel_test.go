package source

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naeel/sless/operator/internal/build/dial"
	"github.com/naeel/sless/operator/internal/config"
)

// parcelStore returns a fetcher of a store that has two parcels, one of them old, and the requests that it gets, bodies left out.
func parcelStore(t *testing.T) (*S3, *[]string) {
	t.Helper()
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // the client notices
		if r.Method == http.MethodGet {
			now, then := time.Now().UTC().Format(time.RFC3339), "2026-01-02T03:04:05Z"
			fmt.Fprintf(w, `<ListBucketResult><Contents><Key>builds/new.tar.gz</Key><LastModified>%s</LastModified></Contents>`+
				`<Contents><Key>builds/old.tar.gz</Key><LastModified>%s</LastModified></Contents></ListBucketResult>`, now, then)
		}
		requests = append(requests, r.Method+" "+r.URL.Path+" "+r.URL.Query().Get("prefix"))
		w.Header().Set("ETag", `"x"`)
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(server.Close)
	folder := t.TempDir()
	for name, text := range map[string]string{"accessKeyID": "platform", "secretAccessKey": "hidden"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s3, err := newS3(config.ObjectStore{Endpoint: server.URL, Region: "us-east-1", Bucket: "sless", CredentialsDir: folder}, &dial.Guard{}, spool{})
	if err != nil {
		t.Fatal(err)
	}
	return s3, &requests
}

func TestParcels(t *testing.T) {
	s3, requests := parcelStore(t)
	first, err := s3.PutParcel(t.Context(), "job", strings.NewReader("x"), 1)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s3.PutParcel(t.Context(), "job", strings.NewReader("x"), 1)
	if err != nil {
		t.Fatal(err)
	}
	if first == second || !strings.HasPrefix(first, "builds/job-") {
		t.Errorf("got %q and %q", first, second)
	}
	address, err := s3.SignParcel(t.Context(), first, 6*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(address, "/sless/"+first+"?") || !strings.Contains(address, "X-Amz-Expires=360&") || strings.Contains(address, "hidden") {
		t.Errorf("got %s", address)
	}
	if err := s3.RemoveParcel(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := s3.RemoveParcels(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"PUT /sless/" + first + " ", "PUT /sless/" + second + " ", "DELETE /sless/" + first + " ",
		"GET /sless/ builds/", "DELETE /sless/builds/old.tar.gz ",
	}
	if !slices.Equal(*requests, want) {
		t.Errorf("got %q, want %q", *requests, want)
	}
}
