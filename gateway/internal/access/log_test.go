package access

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLines(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	for _, path := range []string{"/fn/ns/f", `/"\`, "/ü", "/\xff", "/\n{}", "/<&>\u2028", ""} {
		var out bytes.Buffer
		l := New(&out)
		l.Write(&Line{Time: began, ID: "id", Method: "GET", Path: path, Status: 200, Bytes: 7, Took: 1500 * time.Microsecond, Client: "1.2.3.4", Code: "c"})
		l.Flush()
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || strings.Count(out.String(), "\n") != 1 {
			t.Fatalf("%q gives %q: %v", path, out.String(), err)
		}
		want := map[string]any{
			"time": "2026-01-02T03:04:05.000006Z", "level": "INFO", "msg": "request", "request_id": "id", "method": "GET", "path": strings.ToValidUTF8(path, "\ufffd"),
			"status": 200.0, "bytes": 7.0, "seconds": 0.0015, "client": "1.2.3.4", "code": "c",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", path, diff)
		}
	}
}

// writes notes each write.
type writes struct {
	mu   sync.Mutex
	each []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.each = append(w.each, string(p))
	return len(p), nil
}

func (w *writes) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.each
}

func TestLinesAreWrittenTogetherAndSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &writes{}
		l := New(out)
		for range 3 {
			l.Write(&Line{})
		}
		if all := out.all(); len(all) != 0 {
			t.Errorf("%d writes at once", len(all))
		}
		time.Sleep(2 * flushEvery)
		if all := out.all(); len(all) != 1 || strings.Count(all[0], "\n") != 3 {
			t.Errorf("after a moment: %q", all)
		}
		for range 1000 {
			l.Write(&Line{Path: strings.Repeat("x", 1000)})
		}
		if n := len(out.all()); n < 20 || n > 40 {
			t.Errorf("%d writes of a megabyte", n)
		}
		l.Flush()
		if all := strings.Join(out.all(), ""); strings.Count(all, "\n") != 1003 || !strings.HasSuffix(all, "}\n") {
			t.Error("lines are lost")
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	l := New(&bytes.Buffer{})
	l.out = discard{}
	line := &Line{Time: time.Now(), ID: strings.Repeat("a", 32), Method: "GET", Path: "/fn/namespace/function/path", Status: 200, Client: "10.0.0.1"}
	b.ReportAllocs()
	for b.Loop() {
		l.Write(line)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
