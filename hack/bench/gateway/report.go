package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/naeel/sless/hack/internal/measure"
)

const mebibyte = 1 << 20

// cpu returns the median of the processor time of a request, in µs.
func (r *report) cpu(name string, routes int) float64 {
	return measure.Median(r.turns[name][routes], func(t turn) float64 { return t.cpu })
}

// benchmark is what the page's marks call this program.
const benchmark = "hack/bench/gateway"

// publish prints the tables, and puts them into the page, with the plot beside it.
func (r *report) publish() error {
	var tables strings.Builder
	r.write(&tables)
	fmt.Print(tables.String())
	if r.options.page == "" {
		return nil
	}
	tables.WriteString("\n![CPU-µs a request](gateway.svg)\n")
	return measure.PutIntoPage(r.options.page, benchmark, tables.String(), r.draw())
}

// write writes the tables, in Markdown.
func (r *report) write(w io.Writer) {
	o := r.options
	fmt.Fprintf(w, "1 KiB, %d connections, medians of %d rounds of %s, on %d cores that had a load average of %s besides.\n\n",
		o.connections, o.rounds, o.duration, runtime.NumCPU(), o.load)
	fmt.Fprint(w, "| proxy | routes | CPU-µs a request | of the gateway's | p50 ms | p99 ms | requests/s |\n| --- | --: | --: | --: | --: | --: | --: |\n")
	for _, name := range r.names {
		for _, routes := range o.routes {
			turns := r.turns[name][routes]
			milliseconds := func(of func(turn) time.Duration) float64 {
				return measure.Median(turns, func(t turn) float64 { return float64(of(t)) / float64(time.Millisecond) })
			}
			fmt.Fprintf(w, "| %s | %d | %.1f | %.2f | %.1f | %.1f | %.0f |\n", name, routes, r.cpu(name, routes), r.cpu(name, routes)/r.cpu("gateway", routes),
				milliseconds(func(t turn) time.Duration { return t.p50 }), milliseconds(func(t turn) time.Duration { return t.p99 }),
				measure.Median(turns, func(t turn) float64 { return t.perSecond }))
		}
	}
	fmt.Fprint(w, "\n| the gateway against | ")
	for _, routes := range o.routes {
		fmt.Fprintf(w, "%d routes | ", routes)
	}
	fmt.Fprint(w, "\n| --- |")
	for range o.routes {
		fmt.Fprint(w, " --: |")
	}
	for _, name := range r.names[1:] {
		fmt.Fprintf(w, "\n| %s | ", name)
		for _, routes := range o.routes {
			fmt.Fprintf(w, "%.2f× | ", r.ratio(name, routes))
		}
	}
	fmt.Fprint(w, "\n\n| added to direct at half load | requests/s | p50 ms | p99 ms |\n| --- | --: | --: | --: |\n")
	for _, name := range r.names {
		of := r.added[name]
		fmt.Fprintf(w, "| %s | %.0f | %.2f | %.2f |\n", name, measure.Median(of, func(a added) float64 { return a.rate }),
			measure.Median(of, func(a added) float64 { return a.p50 }), measure.Median(of, func(a added) float64 { return a.p99 }))
	}
	fmt.Fprint(w, "\n| the gateway's memory | resident MiB | live heap MiB |\n| --- | --: | --: |\n")
	line := func(what string, of measure.Weight) {
		fmt.Fprintf(w, "| %s | %.1f | %.1f |\n", what, float64(of.Resident)/mebibyte, float64(of.Live)/mebibyte)
	}
	if o.sockets > 0 {
		line("1 route", r.sockets[0])
		line(fmt.Sprintf("1 route, %d idle WebSockets", o.sockets), r.sockets[1])
	}
	for _, routes := range o.routes {
		line(fmt.Sprintf("%d routes, those that are new not called", routes), r.known[routes])
		line(fmt.Sprintf("%d routes, all called", routes), r.called[routes])
	}
}

// ratio is the gateway's processor time over another's: the median of what it is in each round, in which both had the same machine.
func (r *report) ratio(name string, routes int) float64 {
	ours, theirs := r.turns["gateway"][routes], r.turns[name][routes]
	ratios := make([]float64, min(len(ours), len(theirs)))
	for i := range ratios {
		ratios[i] = ours[i].cpu / theirs[i].cpu
	}
	return measure.Median(ratios, func(ratio float64) float64 { return ratio })
}
