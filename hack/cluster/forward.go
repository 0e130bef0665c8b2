package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/naeel/sless/hack/cluster/internal/forward"
	"github.com/naeel/sless/hack/cluster/internal/plan"
	"github.com/naeel/sless/hack/cluster/internal/process"
)

func gatewayPort() string   { return variable("SLESS_GATEWAY_PORT", "8080") }
func apiserverPort() string { return variable("SLESS_APISERVER_PORT", "8081") }
func tlsPort() string       { return variable("SLESS_GATEWAY_TLS_PORT", "8443") }
func ingressPort() string   { return variable("SLESS_INGRESS_PORT", "8444") }

func variable(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

// targets are the Services that local ports stand for. Another cluster than ours has no certificate and no Ingress controller of ours.
func (a *app) targets() []forward.Target {
	targets := []forward.Target{
		{LocalPort: gatewayPort(), Namespace: plan.SystemNamespace, Service: "gateway", Port: 8080},
		{LocalPort: apiserverPort(), Namespace: plan.SystemNamespace, Service: "apiserver", Port: 8080},
	}
	if a.external {
		return targets
	}
	return append(targets,
		forward.Target{LocalPort: tlsPort(), Namespace: plan.SystemNamespace, Service: "gateway", Port: 443},
		forward.Target{LocalPort: ingressPort(), Namespace: plan.DevNamespace, Service: "ingress", Port: 443},
	)
}

// forward starts the forwarder in the background and waits until it listens.
func (a *app) forward() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	log := a.place.Log("forward")
	if a.external {
		log = a.place.Log("forward-external") // a local cluster's forwarder may run beside it
	}
	spec := process.Spec{
		Name: "forward", Args: []string{program, "forward"}, Log: log, Version: hex.EncodeToString(sum[:8]),
		Env: []string{
			"SLESS_REPO=" + a.place.Repo, "SLESS_KUBECONFIG=" + plan.ExternalKubeconfig(),
			"SLESS_GATEWAY_PORT=" + gatewayPort(), "SLESS_APISERVER_PORT=" + apiserverPort(),
			"SLESS_GATEWAY_TLS_PORT=" + tlsPort(), "SLESS_INGRESS_PORT=" + ingressPort(),
		},
	}
	started, err := a.processes.Ensure(spec)
	if err != nil || !started {
		return err
	}
	if a.external {
		return nil // kubectl listens when the Service is there
	}
	return a.progress.Step("local ports", spec.Log, a.awaitForwarder)
}

func (a *app) awaitForwarder() error {
	deadline := time.Now().Add(30 * time.Second)
	for _, target := range a.targets() {
		for {
			conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", target.LocalPort))
			alive := a.processes.Alive("forward")
			if err == nil {
				conn.Close()
			}
			if err == nil && alive {
				break
			}
			if !alive || time.Now().After(deadline) {
				return fmt.Errorf("can't forward port %s; if another program has it, set SLESS_GATEWAY_PORT, SLESS_APISERVER_PORT, SLESS_GATEWAY_TLS_PORT or SLESS_INGRESS_PORT", target.LocalPort)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

// forwardPorts is the forwarder itself.
func forwardPorts(ctx context.Context, a *app) error {
	if a.external {
		return forward.PortForward(ctx, a.kubectl, a.targets())
	}
	return forward.Serve(ctx, a.plane.Get, a.targets())
}
