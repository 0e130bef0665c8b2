// Command cluster makes, fills and removes the local Kubernetes cluster that sless is developed and tested on.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/naeel/sless/hack/cluster/internal/plan"
)

const usage = `usage: cluster COMMAND

  up          everything: cluster, images, sless, sample functions
  start       the cluster alone: Kubernetes, DNS, registry, object store, Ingress controller
  images      build and push the images of sless that changed
  install     install sless from config/dev with those images
  export      write those images into dist/images, an OCI layout each
  samples     apply the sample functions and call them
  down        end the cluster and remove its data (kept: the cache of binaries and images)
  status      what runs, and where to find it
  settings    print what README.md's section on a cluster of one's own asks for, as the local cluster has it
  kubeconfig  print the path of the kubeconfig
  bin         only build what tests start without a cluster, and link it into .dev/bin: Kubernetes, a registry, an object store
              (and PostgreSQL from Debian's package)
  tofu        only build OpenTofu and link it into .dev/bin
  argocd      run Argo CD on the cluster, without its web server

With SLESS_KUBECONFIG set, that cluster is used and none is made; images then go to SLESS_REGISTRY.
SLESS_GATEWAY_PORT (8080), SLESS_APISERVER_PORT (8081), SLESS_GATEWAY_TLS_PORT (8443) and SLESS_INGRESS_PORT (8444) are the local ports.
`

var commands = map[string]func(context.Context, *app) error{
	"up":         up,
	"start":      start,
	"images":     buildImages,
	"install":    installSless,
	"export":     exportImages,
	"samples":    samples,
	"down":       down,
	"status":     status,
	"settings":   settings,
	"kubeconfig": kubeconfig,
	"bin":        bin,
	"tofu":       tofu,
	"argocd":     argocd,
	"forward":    forwardPorts, // runs in the background
}

func main() {
	if len(os.Args) != 2 || commands[os.Args[1]] == nil {
		fmt.Fprint(os.Stderr, usage)
		if len(os.Args) == 2 && slices.Contains([]string{"help", "-h", "--help"}, os.Args[1]) {
			return
		}
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			fmt.Fprintln(os.Stderr, "interrupted; run the same again to go on")
		} else {
			fmt.Fprintf(os.Stderr, "\nFAILED: %v\n", err)
		}
		stop()
		os.Exit(1)
	}
}

// alone are the commands that change the cluster or its files: one at a time.
var alone = []string{"up", "start", "images", "install", "argocd", "down"}

func run(ctx context.Context, command string) error {
	place, err := plan.Find()
	if err != nil {
		return err
	}
	bypassProxy()
	a := newApp(place)
	if slices.Contains(alone, command) {
		unlock, err := a.lock()
		if err != nil {
			return err
		}
		defer unlock()
	}
	return commands[command](ctx, a)
}

// bypassProxy keeps this program and all that it starts from asking a company's proxy for addresses on this machine.
func bypassProxy() {
	own := strings.Join([]string{"127.0.0.1", "localhost", plan.PodCIDR, plan.ServiceCIDR, ".svc", "." + plan.ClusterDomain}, ",")
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		if set := os.Getenv(name); set != "" && !strings.Contains(set, own) {
			os.Setenv(name, set+","+own)
		} else if set == "" {
			os.Setenv(name, own)
		}
	}
}
