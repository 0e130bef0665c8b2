package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naeel/sless/hack/internal/measure"
)

func TestQuantile(t *testing.T) {
	r := &result{}
	for i := range 100 {
		r.latencies = append(r.latencies, time.Duration(i+1))
	}
	for q, want := range map[float64]time.Duration{0: 1, .5: 51, .99: 100, 1: 100} {
		if got := r.quantile(q); got != want {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
}

// TestReadAnswer holds that only whole answers of the upstream count: a proxy that refuses is fast, and measures nothing.
func TestReadAnswer(t *testing.T) {
	whole := "HTTP/1.1 200 OK\r\ncontent-length: 1024\r\n\r\n" + strings.Repeat("x", answerBytes)
	for name, test := range map[string]struct {
		text string
		good bool
	}{
		"whole":   {whole, true},
		"short":   {whole[:len(whole)-1], false},
		"empty":   {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false},
		"refused": {strings.Replace(whole, "200 OK", "503 No", 1), false},
		"nothing": {"", false},
	} {
		if test.good {
			test.text += test.text
		}
		reader := bufio.NewReader(strings.NewReader(test.text))
		if err := readAnswer(reader); (err == nil) != test.good {
			t.Errorf("%s: %v", name, err)
		}
		if test.good {
			if err := readAnswer(reader); err != nil {
				t.Errorf("%s, the next: %v", name, err)
			}
		}
	}
}

// TestPage holds that the tables take the place of those before them, and the rest of the page stays.
func TestPage(t *testing.T) {
	begins, ends := measure.Mark(benchmark), "<!-- end -->\n"
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+begins+"old\n"+ends+"after\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := newReport(&options{routes: []int{1, 10}, page: page})
	for _, name := range []string{"gateway", "other"} {
		r.names = append(r.names, name)
		r.turns[name] = map[int][]turn{1: {{cpu: 10}, {cpu: 20}}, 10: {{cpu: 30}}}
	}
	for range 2 {
		if err := r.publish(); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n" + begins, ends + "after\n", "| gateway | 1 | 15.0 |", "| other | 10 | 30.0 |", "| other | 1.00× |"} {
		if strings.Count(string(text), want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "old") {
		t.Error("what was there before is left")
	}
	if plot, err := os.ReadFile(filepath.Join(filepath.Dir(page), "gateway.svg")); err != nil || !strings.Contains(string(plot), "30 (10 routes)") {
		t.Errorf("plot %s, %v", plot, err)
	}
	if err := os.WriteFile(page, []byte("no marks\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.publish(); err == nil {
		t.Error("a page without a place for the tables is taken")
	}
}
