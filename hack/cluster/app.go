package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/naeel/sless/hack/cluster/internal/addons"
	"github.com/naeel/sless/hack/cluster/internal/binaries"
	"github.com/naeel/sless/hack/cluster/internal/images"
	"github.com/naeel/sless/hack/cluster/internal/kubectl"
	"github.com/naeel/sless/hack/cluster/internal/node"
	"github.com/naeel/sless/hack/cluster/internal/plan"
	"github.com/naeel/sless/hack/cluster/internal/plane"
	"github.com/naeel/sless/hack/cluster/internal/postgres"
	"github.com/naeel/sless/hack/cluster/internal/process"
	"github.com/naeel/sless/hack/cluster/internal/progress"
)

// app holds the parts that the commands put together.
type app struct {
	place     plan.Place
	progress  *progress.Printer
	processes process.Set
	builder   binaries.Builder
	cache     images.Cache
	plane     plane.Plane
	node      node.Node
	addons    addons.Addons
	postgres  postgres.Server
	kubectl   kubectl.Client
	external  bool // a cluster that somebody else made
}

func newApp(place plan.Place) *app {
	out := progress.New(os.Stdout)
	a := &app{
		place:     place,
		progress:  out,
		processes: process.Set{Dir: filepath.Join(plan.RunDir, "processes")},
		builder:   binaries.Builder{Place: place, Progress: out},
		cache:     images.Cache{Dir: filepath.Join(place.Cache, "images")},
		kubectl:   kubectl.Client{Program: place.Bin("kubectl"), Kubeconfig: place.Kubeconfig()},
	}
	if external := plan.ExternalKubeconfig(); external != "" {
		a.external = true
		a.kubectl.Kubeconfig = external
		if path, err := exec.LookPath("kubectl"); err == nil {
			a.kubectl.Program = path
		}
		// The forwarder of this work tree, not of the machine.
		a.processes.Dir = place.In("processes")
	}
	a.plane = plane.Plane{Place: place, Processes: a.processes, Progress: out}
	a.node = node.Node{Place: place, Processes: a.processes, Progress: out}
	a.postgres = postgres.Server{Place: place, Processes: a.processes, Progress: out}
	a.addons = addons.Addons{Place: place, Builder: a.builder, Cache: a.cache, Node: a.node, Kubectl: a.kubectl, Progress: out}
	return a
}

// ownerFile names the work tree whose cluster runs on this machine: there is room for one.
var ownerFile = filepath.Join(plan.RunDir, "owner")

// owner is the .dev folder of the cluster on this machine, or empty.
func owner() (string, error) {
	data, err := os.ReadFile(ownerFile)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return string(data), err
}

// claim makes this machine's cluster ours. It refuses while another work tree's cluster runs, and clears what is left of one that
// no longer does. Our own that ended without down (a restart of the machine) is cleared likewise and goes on with its data.
func (a *app) claim(ctx context.Context) error {
	current, err := owner()
	if err != nil {
		return err
	}
	alive := a.anyAlive()
	if current == a.place.Dev && alive {
		return nil
	}
	if current != "" {
		if alive && plan.IsRepo(filepath.Dir(current)) {
			return fmt.Errorf("the cluster of another work tree runs on this machine; end it first: make -C %s down", filepath.Dir(current))
		}
		a.progress.Say("      clearing what is left of the cluster of %s", current)
		if err := a.clear(ctx, current); err != nil {
			return err
		}
	}
	if err := a.node.CheckAlone(); err != nil {
		return err
	}
	if err := os.MkdirAll(plan.RunDir, 0o755); err != nil {
		return err
	}
	if err := a.node.Remember(ctx); err != nil {
		return err
	}
	return os.WriteFile(ownerFile, []byte(a.place.Dev), 0o644)
}

func (a *app) anyAlive() bool {
	names, err := a.processes.Names()
	if err != nil {
		return false
	}
	for _, name := range names {
		if a.processes.Alive(name) {
			return true
		}
	}
	return false
}

// clear ends the cluster whose folder is dev and leaves nothing of it outside that folder.
func (a *app) clear(ctx context.Context, dev string) error {
	names, err := a.processes.Names()
	if err != nil {
		return err
	}
	var failures []error
	for _, name := range stopOrder(names) {
		// Killed rather than asked: there is no data to write out, it is removed next.
		failures = append(failures, a.processes.Kill(name))
	}
	failures = append(failures, a.node.Sweep(ctx, dev))
	if err := errors.Join(failures...); err != nil {
		return err
	}
	return os.RemoveAll(plan.RunDir)
}

// lock keeps two runs of this program from changing the cluster at the same time: a local cluster is one for the machine, whatever the
// work tree.
func (a *app) lock() (unlock func(), err error) {
	path := plan.RunDir + ".lock"
	if a.external {
		path = a.place.In("lock")
	} else if err := node.CheckRoot(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for how := syscall.LOCK_EX | syscall.LOCK_NB; ; {
		err := syscall.Flock(int(file.Fd()), how)
		switch {
		case err == nil:
			return func() { file.Close() }, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			a.progress.Say("      waiting for another run of this program to end")
			how = syscall.LOCK_EX
		case !errors.Is(err, syscall.EINTR):
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}
