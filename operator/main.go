// Command operator brings Functions, Triggers and FunctionJobs about. Three subcommands are steps of build Jobs: confine
// waits for network policies, fetch brings files into a volume, check looks at the files that an install step left.
package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/naeel/sless/operator/internal/build/check"
	"github.com/naeel/sless/operator/internal/build/confine"
	"github.com/naeel/sless/operator/internal/build/fetch"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "check" {
		os.Exit(check.Run(os.Args[2], os.Args[3:], os.Stderr))
	}
	if len(os.Args) == 2 && os.Args[1] == "confine" {
		os.Exit(confine.Run(os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == "fetch" {
		os.Exit(fetch.Run(os.Args[2:], os.Stderr))
	}
	options, err := parseFlags(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(2)
	}
	logger := logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: options.logLevel}))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	if err := run(ctrl.SetupSignalHandler(), options); err != nil {
		logger.Error(err, "The operator ends")
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}
