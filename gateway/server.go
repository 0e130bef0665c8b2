package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/naeel/sless/gateway/internal/access"
	"github.com/naeel/sless/gateway/internal/admin"
	"github.com/naeel/sless/gateway/internal/auth"
	"github.com/naeel/sless/gateway/internal/backend"
	"github.com/naeel/sless/gateway/internal/metrics"
	"github.com/naeel/sless/gateway/internal/proxy"
	"github.com/naeel/sless/gateway/internal/route"
	"github.com/naeel/sless/gateway/internal/tracing"
	"github.com/naeel/sless/gateway/internal/transport"
	"github.com/naeel/sless/gateway/internal/watch"
	"github.com/naeel/sless/ledger"
)

// maxAsking is how many pods are asked about themselves at the same time.
const maxAsking = 512

// gateway is the whole program, ready to serve.
type gateway struct {
	options   *options
	logger    *slog.Logger
	proxy     *proxy.Gateway
	transport *transport.Transport
	h2c       *http.Transport
	room      *backend.Room
	access    *access.Log
	tracer    *tracing.Tracer
	// certificate is the public listener's; nil without TLS.
	certificate *certificate
	table       *route.Table
	metrics     *metrics.Metrics
	ledger      *ledger.Writer
	watcher     *watch.Watcher
	ready       admin.Readiness
	listeners   []listener
	// sleep is time.Sleep, which tests take into their own hands.
	sleep func(time.Duration)
}

// listener is one address and what answers there.
type listener struct {
	net.Listener
	name   string
	server *http.Server
}

func (l *listener) serve() error {
	if l.server.TLSConfig != nil {
		return l.server.ServeTLS(l.Listener, "", "")
	}
	return l.server.Serve(l.Listener)
}

// build makes the gateway and opens its listeners. Requests are logged to accessLog.
func build(o *options, logger *slog.Logger, accessLog io.Writer) (*gateway, error) {
	config, err := kubeConfig(o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	clients, err := watch.NewClients(config)
	if err != nil {
		return nil, err
	}
	g := &gateway{options: o, logger: logger, table: route.NewTable(o.domain), transport: transport.New(proxy.NewTransport()), access: access.New(accessLog), sleep: time.Sleep}
	if o.tlsCertFile != "" {
		if g.certificate, err = newCertificate(o.tlsCertFile, o.tlsKeyFile); err != nil {
			return nil, err
		}
	}
	if g.tracer, err = tracing.FromEnvironment(logger); err != nil {
		return nil, err
	}
	g.h2c = proxy.NewH2C(g.transport.Other)
	g.room = backend.NewRoom(o.maxWaitingTotal)
	g.metrics = metrics.New(g.table.Len, g.room.Waiting)
	g.ledger = ledger.NewWriter(ledger.WriterOptions{DSNFile: o.ledgerDSNFile, Log: logger})
	g.metrics.Ledger(g.ledger.Stats)
	g.proxy = proxy.New(proxy.Options{
		Table: g.table, Metrics: g.metrics, Transport: g.transport, H2C: g.h2c,
		Auth:           auth.New(clients, strings.Split(o.callers, ",")),
		Access:         g.access,
		LogRequests:    proxy.LogRequests(o.accessLog),
		Tracer:         g.tracer,
		ServerTiming:   o.serverTiming,
		Ledger:         g.ledger,
		LedgerCaller:   ledger.CallerPolicy(o.ledgerCaller),
		TrustedProxies: o.trustedProxies,
		MaxBodyBytes:   o.maxBodyBytes, BodyTimeout: o.bodyTimeout, WaitTimeout: o.waitTimeout,
	})
	asker := backend.NewHTTPAsker(g.transport, maxAsking)
	g.watcher, err = watch.New(clients, g.table, func(namespace, name string) *route.Route {
		return &route.Route{Namespace: namespace, Name: name, Pool: backend.NewPool(asker, o.maxWaiting, g.room), Meter: g.metrics.Meter(namespace, name)}
	})
	if err != nil {
		return nil, err
	}
	return g, g.listen()
}

func kubeConfig(path string) (*rest.Config, error) {
	if path == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", path)
}

// listen opens the listeners.
func (g *gateway) listen() error {
	type planned struct {
		name, address string
		handler       http.Handler
	}
	listeners := []planned{
		{"internal", g.options.internalAddress, g.proxy.Internal()},
		{"admin", g.options.adminAddress, admin.Handler(g.table, &g.ready, g.metrics.Gatherer())},
	}
	if g.options.publicAddress != "" {
		listeners = append(listeners, planned{"public", g.options.publicAddress, g.proxy.Public()})
	}
	if g.certificate != nil {
		listeners = append(listeners, planned{"tls", g.options.tlsAddress, g.proxy.Public()})
	}
	for _, l := range listeners {
		opened, err := net.Listen("tcp", l.address)
		if err != nil {
			g.closeListeners()
			return fmt.Errorf("%s listener: %w", l.name, err)
		}
		server := g.server(l.handler)
		if l.name == "tls" {
			server.TLSConfig = g.certificate.config()
		}
		g.listeners = append(g.listeners, listener{Listener: opened, name: l.name, server: server})
	}
	return nil
}

func (g *gateway) closeListeners() {
	for _, l := range g.listeners {
		_ = l.Close()
	}
}

// server returns a server whose time-outs bound what a caller may do before its request is known, and nothing after that: uploads, streams
// and WebSockets have clocks of their own.
func (g *gateway) server(handler http.Handler) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)            // with TLS
	protocols.SetUnencryptedHTTP2(true) // as an Ingress may speak it
	return &http.Server{
		Handler:                      handler,
		Protocols:                    protocols,
		ReadHeaderTimeout:            g.options.headerTimeout,
		IdleTimeout:                  g.options.idleTimeout,
		MaxHeaderBytes:               g.options.maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(g.logger.Handler(), slog.LevelDebug),
	}
}

