// Command scale measures what many Functions cost: it makes them in steps on a bare API server, without pods, and asks after each step what
// the operator and the gateway have used for it, what a restart costs, and how long one Function more takes.
//
// It runs at the repository's root and needs what `make kubernetes` makes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/naeel/sless/hack/internal/measure"
)

type options struct {
	sizes    measure.Sizes
	more     int
	rest     time.Duration
	page     string
	profiles string
}

func main() {
	o := options{sizes: measure.Sizes{1000, 5000, 10000}}
	flag.Var(&o.sizes, "sizes", "numbers of Functions, rising")
	flag.IntVar(&o.more, "more", 20, "how many Functions are made one after the other beside each number, and on the empty cluster")
	flag.DurationVar(&o.rest, "rest", 15*time.Second, "how long to look at an operator that has nothing to do")
	flag.StringVar(&o.page, "page", "", "a page of documentation to put the tables into, between its marks; the plot goes beside it")
	flag.StringVar(&o.profiles, "profiles", "", "a `folder` for profiles of the operator's and the gateway's processor time and memory at each number (default: none)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "bench scale:", err)
		os.Exit(1)
	}
}

// run starts everything, measures, and ends everything that it started.
func run(ctx context.Context, o *options) error {
	w, err := newWorld(ctx)
	defer w.end()
	if err != nil {
		return err
	}
	r := &report{began: time.Now(), loadBefore: measure.Load()}
	fmt.Fprintln(os.Stderr, "on the empty cluster")
	if r.alone, err = w.oneMore(ctx, o.more); err != nil {
		return fmt.Errorf("on the empty cluster: %w", err)
	}
	if r.empty, err = w.weigh(ctx); err != nil {
		return err
	}
	for _, size := range o.sizes {
		step, err := w.step(ctx, o, size)
		if err != nil {
			return fmt.Errorf("%d Functions: %w", size, err)
		}
		r.steps = append(r.steps, step)
		fmt.Fprintf(os.Stderr, "%d Functions: made in %.0f s, %v\n", size, step.Making.Took.Seconds(), step.Making.Writes)
	}
	fmt.Fprintf(os.Stderr, "in all %.0f s\n", time.Since(r.began).Seconds())
	r.loadAfter = measure.Load()
	return r.publish(o.page)
}
