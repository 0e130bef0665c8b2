// Package plane is a bare API server for benchmarks: no nodes, and of controllers only those that a benchmark starts.
package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/naeel/sless/api/v1alpha1"
)

// Plane is an API server with sless's kinds.
type Plane struct {
	// Programs is the folder of Kubernetes' programs.
	Programs string
	// Environment is what Start starts.
	Environment *envtest.Environment
	// Client has all rights. Start sets it.
	Client client.Client
}

// New returns a plane that is not started yet. The working directory is the repository's root.
func New() *Plane {
	ctrllog.SetLogger(logr.Discard())
	programs := os.Getenv("KUBEBUILDER_ASSETS")
	if programs == "" {
		programs = filepath.Join(".dev", "bin")
	}
	return &Plane{Programs: programs, Environment: &envtest.Environment{
		BinaryAssetsDirectory: programs, CRDDirectoryPaths: []string{filepath.Join("config", "crd")}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute,
	}}
}

// Start starts it and writes the administrator's kubeconfig into a file. When it fails, there is nothing to stop.
func (p *Plane) Start(kubeconfig string) error {
	config, err := p.Environment.Start()
	if err != nil {
		return fmt.Errorf("start an API server (make kubernetes builds it): %w", err)
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	err = errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), os.WriteFile(kubeconfig, p.Environment.KubeConfig, 0o600))
	if err == nil {
		p.Client, err = client.New(config, client.Options{Scheme: scheme})
	}
	if err != nil {
		return errors.Join(err, p.Stop())
	}
	return nil
}

// Stop ends it.
func (p *Plane) Stop() error { return p.Environment.Stop() }

// Create makes objects, one after the other.
func (p *Plane) Create(ctx context.Context, objects ...client.Object) error {
	for _, object := range objects {
		if err := p.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// CreateEach makes the objects of each number from first to before end, those of some numbers at a time.
func (p *Plane) CreateEach(ctx context.Context, first, end, atATime int, objects func(int) []client.Object) error {
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(atATime)
	for i := first; i < end && creating.Err() == nil; i++ {
		group.Go(func() error { return p.Create(creating, objects(i)...) })
	}
	return errors.Join(group.Wait(), ctx.Err())
}
