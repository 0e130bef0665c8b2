package main

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"text/template"
	"time"

	"github.com/naeel/sless/hack/internal/measure"
)

// proxy is one of those that are compared.
type proxy struct {
	*measure.Process
	address string
}

//go:embed peers
var configurations embed.FS

// peers are the proxies of Debian's packages, and how they are started in the foreground.
var peers = []struct {
	name, file string
	args       func(file string) []string
}{
	{"nginx", "nginx.conf", func(file string) []string { return []string{"-c", file} }},
	{"haproxy", "haproxy.cfg", func(file string) []string { return []string{"-f", file} }},
	{"caddy", "Caddyfile", func(file string) []string { return []string{"run", "--adapter", "caddyfile", "--config", file} }},
}

// startPeers starts those that are installed.
func startPeers(ctx context.Context, dir string) ([]*proxy, error) {
	var started []*proxy
	for _, peer := range peers {
		program, err := exec.LookPath(peer.name)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s is not installed and left out\n", peer.name)
			continue
		}
		address, err := measure.FreeAddress()
		if err != nil {
			return started, err
		}
		file := filepath.Join(dir, peer.file)
		_, port, _ := net.SplitHostPort(address)
		values := map[string]string{"Dir": dir, "Listen": address, "Port": port, "Upstream": podAddress + ":" + upstreamPort}
		if err := configure(file, peer.file, values); err != nil {
			return started, err
		}
		p, err := startProxy(ctx, peer.name, address, program, peer.args(file)...)
		if err != nil {
			return started, err
		}
		started = append(started, p)
	}
	return started, nil
}

func configure(file, from string, values map[string]string) error {
	parsed, err := template.ParseFS(configurations, "peers/"+from)
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	return parsed.Execute(out, values)
}

func startProxy(ctx context.Context, name, address, program string, args ...string) (*proxy, error) {
	started, err := measure.Start(name, program, args...)
	if err != nil {
		return nil, err
	}
	if err := started.Reachable(ctx, address); err != nil {
		started.Stop()
		return nil, err
	}
	return &proxy{Process: started, address: address}, nil
}

// gateway is the gateway as it is installed, with every default, outside of its pod.
type gateway struct{ *proxy }

func startGateway(ctx context.Context, name, program, kubeconfig string, more ...string) (*gateway, error) {
	var addresses [3]string
	for i := range addresses {
		var err error
		if addresses[i], err = measure.FreeAddress(); err != nil {
			return nil, err
		}
	}
	p, err := startProxy(ctx, name, addresses[0], program, append([]string{"-kubeconfig", kubeconfig,
		"-public-address", addresses[0], "-internal-address", addresses[1], "-admin-address", addresses[2]}, more...)...)
	if err != nil {
		return nil, err
	}
	p.Admin = addresses[2]
	return &gateway{proxy: p}, nil
}

// knows waits until the gateway has so many routes, and has heard from the pod of the last.
func (g *gateway) knows(ctx context.Context, functions int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for last := []byte(nil); ; {
		metrics, err := g.Metrics(ctx)
		if err == nil && int(metrics.Sum("sless_gateway_routes", "", "")) == functions {
			last, err = g.Get(ctx, "/routes/"+userNamespace+"/"+functionName(functions-1))
			if err == nil && bytes.Contains(last, []byte(`{"enabled":true,"revisions":{"r1":1}}`)) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the gateway does not know %d functions: %w: %v: %s", functions, ctx.Err(), err, last)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
