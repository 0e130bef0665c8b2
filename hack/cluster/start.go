package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/naeel/sless/hack/cluster/internal/binaries"
	"github.com/naeel/sless/hack/cluster/internal/node"
)

// start brings up the bare cluster. Each part is left alone when it already runs as it should.
func start(ctx context.Context, a *app) error {
	if a.external {
		a.progress.Say("      using the cluster of SLESS_KUBECONFIG")
		return a.forward()
	}
	if err := node.CheckRoot(); err != nil {
		return err
	}
	unlock, err := lockMachine()
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.node.InstallPackages(ctx); err != nil {
		return err
	}
	if err := a.buildPrograms(ctx); err != nil {
		return err
	}
	if err := a.claim(ctx); err != nil {
		return err
	}
	if err := a.startPlane(ctx); err != nil {
		return err
	}
	if err := a.startNode(ctx); err != nil {
		return err
	}
	if err := a.addons.Apply(ctx); err != nil {
		return err
	}
	if err := a.node.ProxiesReady(ctx); err != nil {
		return err
	}
	return a.forward()
}

func (a *app) buildPrograms(ctx context.Context) error {
	if err := a.builder.Kube(ctx); err != nil {
		return err
	}
	if err := a.builder.Link(ctx, binaries.KubeRouter); err != nil {
		return err
	}
	for _, program := range []binaries.Program{binaries.Pause, binaries.CoreDNS, binaries.Registry, binaries.S3, binaries.Kaniko} {
		if _, err := a.builder.Build(ctx, program); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) startPlane(ctx context.Context) error {
	if err := a.node.Network(ctx); err != nil {
		return err
	}
	if err := a.plane.Credentials(); err != nil {
		return err
	}
	return a.plane.Start(ctx)
}

func (a *app) startNode(ctx context.Context) error {
	pause, err := a.addons.PauseName(ctx)
	if err != nil {
		return err
	}
	if err := a.node.Containerd(ctx, pause); err != nil {
		return err
	}
	if err := a.addons.LoadPause(ctx); err != nil {
		return err
	}
	if err := a.addons.NodeRights(ctx); err != nil {
		return err
	}
	if err := a.node.Kubelet(); err != nil {
		return err
	}
	if err := a.node.Ready(ctx, a.kubectl); err != nil {
		return err
	}
	return a.node.Proxies()
}

// bin builds the Kubernetes programs alone: tests against a real API server need no cluster.
func bin(ctx context.Context, a *app) error { return a.builder.Kube(ctx) }

// kubeconfig prints the path of the kubeconfig in use.
func kubeconfig(_ context.Context, a *app) error {
	path, err := filepath.Abs(a.kubectl.Kubeconfig)
	if err != nil {
		return err
	}
	_, err = os.Stdout.WriteString(path + "\n")
	return err
}
