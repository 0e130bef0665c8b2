package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/naeel/sless/hack/internal/measure"
)

// turn is what one proxy did in one round.
type turn struct {
	cpu       float64 // µs a request
	perSecond float64
	p50, p99  time.Duration
}

// added is what a proxy adds to the latency at a rate that it has twice of.
type added struct{ rate, p50, p99 float64 }

// report collects what is measured.
type report struct {
	options *options
	names   []string
	// turns are those of each proxy with each number of routes.
	turns map[string]map[int][]turn
	// added is by proxy; with the first number of routes only.
	added map[string][]added
	// known and called are the gateway's memory by number of routes, before the first request and after the last; sockets is without and
	// with WebSockets.
	known, called map[int]measure.Weight
	sockets       [2]measure.Weight
}

func newReport(o *options) *report {
	return &report{options: o, turns: map[string]map[int][]turn{}, added: map[string][]added{}, known: map[int]measure.Weight{}, called: map[int]measure.Weight{}}
}

// measureSockets measures what idle WebSockets take, with a gateway that has done nothing else.
func (r *report) measureSockets(ctx context.Context, c *cluster, dir string) error {
	if r.options.sockets == 0 {
		return nil
	}
	if err := c.grow(ctx, 1); err != nil {
		return err
	}
	g, err := startGateway(ctx, "gateway", filepath.Join(dir, "gateway"), c.kubeconfig)
	if err != nil {
		return err
	}
	defer g.Stop()
	if err := g.knows(ctx, 1); err != nil {
		return err
	}
	if r.sockets[0], err = g.Weigh(ctx); err != nil {
		return err
	}
	sockets, err := openSockets(g.address, path(0), r.options.sockets)
	if err != nil {
		return err
	}
	defer closeSockets(sockets)
	r.sockets[1], err = g.Weigh(ctx)
	return err
}

// measure runs the rounds with a number of routes.
func (r *report) measure(ctx context.Context, g *gateway, proxies []*proxy, routes int) error {
	requests := make([][]byte, routes)
	for i := range requests {
		requests[i] = request(path(i))
	}
	var err error
	if r.known[routes], err = g.Weigh(ctx); err != nil {
		return err
	}
	// The first call of a function costs more than those after it, which are what is measured: its counters come into being.
	first := load{address: g.address, requests: requests, connections: r.options.connections, once: true}
	if done := first.run(ctx, time.Minute); done.err != nil {
		return done.err
	}
	for round := range r.options.rounds {
		for i := range proxies {
			p := proxies[(i+round)%len(proxies)] // nobody always comes after the same one
			if err := r.turn(ctx, p, requests); err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
		}
		fmt.Fprintf(os.Stderr, "%d routes: round %d of %d\n", routes, round+1, r.options.rounds)
	}
	if r.called[routes], err = g.Weigh(ctx); err != nil {
		return err
	}
	if routes != r.options.routes[0] {
		return nil
	}
	for range r.options.rounds {
		for _, p := range proxies {
			if err := r.half(ctx, p, requests); err != nil {
				return fmt.Errorf("%s at half load: %w", p.Name, err)
			}
		}
	}
	return nil
}

func (r *report) turn(ctx context.Context, p *proxy, requests [][]byte) error {
	load := load{address: p.address, requests: requests, connections: r.options.connections}
	if warm := load.run(ctx, r.options.duration/4); warm.err != nil {
		return warm.err
	}
	before, err := p.CPU()
	if err != nil {
		return err
	}
	done := load.run(ctx, r.options.duration)
	if done.err != nil {
		return done.err
	}
	after, err := p.CPU()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.turns[p.Name] == nil {
		r.turns[p.Name] = map[int][]turn{}
		r.names = append(r.names, p.Name)
	}
	r.turns[p.Name][len(requests)] = append(r.turns[p.Name][len(requests)], turn{
		cpu:       float64((after - before).Microseconds()) / float64(done.requests()),
		perSecond: done.perSecond(), p50: done.quantile(.5), p99: done.quantile(.99),
	})
	return nil
}

// half sends half of what the proxy can carry, through it and past it, one right after the other.
func (r *report) half(ctx context.Context, p *proxy, requests [][]byte) error {
	rate := measure.Median(r.turns[p.Name][len(requests)], func(t turn) float64 { return t.perSecond }) / 2
	through := load{address: p.address, requests: requests, connections: r.options.connections, rate: rate}
	direct := through
	direct.address = podAddress + ":" + upstreamPort
	var results [2]*result
	for i, load := range []load{through, direct} {
		if results[i] = load.run(ctx, r.options.duration); results[i].err != nil {
			return results[i].err
		}
	}
	milliseconds := func(q float64) float64 {
		return float64(results[0].quantile(q)-results[1].quantile(q)) / float64(time.Millisecond)
	}
	r.added[p.Name] = append(r.added[p.Name], added{rate, milliseconds(.5), milliseconds(.99)})
	return nil
}
