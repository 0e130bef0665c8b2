package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/naeel/sless/hack/internal/measure"
)

// report is what was measured.
type report struct {
	began                 time.Time
	loadBefore, loadAfter string
	// alone is how long each of some Functions took on the empty cluster, and empty what the two programs weighed on it.
	alone []time.Duration
	empty weights
	steps []step
}

// figure is something that shall be the same whatever the number of Functions.
type figure struct {
	what, unit string
	of         func(step) float64
}

func (r *report) figures() []figure {
	return []figure{
		{"operator, CPU for a new Function", "ms", func(s step) float64 { return each(s.Making.CPU, s.Made) }},
		{"API writes for a new Function", "", func(s step) float64 { return float64(sum(s.Making.Writes)) / float64(s.Made) }},
		{"operator, CPU for each after a restart", "ms", func(s step) float64 { return each(s.Restart.CPU, s.Functions) }},
		{"operator, live memory for each", "KiB", func(s step) float64 { return perFunction(s.Operator, r.empty.Operator, s.Functions) }},
		{"gateway, live memory for each", "KiB", func(s step) float64 { return perFunction(s.Gateway, r.empty.Gateway, s.Functions) }},
		{"until one Function more is Ready", "ms", func(s step) float64 { return milliseconds(median(s.OneMore)) }},
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// each is what one of n has of a duration, in milliseconds.
func each(d time.Duration, n int) float64 { return milliseconds(d) / float64(n) }

// perFunction is what of the live heap is one Function's, in KiB.
func perFunction(with, without measure.Weight, functions int) float64 {
	return float64(with.Live-without.Live) / 1024 / float64(functions)
}

// publish prints the tables, and puts them into the page, with the plot beside it.
func (r *report) publish(page string) error {
	var tables strings.Builder
	r.write(&tables)
	fmt.Print(tables.String())
	if page == "" {
		return nil
	}
	tables.WriteString("\n![What each Function costs, by how many there are](scale.svg)\n")
	return measure.PutIntoPage(page, "hack/bench/scale", tables.String(), r.draw())
}

// write writes the tables, in Markdown.
func (r *report) write(w io.Writer) {
	const mebibyte = 1 << 20
	table := func(head string, row func(step)) {
		fmt.Fprintf(w, "| %s |\n|%s\n", head, strings.Repeat(" --: |", strings.Count(head, "|")+1))
		for _, s := range r.steps {
			row(s)
		}
		fmt.Fprintln(w)
	}
	table("Functions | new | operator, CPU-ms for a new one | API writes | API reads | gateway, CPU-ms | seconds until all were Ready", func(s step) {
		fmt.Fprintf(w, "| %d | %d | %.1f | %.1f | %.1f | %.1f | %.0f |\n", s.Functions, s.Made, each(s.Making.CPU, s.Made), float64(sum(s.Making.Writes))/float64(s.Made),
			float64(s.Making.Reads)/float64(s.Made), each(s.GatewayCPU, s.Made), s.Making.Took.Seconds())
	})
	table("Functions | operator after a restart, CPU-ms for each | API writes in all | API reads for each | seconds until it had looked at all | at rest, CPU-ms a second | API requests at rest", func(s step) {
		fmt.Fprintf(w, "| %d | %.1f | %d | %.1f | %.0f | %.1f | %d |\n", s.Functions, each(s.Restart.CPU, s.Functions), sum(s.Restart.Writes),
			float64(s.Restart.Reads)/float64(s.Functions), s.Restart.Took.Seconds(), milliseconds(s.Rest.CPU)/s.Rest.Took.Seconds(), sum(s.Rest.Writes)+s.Rest.Reads)
	})
	table("Functions | operator, resident MiB | live MiB | live KiB for each | gateway, resident MiB | live MiB | live KiB for each", func(s step) {
		weight := func(with, without measure.Weight) string {
			return fmt.Sprintf("%.0f | %.1f | %.1f", float64(with.Resident)/mebibyte, float64(with.Live)/mebibyte, perFunction(with, without, s.Functions))
		}
		fmt.Fprintf(w, "| %d | %s | %s |\n", s.Functions, weight(s.Operator, r.empty.Operator), weight(s.Gateway, r.empty.Gateway))
	})
	table("beside so many | ms until one more is Ready | against the empty cluster | target", func(s step) {
		more, alone := median(s.OneMore), median(r.alone)
		fmt.Fprintf(w, "| %d | %.0f | %.2f | ≤ 2.00 |\n", s.Functions, milliseconds(more), float64(more)/float64(alone))
	})
	if len(r.steps) > 1 {
		first, last := r.steps[0], r.steps[len(r.steps)-1]
		fmt.Fprintf(w, "| of %d against of %d Functions | ratio | target |\n| --- | --: | --: |\n", last.Functions, first.Functions)
		for _, f := range r.figures()[:3] {
			fmt.Fprintf(w, "| %s | %.2f | ≤ 1.10 |\n", f.what, f.of(last)/f.of(first))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "On the empty cluster a Function was Ready after %.0f ms (median of %d). Measured on %s with %s; load average %s when it began and %s when it ended.\n",
		milliseconds(median(r.alone)), len(r.alone), r.began.Format("2 January 2006"), measure.Machine(), r.loadBefore, r.loadAfter)
}

// draw draws each figure as bars, one for each number of Functions, as long as they are to the first.
func (r *report) draw() []byte {
	const width, left, top, barHeight, gap = 760, 270, 46, 15, 12
	figures := r.figures()
	longest := 1.0
	for _, f := range figures {
		for _, s := range r.steps {
			longest = max(longest, f.of(s)/f.of(r.steps[0]))
		}
	}
	group := barHeight*len(r.steps) + gap
	shades := []string{"#a9c6e6", "#5b8fc9", "#1f5fa8"}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, top+group*len(figures)+10)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, top+group*len(figures)+10)
	fmt.Fprintf(&b, `<text x="10" y="22" font-size="14">What each Function costs, by how many there are (bars of one group are to scale)</text>`+"\n")
	for i, f := range figures {
		y := top + i*group
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", left-8, y+(group-gap)/2+4, f.what)
		for j, s := range r.steps {
			long := f.of(s) / f.of(r.steps[0]) / longest * (width - left - 180)
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, left, y+j*barHeight, long, barHeight-2, shades[j%len(shades)])
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" font-size="11">%.1f %s (%d)</text>`+"\n", left+long+5, y+j*barHeight+barHeight-4, f.of(s), f.unit, s.Functions)
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
