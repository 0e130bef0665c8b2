package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/naeel/sless/hack/cluster/internal/binaries"
)

// start brings up the bare cluster. Each part is left alone when it already runs as it should.
func start(ctx context.Context, a *app) error {
	if a.external {
		a.progress.Say("      using the cluster of SLESS_KUBECONFIG")
		return a.forward()
	}
	if err := a.node.InstallPackages(ctx); err != nil {
		return err
	}
	if err := a.buildPrograms(ctx); err != nil {
		return err
	}
	return a.startAll(ctx)
}

func (a *app) startAll(ctx context.Context) error {
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

// buildPrograms builds what runs here, two at a time: each build alone leaves a core idle while it downloads and links.
func (a *app) buildPrograms(ctx context.Context) error {
	builds := []func() error{
		func() error { return a.builder.Kube(ctx) }, // the longest first
		func() error { return a.builder.Link(ctx, binaries.KubeRouter) },
	}
	for _, program := range []binaries.Program{binaries.CoreDNS, binaries.Registry, binaries.Kaniko, binaries.S3, binaries.Skipper, binaries.Pause} {
		builds = append(builds, func() error { _, err := a.builder.Build(ctx, program); return err })
	}
	return inParallel(2, builds)
}

// inParallel runs all, at most so many at a time, and gives every error.
func inParallel(most int, tasks []func() error) error {
	var all sync.WaitGroup
	places := make(chan struct{}, most)
	failures := make([]error, len(tasks))
	for i, task := range tasks {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			failures[i] = task()
		})
	}
	all.Wait()
	return errors.Join(failures...)
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

// bin brings the programs alone that tests start: a real API server, registry, object store and PostgreSQL need no cluster.
func bin(ctx context.Context, a *app) error {
	if err := a.node.InstallPostgres(ctx); err != nil {
		return err
	}
	for _, program := range []binaries.Program{binaries.Registry, binaries.S3} {
		if err := a.builder.Link(ctx, program); err != nil {
			return err
		}
	}
	return a.builder.Kube(ctx)
}

// tofu builds OpenTofu, for the provider's tests where there is no terraform.
func tofu(ctx context.Context, a *app) error { return a.builder.Link(ctx, binaries.Tofu) }

// argocd runs Argo CD on the local cluster, for people and tests.
func argocd(ctx context.Context, a *app) error {
	if a.external {
		return errors.New("install Argo CD on the cluster of SLESS_KUBECONFIG as its project says")
	}
	return a.addons.ArgoCD(ctx)
}

// kubeconfig prints the path of the kubeconfig in use.
func kubeconfig(_ context.Context, a *app) error {
	path, err := filepath.Abs(a.kubectl.Kubeconfig)
	if err != nil {
		return err
	}
	_, err = os.Stdout.WriteString(path + "\n")
	return err
}
