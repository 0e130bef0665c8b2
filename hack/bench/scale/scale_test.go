package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naeel/sless/hack/internal/measure"
)

// TestAuditCounts holds that what the operator asks to change is counted once, whole lines only, without Events and the lease.
func TestAuditCounts(t *testing.T) {
	a, err := newAudit(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	line := func(verb, resource, subresource string) string {
		return `{"kind":"Event","verb":"` + verb + `","objectRef":{"resource":"` + resource + `","subresource":"` + subresource + `"}}` + "\n"
	}
	write := func(text string) {
		t.Helper()
		file, err := os.OpenFile(a.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	counts := func(want map[string]int) {
		t.Helper()
		got, err := a.writes()
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	half := line("create", "secrets", "")
	write(line("patch", "functions", "status") + line("patch", "functions", "status") + line("create", "events", "") + line("update", "leases", "") + half[:20])
	counts(map[string]int{"patch functions/status": 2})
	write(half[20:])
	counts(map[string]int{"create secrets": 1})
	counts(map[string]int{})
	write("no JSON\n")
	if _, err := a.writes(); err == nil {
		t.Error("a line that is none is taken")
	}
}

func TestReport(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+measure.Mark("hack/bench/scale")+"old\n<!-- end -->\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	one := func(functions, made int, cpu time.Duration) step {
		return step{
			Functions: functions, Made: made, GatewayCPU: time.Second,
			Making:  cost{Took: time.Minute, CPU: cpu, Writes: map[string]int{"patch functions/status": 9 * made}, Reads: made},
			Restart: cost{Took: time.Second, CPU: cpu, Reads: functions}, Rest: cost{Took: time.Second},
			OneMore: []time.Duration{time.Second, 3 * time.Second, 2 * time.Second},
			weights: weights{Operator: measure.Weight{Resident: 100 << 20, Live: 50<<20 + int64(functions)*2048}, Gateway: measure.Weight{Live: 1 << 20}},
		}
	}
	r := &report{
		alone: []time.Duration{time.Second}, empty: weights{Operator: measure.Weight{Live: 50 << 20}},
		steps: []step{one(1000, 1000, 20*time.Second), one(3000, 2000, 60*time.Second)},
	}
	for range 2 {
		if err := r.publish(page); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 1000 | 1000 | 20.0 | 9.0 | 1.0 | 1.0 | 60 |", "| 3000 | 2000 | 30.0 | 9.0 | 1.0 | 0.5 | 60 |", "| 3000 | 20.0 | 0 | 1.0 | 1 | 0.0 | 0 |",
		"| 3000 | 100 | 55.9 | 2.0 | 0 | 1.0 | 0.3 |", "| 3000 | 2000 | 2.00 | ≤ 2.00 |", "| operator, CPU for a new Function | 1.50 | ≤ 1.10 |", "| API writes for a new Function | 1.00 | ≤ 1.10 |",
	} {
		if strings.Count(string(text), want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "old") || !strings.HasPrefix(string(text), "before\n") || !strings.HasSuffix(string(text), "after\n") {
		t.Errorf("the rest of the page:\n%s", text)
	}
	if plot, err := os.ReadFile(filepath.Join(filepath.Dir(page), "scale.svg")); err != nil || !strings.Contains(string(plot), "30.0 ms (3000)") {
		t.Errorf("plot %s, %v", plot, err)
	}
}
