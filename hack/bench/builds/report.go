package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/naeel/sless/hack/internal/measure"
)

// report is what a run has measured.
type report struct {
	rounds       int
	began        time.Time
	loadBefore   string
	loadAfter    string
	times        map[string][]time.Duration
	firstJobs    int // while everything was made the first time
	changeJobs   int // while only code changed, with the append builder
	waited       int // pods that found no room at first
	memoryBefore int64
	memoryPeak   int64
	memoryTook   time.Duration
}

func newReport(rounds int) *report {
	return &report{rounds: rounds, began: time.Now(), loadBefore: measure.Load(), times: map[string][]time.Duration{}}
}

func (r *report) end() { r.loadAfter = measure.Load() }

func (r *report) add(what string, took time.Duration) {
	fmt.Printf("  %-46s %6.2f s\n", what, took.Seconds())
	r.times[what] = append(r.times[what], took)
}

// row is one line of the table: something measured, and what it is compared with.
type row struct {
	What    string  `json:"what"`
	Median  float64 `json:"medianSeconds"`
	Least   float64 `json:"leastSeconds"`
	Most    float64 `json:"mostSeconds"`
	Against string  `json:"against,omitempty"`
	Ratio   float64 `json:"ratio,omitempty"`
	Target  float64 `json:"target,omitempty"`
}

func (r *report) row(what string) row {
	times := slices.Sorted(slices.Values(r.times[what]))
	return row{What: what, Median: times[len(times)/2].Seconds(), Least: times[0].Seconds(), Most: times[len(times)-1].Seconds()}
}

// rows are the table: what is measured alone, and then against what.
func (r *report) rows() []row {
	var rows []row
	for _, what := range []string{appendCode, appendDeps, plainImage, otherImage, kanikoCode, kanikoDeps} {
		if len(r.times[what]) > 0 {
			rows = append(rows, r.row(what))
		}
	}
	return rows
}

func (r *report) ratios() []row {
	var rows []row
	for _, pair := range []struct {
		what, against string
		target        float64
	}{
		{appendCode, kanikoCode, 0.25}, {appendDeps, kanikoDeps, 0.25},
		{appendCode, plainImage, 1.5}, {appendDeps, plainImage, 1.5}, {appendCode, otherImage, 1.5},
	} {
		if len(r.times[pair.what]) == 0 || len(r.times[pair.against]) == 0 {
			continue
		}
		compared := r.row(pair.what)
		compared.Against, compared.Target = pair.against, pair.target
		compared.Ratio = compared.Median / r.row(pair.against).Median
		rows = append(rows, compared)
	}
	return rows
}

const mebibyte = 1 << 20

// table is the report as Markdown, which can be read as it is, too.
func (r *report) table() string {
	var out strings.Builder
	fmt.Fprintf(&out, "| from the API call to the new bytes served | median | least | most |\n| --- | --- | --- | --- |\n")
	for _, row := range r.rows() {
		fmt.Fprintf(&out, "| %s | %.2f s | %.2f s | %.2f s |\n", row.What, row.Median, row.Least, row.Most)
	}
	fmt.Fprintf(&out, "\n| ratio of medians | against | ratio | target |\n| --- | --- | --- | --- |\n")
	for _, row := range r.ratios() {
		fmt.Fprintf(&out, "| %s | %s | %.2f | ≤ %.2f |\n", row.What, row.Against, row.Ratio, row.Target)
	}
	fmt.Fprintf(&out, "\n| what else | measured | target |\n| --- | --- | --- |\n")
	if len(r.times) > 0 {
		fmt.Fprintf(&out, "| build Jobs for %d changes of code, dependencies unchanged | %d | 0 |\n", 2*r.rounds, r.changeJobs)
		fmt.Fprintf(&out, "| build Jobs when everything was made the first time (one function of four has dependencies) | %d | 1 |\n", r.firstJobs)
	}
	if r.memoryPeak > 0 {
		fmt.Fprintf(&out, "| the operator's memory with %d sources of %d MB at once (%.0f s; before: %d MiB) | %d MiB | ≤ 256 MiB |\n",
			sources, sourceSize/mebibyte, r.memoryTook.Seconds(), r.memoryBefore/mebibyte, r.memoryPeak/mebibyte)
	}
	fmt.Fprintf(&out, "\nMeasured on %s with %s; load average %s when it began and %s when it ended.\n",
		r.began.Format("2 January 2006"), measure.Machine(), r.loadBefore, r.loadAfter)
	if r.waited > 0 {
		fmt.Fprintf(&out, "The cluster was too full: %d pods, of this run or of builds beside it, waited for room on a node. Measure again.\n", r.waited)
	}
	return out.String()
}

// text is the table for a terminal.
func (r *report) text() string {
	var out strings.Builder
	columns := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for line := range strings.Lines(r.table()) {
		if strings.HasPrefix(line, "| ---") {
			continue
		}
		fmt.Fprint(columns, strings.ReplaceAll(strings.Trim(line, "| \n"), " | ", "\t"), "\n")
	}
	columns.Flush()
	return out.String()
}

// write leaves the report in a folder.
func (r *report) write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(map[string]any{
		"began": r.began, "rounds": r.rounds, "machine": measure.Machine(), "loadBefore": r.loadBefore, "loadAfter": r.loadAfter, "times": r.rows(), "ratios": r.ratios(),
		"firstJobs": r.firstJobs, "changeJobs": r.changeJobs,
		"operatorMemory": map[string]any{"sources": sources, "sourceBytes": sourceSize, "beforeBytes": r.memoryBefore, "peakBytes": r.memoryPeak, "seconds": r.memoryTook.Seconds()},
	}, "", "  ")
	if err != nil {
		return err
	}
	for name, content := range map[string]string{"builds.json": string(text) + "\n", "builds.txt": r.text(), "builds.svg": chart(r.rows())} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writePage puts the table into a page and the chart beside it.
func (r *report) writePage(page string) error {
	return measure.PutIntoPage(page, "hack/bench/builds", r.table(), []byte(chart(r.rows())))
}
