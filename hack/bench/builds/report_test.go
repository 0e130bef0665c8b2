package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naeel/sless/hack/internal/measure"
)

// example is the report of a run in which everything took as many seconds as rounds were made before, and a bit for what it is.
func example() *report {
	r := newReport(3)
	for i, what := range []string{appendCode, plainImage, otherImage, appendDeps, kanikoCode, kanikoDeps} {
		for _, seconds := range []int{3, 1, 2} { // in no order
			r.times[what] = append(r.times[what], time.Duration(seconds*(i+1))*time.Second)
		}
	}
	r.memoryPeak = 100 << 20
	return r
}

func TestTable(t *testing.T) {
	table := example().table()
	for _, want := range []string{
		"| new code, --builder=append | 2.00 s | 1.00 s | 3.00 s |",
		"| new code, --builder=append | new code, --builder=kaniko | 0.20 | ≤ 0.25 |",
		"| new code, --builder=append | another image, plain Deployment | 0.50 | ≤ 1.50 |",
		"| 100 MiB | ≤ 256 MiB |",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no line %q in\n%s", want, table)
		}
	}
}

func TestChartIsXML(t *testing.T) {
	decoder := xml.NewDecoder(strings.NewReader(chart(example().rows())))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWritePage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	tableBegins, tableEnds := measure.Mark("hack/bench/builds"), "<!-- end -->\n"
	if err := os.WriteFile(page, []byte("before\n"+tableBegins+"old\n"+tableEnds+"after\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := example()
	for range 2 { // the second time finds what the first wrote
		if err := r.writePage(page); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n" + tableBegins + r.table() + tableEnds + "after\n"; string(text) != want {
		t.Errorf("got %s, want %s", text, want)
	}
	if err := os.WriteFile(page, []byte("no marks\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.writePage(page); err == nil {
		t.Error("a page without marks is written to")
	}
}
