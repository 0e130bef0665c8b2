// Package forward lets 127.0.0.1 stand for Services of the cluster.
package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"sync"
	"time"
)

const (
	resolveTimeout = 2 * time.Second
	dialTimeout    = 10 * time.Second // a connection whose first packets are lost on a busy machine comes about after seven
	addressLife    = 5 * time.Second
)

// Target is a Service's port and the local port that stands for it.
type Target struct {
	LocalPort string
	Namespace string
	Service   string
	Port      int
}

// Getter reads a path of the Kubernetes API.
type Getter func(ctx context.Context, path string) ([]byte, error)

// Serve forwards connections for every target until ctx ends or a local port can't be had. A Service that does not exist yet
// is no error: its connections are closed at once.
func Serve(ctx context.Context, get Getter, targets []Target) error {
	var listen net.ListenConfig
	failed := make(chan error, len(targets))
	for _, target := range targets {
		listener, err := listen.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", target.LocalPort))
		if err != nil {
			return err
		}
		defer listener.Close()
		f := &forwarder{target: target, get: get}
		go func() { failed <- f.accept(ctx, listener) }()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

type forwarder struct {
	target Target
	get    Getter

	mu      sync.Mutex // guards what follows
	address string
	next    time.Time // when to ask for the address again
}

func (f *forwarder) accept(ctx context.Context, listener net.Listener) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go f.serve(ctx, conn.(*net.TCPConn))
	}
}

func (f *forwarder) serve(ctx context.Context, client *net.TCPConn) {
	defer client.Close()
	server, err := f.dial(ctx)
	if err != nil {
		log.Printf("%s/%s: %v", f.target.Namespace, f.target.Service, err)
		return
	}
	defer server.Close()
	splice(client, server)
}

// splice copies both ways and passes on each side's end by itself, so that half-closed connections work.
func splice(a, b *net.TCPConn) {
	var both sync.WaitGroup
	for _, pair := range [][2]*net.TCPConn{{a, b}, {b, a}} {
		both.Go(func() {
			if _, err := io.Copy(pair[0], pair[1]); err != nil {
				pair[0].Close()
				pair[1].Close()
				return
			}
			_ = pair[0].CloseWrite()
		})
	}
	both.Wait()
}

func (f *forwarder) dial(ctx context.Context) (*net.TCPConn, error) {
	address, err := f.resolve(ctx)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		f.doubt(address)
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// resolve asks for the Service's address at most every few seconds: it changes only when somebody deletes the Service. An API server that is
// too busy to answer, or away, keeps nobody from the address that was known.
func (f *forwarder) resolve(ctx context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.address != "" && time.Now().Before(f.next) {
		return f.address, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	address, err := f.ask(ctx)
	if err != nil && f.address == "" {
		return "", err
	}
	if err == nil {
		f.address = address
	}
	f.next = time.Now().Add(addressLife)
	return f.address, nil
}

func (f *forwarder) ask(ctx context.Context) (string, error) {
	body, err := f.get(ctx, fmt.Sprintf("/api/v1/namespaces/%s/services/%s", f.target.Namespace, f.target.Service))
	if err != nil {
		return "", err
	}
	ip, err := clusterIP(body)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(ip, fmt.Sprint(f.target.Port)), nil
}

// doubt has the next connection ask again for an address that led nowhere.
func (f *forwarder) doubt(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.address == address {
		f.next = time.Time{}
	}
}

func clusterIP(service []byte) (string, error) {
	var parsed struct {
		Spec struct {
			ClusterIP string `json:"clusterIP"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(service, &parsed); err != nil {
		return "", err
	}
	if net.ParseIP(parsed.Spec.ClusterIP) == nil {
		return "", errors.New("the Service has no address")
	}
	return parsed.Spec.ClusterIP, nil
}
