// Command gateway measures what the gateway costs, beside a bare ReverseProxy and the reverse proxies of Debian's packages: one upstream, one
// generator of load, everything in rounds in which each proxy has its turn, and of the rounds the medians. First comes the processor time of the
// proxy's own process for a request, which hardly depends on what else the machine does; then latency, then throughput.
//
// It runs at the repository's root, as root: `make bench`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/naeel/sless/hack/internal/measure"
)

type options struct {
	rounds      int
	duration    time.Duration
	connections int
	routes      measure.Sizes
	sockets     int
	page        string
	ledger      string
	// load is the machine's load average before the benchmark.
	load string
}

func main() {
	o := options{routes: measure.Sizes{1, 1000, 10000}}
	flag.IntVar(&o.rounds, "rounds", 7, "how often each proxy has its turn")
	flag.DurationVar(&o.duration, "duration", 2*time.Second, "how long a turn is")
	flag.IntVar(&o.connections, "connections", 64, "how many connections send requests")
	flag.Var(&o.routes, "routes", "numbers of functions, rising; requests are spread over all of them")
	flag.IntVar(&o.sockets, "sockets", 1000, "how many idle WebSockets to hold")
	flag.StringVar(&o.page, "page", "", "a page of documentation to put the tables into, between its marks; the plot goes beside it")
	flag.StringVar(&o.ledger, "ledger-dsn-file", "", "file with the connection string of a PostgreSQL that has the ledger's tables; a gateway that writes to it is measured as well")
	flag.Parse()
	o.load, _, _ = strings.Cut(measure.Load(), ",")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "bench gateway:", err)
		os.Exit(1)
	}
}

// run starts everything, measures, and ends everything that it started.
func run(ctx context.Context, o *options) (err error) {
	dir, err := os.MkdirTemp("", "sless-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	_ = os.Chmod(dir, 0o755) // nginx's workers are another user
	if err := measure.Build(ctx, dir, "./gateway", "./hack/bench/gateway/bare", "./hack/bench/gateway/upstream"); err != nil {
		return err
	}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"} {
		_ = os.Setenv(name, dir) // where Caddy keeps what it thinks worth keeping
	}
	if err := makeNetwork(); err != nil {
		return err
	}
	defer removeNetwork()
	upstream, err := measure.Start("upstream", "ip", "netns", "exec", netns, filepath.Join(dir, "upstream"), "-address", podAddress+":"+upstreamPort)
	if err != nil {
		return err
	}
	defer upstream.Stop()
	if err := upstream.Reachable(ctx, podAddress+":"+upstreamPort); err != nil {
		return err
	}
	cluster, err := startCluster(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()

	report := newReport(o)
	if err := report.measureSockets(ctx, cluster, dir); err != nil {
		return fmt.Errorf("WebSockets: %w", err)
	}
	own, err := startGateway(ctx, "gateway", filepath.Join(dir, "gateway"), cluster.kubeconfig)
	if err != nil {
		return err
	}
	defer own.Stop()
	address, err := measure.FreeAddress()
	if err != nil {
		return err
	}
	bare, err := startProxy(ctx, "bare ReverseProxy", address, filepath.Join(dir, "bare"), "-address", address, "-to", podAddress+":"+upstreamPort)
	if err != nil {
		return err
	}
	defer bare.Stop()
	proxies, err := startPeers(ctx, dir)
	for _, p := range proxies {
		defer p.Stop()
	}
	if err != nil {
		return err
	}
	proxies = append([]*proxy{own.proxy, bare}, proxies...)
	gateways := []*gateway{own}
	if o.ledger != "" {
		recording, err := startGateway(ctx, "gateway with ledger", filepath.Join(dir, "gateway"), cluster.kubeconfig, "-ledger-dsn-file", o.ledger)
		if err != nil {
			return err
		}
		defer recording.Stop()
		proxies, gateways = append(proxies, recording.proxy), append(gateways, recording)
	}
	for _, routes := range o.routes {
		if err := cluster.grow(ctx, routes); err != nil {
			return err
		}
		for _, g := range gateways {
			if err := g.knows(ctx, routes); err != nil {
				return err
			}
		}
		if err := report.measure(ctx, own, proxies, routes); err != nil {
			return fmt.Errorf("%d routes: %w", routes, err)
		}
	}
	return report.publish()
}