// serve serves until ctx ends, then drains.
func (g *gateway) serve(ctx context.Context) error {
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	failed := make(chan error, len(g.listeners)+1)
	var running sync.WaitGroup
	running.Go(func() {
		if err := g.watcher.Run(watching, g.synced); err != nil {
			failed <- err
		}
	})
	for _, l := range g.listeners {
		running.Go(func() {
			if err := l.serve(); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("%s listener: %w", l.name, err)
			}
		})
	}
	if g.certificate != nil {
		running.Go(func() { g.certificate.follow(watching, g.logger) })
	}
	running.Go(func() { g.ledger.Run(watching) })
	var err error
	select {
	case <-ctx.Done():
		g.drain()
	case err = <-failed:
	}
	for _, l := range g.listeners {
		_ = l.server.Close()
	}
	stopWatching()
	running.Wait()
	for _, r := range g.table.All() {
		r.Pool.Close()
	}
	g.transport.CloseIdleConnections()
	g.h2c.CloseIdleConnections()
	g.access.Flush()
	g.exportSpans()
	return err
}

// exportFor is how long a gateway that ends may take to export the spans it has left.
const exportFor = 3 * time.Second

func (g *gateway) exportSpans() {
	ctx, cancel := context.WithTimeout(context.Background(), exportFor)
	defer cancel()
	g.tracer.Shutdown(ctx)
}

// settleFor is how long a new gateway waits to hear from the pods before it takes requests: rules of the network may reach them later than it
// does.
const settleFor = 5 * time.Second

// synced runs once the table is complete.
func (g *gateway) synced() {
	g.metrics.SetSynced()
	for end := time.Now().Add(settleFor); time.Now().Before(end) && !g.settled(); {
		time.Sleep(20 * time.Millisecond)
	}
	g.ready.Synced()
	g.logger.Info("ready", "routes", g.table.Len())
}

func (g *gateway) settled() bool {
	for _, r := range g.table.All() {
		if !r.Pool.Settled() {
			return false
		}
	}
	return true
}

// drain goes on serving until nobody sends requests here any more, then lets those in flight end. The admin listener stays to the last: it says
// that this gateway is not ready.
func (g *gateway) drain() {
	g.ready.Drain()
	g.proxy.Drain()
	g.logger.Info("draining", "delay", g.options.drainDelay.String())
	g.sleep(g.options.drainDelay)
	ctx, cancel := context.WithTimeout(context.Background(), g.options.drainTimeout)
	defer cancel()
	var closing sync.WaitGroup
	for _, l := range g.listeners {
		if l.name != "admin" {
			closing.Go(func() { _ = l.server.Shutdown(ctx) }) // what is left then is cut by Close
		}
	}
	closing.Wait()
	done := make(chan struct{})
	go func() {
		g.proxy.Wait()
		close(done)
	}()
	select {
	case <-done:
		g.logger.Info("drained")
	case <-ctx.Done():
		g.logger.Warn("requests cut", "after", g.options.drainTimeout.String())
	}
}
