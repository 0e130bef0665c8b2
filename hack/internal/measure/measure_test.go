package measure

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	same := func(v float64) float64 { return v }
	for want, of := range map[float64][]float64{0: nil, 3: {3}, 2: {9, 1, 2}, 2.5: {1, 9, 2, 3}} {
		if got := Median(of, same); got != want {
			t.Errorf("median of %v is %v", of, got)
		}
	}
}

func TestProcessorTime(t *testing.T) {
	p, err := Start("busy", "sh", "-c", "(while :; do :; done) & wait")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		used, err := p.CPU()
		if err != nil {
			t.Fatal(err)
		}
		if used > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a child's time does not count")
		}
	}
	if memory, err := p.Memory(); err != nil || memory <= 0 {
		t.Errorf("%d bytes, %v", memory, err)
	}
}

func TestSizes(t *testing.T) {
	given := Sizes{1, 2}
	if got := given.String(); got != "1,2" {
		t.Errorf("the default shows as %q", got)
	}
	for _, text := range []string{"", "a", "0", "1,1", "2,1", "1,"} {
		if err := given.Set(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if err := given.Set("3,40"); err != nil || !slices.Equal(given, []int{3, 40}) {
		t.Errorf("got %v, %v", given, err)
	}
}

// TestWeigh holds that the heap is read after a collection, and that a program without the metric is an error rather than light.
func TestWeigh(t *testing.T) {
	collected, metrics := false, "# TYPE calls counter\ncalls{method=\"GET\"} 2\ncalls{method=\"PUT\"} 3\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.RequestURI() {
		case "/debug/pprof/heap?gc=1":
			collected = true
		case "/metrics":
			_, _ = w.Write([]byte(metrics))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	p, err := Start("idle", "sleep", "60")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	p.Admin = server.Listener.Addr().String()
	if _, err := p.Get(t.Context(), "/nothing"); err == nil || !strings.Contains(err.Error(), "idle: /nothing: 404") {
		t.Errorf("another status than 200 is %v", err)
	}
	if _, err := p.Weigh(t.Context()); err == nil {
		t.Error("a program without the metric is weighed")
	}
	collected = false
	metrics += "# TYPE go_memstats_heap_alloc_bytes gauge\ngo_memstats_heap_alloc_bytes 4096\n"
	weight, err := p.Weigh(t.Context())
	if err != nil || weight.Live != 4096 || weight.Resident <= 0 || !collected {
		t.Errorf("got %+v, %v, collected: %v", weight, err, collected)
	}
	counted, err := p.Metrics(t.Context())
	if all, get := counted.Sum("calls", "", ""), counted.Sum("calls", "method", "GET"); err != nil || all != 5 || get != 2 {
		t.Errorf("%v calls, %v by GET, %v", all, get, err)
	}
}

// TestPutIntoPage holds that the plot has the name by which the page shows it.
func TestPutIntoPage(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("page.md", []byte(Mark("hack/bench/one")+ends), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := PutIntoPage("page.md", "hack/bench/one", "table\n", []byte("plot")); err != nil {
		t.Fatal(err)
	}
	if plot, err := os.ReadFile("one.svg"); err != nil || string(plot) != "plot" {
		t.Errorf("plot %q, %v", plot, err)
	}
}
