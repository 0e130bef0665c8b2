package main

import (
	"context"
	"embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
type gateway struct {
	*proxy
	admin string
}

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
	return &gateway{proxy: p, admin: addresses[2]}, nil
}

// knows waits until the gateway has so many routes, and has heard from the pod of the last.
func (g *gateway) knows(ctx context.Context, functions int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for last := ""; ; {
		metrics, err := g.get(ctx, "/metrics")
		if err == nil && strings.Contains(metrics, fmt.Sprintf("\nsless_gateway_routes %d\n", functions)) {
			if last, err = g.get(ctx, "/routes/"+userNamespace+"/"+functionName(functions-1)); err == nil && strings.Contains(last, `{"enabled":true,"revisions":{"r1":1}}`) {
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

// use is the memory of the gateway: what is resident, and what of its heap is alive, both in bytes.
type use struct{ resident, live int64 }

// uses returns what memory the gateway uses after a collection.
func (g *gateway) uses(ctx context.Context) (u use, err error) {
	if _, err := g.get(ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return u, err
	}
	metrics, err := g.get(ctx, "/metrics")
	if err != nil {
		return u, err
	}
	const name = "\ngo_memstats_heap_alloc_bytes "
	_, rest, found := strings.Cut(metrics, name)
	value, _, _ := strings.Cut(rest, "\n")
	bytes, err := strconv.ParseFloat(value, 64)
	if !found || err != nil {
		return u, fmt.Errorf("no metric%s: %w", name, err)
	}
	u.live = int64(bytes)
	u.resident, err = g.Memory()
	return u, err
}

func (g *gateway) get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.admin+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}
