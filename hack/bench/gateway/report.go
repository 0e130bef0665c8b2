package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

const mebibyte = 1 << 20

// cpu returns the median of the processor time of a request, in µs.
func (r *report) cpu(name string, routes int) float64 {
	return median(r.turns[name][routes], func(t turn) float64 { return t.cpu })
}

// write writes the tables, in Markdown, and the plot.
func (r *report) write(w io.Writer) error {
	o := r.options
	fmt.Fprintf(w, "1 KiB, %d connections, medians of %d rounds of %s.\n\n", o.connections, o.rounds, o.duration)
	fmt.Fprint(w, "| proxy | routes | CPU-µs a request | of the gateway's | p50 ms | p99 ms | requests/s |\n| --- | --: | --: | --: | --: | --: | --: |\n")
	for _, name := range r.names {
		for _, routes := range o.routes {
			turns := r.turns[name][routes]
			milliseconds := func(of func(turn) time.Duration) float64 {
				return median(turns, func(t turn) float64 { return float64(of(t)) / float64(time.Millisecond) })
			}
			fmt.Fprintf(w, "| %s | %d | %.1f | %.2f | %.1f | %.1f | %.0f |\n", name, routes, r.cpu(name, routes), r.cpu(name, routes)/r.cpu("gateway", routes),
				milliseconds(func(t turn) time.Duration { return t.p50 }), milliseconds(func(t turn) time.Duration { return t.p99 }),
				median(turns, func(t turn) float64 { return t.perSecond }))
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
		fmt.Fprintf(w, "| %s | %.0f | %.2f | %.2f |\n", name, median(of, func(a added) float64 { return a.rate }),
			median(of, func(a added) float64 { return a.p50 }), median(of, func(a added) float64 { return a.p99 }))
	}
	fmt.Fprint(w, "\n| the gateway's resident memory | MiB |\n| --- | --: |\n")
	for _, routes := range o.routes {
		fmt.Fprintf(w, "| %d routes, all of them called | %.1f |\n", routes, float64(r.memory[routes])/mebibyte)
	}
	if o.sockets > 0 {
		fmt.Fprintf(w, "| at the start | %.1f |\n| with %d idle WebSockets | %.1f |\n", float64(r.sockets[0])/mebibyte, o.sockets, float64(r.sockets[1])/mebibyte)
	}
	if o.plot == "" {
		return nil
	}
	return os.WriteFile(o.plot, r.draw(), 0o644)
}

// ratio is the gateway's processor time over another's: the median of what it is in each round, in which both had the same machine.
func (r *report) ratio(name string, routes int) float64 {
	ours, theirs := r.turns["gateway"][routes], r.turns[name][routes]
	ratios := make([]float64, min(len(ours), len(theirs)))
	for i := range ratios {
		ratios[i] = ours[i].cpu / theirs[i].cpu
	}
	return median(ratios, func(ratio float64) float64 { return ratio })
}
