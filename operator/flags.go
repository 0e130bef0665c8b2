package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"k8s.io/client-go/rest"

	"github.com/naeel/sless/operator/internal/build"
	"github.com/naeel/sless/operator/internal/build/fetch"
)

// options is what the command line says.
type options struct {
	configFile     string
	leaderElect    bool
	healthAddress  string
	metricsAddress string
	logLevel       slog.Level
	builder        build.Kind
	// cluster is where to work; nil is where the program runs, or what KUBECONFIG names.
	cluster *rest.Config
}

// parseFlags reads the command line. It has written to messages what is wrong with it.
func parseFlags(args []string, messages io.Writer) (options, error) {
	o := options{builder: build.Append}
	flags := flag.NewFlagSet("operator", flag.ContinueOnError)
	flags.SetOutput(messages)
	flags.Usage = func() {
		fmt.Fprintln(messages, "usage: operator [flags]          run the controllers\n       operator check FOLDER [FILE…]\n                                 check what an install step left in FOLDER, and that one of the files is there\n       operator "+fetch.Usage+"\n                                 unpack the tar.gz at an address into FOLDER\n\nflags:")
		flags.PrintDefaults()
	}
	flags.StringVar(&o.configFile, "config", "/etc/sless/config.yaml", "the platform's configuration `file`")
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "work only while holding the lease sless-operator in sless-system; needed when more than one replica runs")
	flags.StringVar(&o.healthAddress, "health-address", ":8081", "`address` of /healthz and /readyz")
	flags.StringVar(&o.metricsAddress, "metrics-address", ":9090", "`address` of /metrics and of /debug/pprof/; 0 for none")
	flags.Var(&o.builder, "builder", "what makes images: `append`, in this process, or kaniko, in Jobs, so that this process pushes nothing")
	flags.TextVar(&o.logLevel, "log-level", slog.LevelInfo, "`level` of the log: DEBUG, INFO, WARN or ERROR")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		flags.Usage()
		return o, errors.New("unexpected argument")
	}
	return o, nil
}
