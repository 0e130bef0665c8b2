// Command builds measures on a cluster how long a change takes until it is served, and what the operator needs for it: sless with either
// builder, and beside them the roll-out of an image that exists already. Everything is measured in one run, in turns, because one
// machine's seconds say little to another: the ratios do.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	what := flag.String("measure", "changes,memory", "what to measure; changes restart the operator with either builder")
	rounds := flag.Int("rounds", 5, "how often each change is made")
	out := flag.String("out", ".dev/bench", "the `folder` for builds.json, builds.txt and builds.svg")
	page := flag.String("page", "", "a page of documentation to put the table into, between its marks; the chart goes beside it (default: none)")
	flag.Parse()
	// Stopped, it still gives the operator its flags back.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, *what, *rounds, *out, *page); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, what string, rounds int, out, page string) error {
	w, err := newWorld(ctx)
	if err != nil {
		return err
	}
	defer w.end()
	report := newReport(rounds)
	if strings.Contains(what, "changes") {
		if err := w.measureChanges(ctx, rounds, report); err != nil {
			return err
		}
	}
	if strings.Contains(what, "memory") {
		if err := w.measureMemory(ctx, report); err != nil {
			return err
		}
	}
	report.end()
	fmt.Print(report.text())
	if err := report.write(out); err != nil {
		return err
	}
	if page == "" {
		return nil
	}
	return report.writePage(page)
}
