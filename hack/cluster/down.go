package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/naeel/sless/hack/cluster/internal/mounts"
	"github.com/naeel/sless/hack/cluster/internal/plan"
)

// order is the order in which the programs start; what is stopped first is what would otherwise restore what we remove.
var order = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "containerd", "postgres", "kubelet", "kube-proxy", "kube-router", "forward"}

// stopOrder sorts names so that whoever depends on others is stopped before them, unknown ones first of all.
func stopOrder(names []string) []string {
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int { return rank(a) - rank(b) })
	return sorted
}

func rank(name string) int {
	i := slices.Index(order, name)
	if i < 0 {
		return -1
	}
	return len(order) - i
}

// keep is what down leaves in .dev: links into the cache, and logs to read afterwards.
var keep = []string{"bin", "log"}

// down ends the cluster of this work tree and removes its data.
func down(ctx context.Context, a *app) error {
	if a.external {
		a.progress.Say("      the cluster of SLESS_KUBECONFIG is not ours to end; ending the port forwarder only")
		return a.processes.Stop("forward")
	}
	current, err := owner()
	if err != nil {
		return err
	}
	if current != "" && current != a.place.Dev && a.anyAlive() && plan.IsRepo(filepath.Dir(current)) {
		a.progress.Say("      the cluster on this machine is not of this work tree but of %s: leaving it alone", filepath.Dir(current))
		return a.removeData()
	}
	if current != "" {
		err := a.progress.Step("end the cluster", "", func() error { return a.clear(ctx, current) })
		if err != nil {
			return err
		}
	}
	return a.removeData()
}

// removeData empties .dev. It never deletes through a mount that is still there, for behind it may lie what is not the cluster's.
func (a *app) removeData() error {
	mounted, err := mounts.Below(a.place.Dev)
	if err != nil {
		return err
	}
	if len(mounted) > 0 {
		return fmt.Errorf("still mounted, so nothing is deleted: %v", mounted)
	}
	entries, err := os.ReadDir(a.place.Dev)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var failures []error
	for _, entry := range entries {
		if !slices.Contains(keep, entry.Name()) {
			failures = append(failures, os.RemoveAll(a.place.In(entry.Name())))
		}
	}
	return errors.Join(failures...)
}
