// Command gateway carries tenants' HTTP traffic to the pods of their functions. docs/gateway.md says what it does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"k8s.io/klog/v2"
)

// gcPercent is how much the heap may grow between collections when GOGC does not say. A gateway's live heap is small and what requests leave behind
// is not: with Go's own 100 it would collect many times a second. GOMEMLIMIT bounds it.
const gcPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	logger := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	slog.SetDefault(logger)
	klog.SetSlogLogger(logger)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, logger, os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			os.Exit(2)
		}
		logger.Error("gateway ends", "error", err)
		os.Exit(1)
	}
}

// run runs the gateway until ctx ends, and then drains it.
func run(ctx context.Context, logger *slog.Logger, args []string) error {
	options, err := parse(args)
	if err != nil {
		return fmt.Errorf("flags: %w", err)
	}
	g, err := build(options, logger, os.Stdout)
	if err != nil {
		return err
	}
	return g.serve(ctx)
}
