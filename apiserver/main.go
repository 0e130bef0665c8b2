// Command apiserver offers the REST API of sless. It writes custom resources and holds no state of its own.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	settings "github.com/naeel/sless/apiserver/internal/config"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

func run() error {
	var (
		configFile = flag.String("config", "/etc/sless/config.yaml", "the platform's configuration file")
		public     = flag.String("listen", ":8080", "address of the API")
		admin      = flag.String("listen-admin", ":9090", "address of metrics and health")
	)
	flag.Parse()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	controllerruntime.SetLogger(logr.FromSlogHandler(log.Handler()))
	read, err := settings.Load(*configFile)
	if err != nil {
		return err
	}
	kube, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	service, err := NewService(kube, read, log)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return service.Run(ctx, *public, *admin)
}
