package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/naeel/sless/hack/cluster/internal/plan"
)

// status prints what runs.
func status(ctx context.Context, a *app) error {
	if a.external {
		out, err := a.kubectl.Run(ctx, "get", "nodes,deployments", "-A")
		a.progress.Say("cluster of SLESS_KUBECONFIG\n%s", out)
		return err
	}
	current, err := owner()
	if err != nil {
		return err
	}
	if current == "" {
		return errors.New("no cluster runs; start one with: make up")
	}
	if current != a.place.Dev {
		return fmt.Errorf("no cluster of this work tree runs; the one on this machine is of %s", filepath.Dir(current))
	}
	var ended []string
	for _, name := range order {
		pid := a.processes.PID(name)
		if pid == 0 {
			ended = append(ended, name)
			a.progress.Say("%-24s ended (log %s)", name, a.place.Log(name))
			continue
		}
		a.progress.Say("%-24s running, process %d", name, pid)
	}
	if len(ended) > 0 {
		return errors.New("not everything runs; mend it with: make up")
	}
	out, err := a.kubectl.Run(ctx, "get", "deployments", "-A")
	a.progress.Say("\n%s", out)
	a.progress.Say("kubeconfig  %s", a.place.Kubeconfig())
	a.progress.Say("gateway     http://127.0.0.1:%s, https://localhost:%s (CA %s)", gatewayPort(), tlsPort(), a.place.In("public", "ca.crt"))
	a.progress.Say("Ingress     https://%s:%s, https://….%s:%s (the same CA)", plan.PublicHost, ingressPort(), plan.FunctionDomain, ingressPort())
	a.progress.Say("apiserver   http://127.0.0.1:%s", apiserverPort())
	a.progress.Say("registry    %s (accounts in %s)", plan.RegistryHost, a.place.In("credentials.json"))
	a.progress.Say("PostgreSQL  %s:%d (roles in %s)", plan.NodeIP, plan.PostgresPort, a.place.In("postgres.json"))
	a.progress.Say("S3          %s (bucket %s)", plan.S3Endpoint, plan.Bucket)
	return err
}
