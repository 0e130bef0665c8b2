package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/naeel/sless/hack/cluster/internal/mounts"
	"github.com/naeel/sless/hack/cluster/internal/plan"
)

// Sweep ends every container and takes away every mount, interface, chain, set and control group of the cluster whose folder is
// dev, whatever state it is in. It goes on after a failure and reports all of them; what is not there is no failure.
func (n Node) Sweep(ctx context.Context, dev string) error {
	steps := []func() error{
		endContainers,
		endShims,
		func() error { return mounts.Detach(dev, plan.RunDir) },
		func() error { return removeLinks(ctx) },
		func() error { return removeTables(ctx) },
		func() error { return removeChains(ctx) },
		func() error { return removeEmptyTables(ctx) },
		func() error { return removeSets(ctx) },
		removeCgroups,
		func() error { return removeFiles(dev) },
	}
	var failures []error
	for _, step := range steps {
		failures = append(failures, step())
	}
	// Connections through Services that no longer exist would outlive them.
	for _, flag := range []string{"-s", "-d"} {
		_ = exec.CommandContext(ctx, "conntrack", "-D", flag, plan.PodCIDR).Run()
	}
	_ = exec.CommandContext(ctx, "conntrack", "-D", "-d", plan.ServiceCIDR).Run()
	return errors.Join(failures...)
}

// CheckAlone refuses a machine on which another kubelet runs pods: two would share control groups, chains and ports.
func (n Node) CheckAlone() error {
	for _, tree := range cgroups() {
		if pids := members(tree); len(pids) > 0 {
			return fmt.Errorf("another Kubernetes runs pods on this machine (such as process %d in %s): the local cluster needs it to itself", pids[0], tree)
		}
	}
	return nil
}

// cgroups are the trees that the kubelet makes, one for each controller on cgroup v1.
func cgroups() []string {
	trees, _ := filepath.Glob("/sys/fs/cgroup/*/kubepods") // the pattern is well formed
	if unified := "/sys/fs/cgroup/kubepods"; isDir(unified) {
		trees = append(trees, unified)
	}
	return trees
}

// endContainers kills what is in the pods' control groups, until nothing is.
func endContainers() error {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left := 0
		for _, tree := range cgroups() {
			for _, pid := range members(tree) {
				left++
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes in containers do not end", left)
		}
	}
}

func members(tree string) []int {
	var pids []int
	_ = filepath.WalkDir(tree, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.Name() != "cgroup.procs" {
			return nil // a group that vanishes meanwhile is what we want
		}
		data, _ := os.ReadFile(path)
		for field := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// endShims kills the containerd-shim processes that belong to our containerd, known by its address in their arguments.
func endShims() error {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		pids := shims()
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("containerd-shim processes do not end: %v", pids)
		}
	}
}

func shims() []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		args := strings.Split(string(data), "\x00")
		if !strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") || !slices.Contains(args, plan.ContainerdSocket()) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// removeCgroups removes the pods' control groups, children first; the last process may take a moment to leave.
func removeCgroups() error {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		for _, tree := range cgroups() {
			var dirs []string
			_ = filepath.WalkDir(tree, func(path string, entry os.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
			for _, dir := range slices.Backward(dirs) {
				_ = syscall.Rmdir(dir)
			}
		}
		left := cgroups()
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("control groups can't be removed: %v", left)
		}
	}
}

// removeFiles deletes what programs write outside the cluster's own folders.
func removeFiles(dev string) error {
	links, _ := filepath.Glob("/var/log/containers/*.log")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, dev+"/") {
			_ = os.Remove(link)
		}
	}
	removeCNIResults("/var/lib/cni/results")
	sockets, _ := filepath.Glob("/run/containerd/s/*")
	for _, socket := range sockets {
		removeDeadSocket(socket)
	}
	return nil
}

// removeCNIResults deletes what CNI plugins remember of our pods: NETWORK-POD-eth0, and cni-loopback-POD-lo of the same pods.
func removeCNIResults(dir string) {
	const prefix, suffix = plan.CNINetwork + "-", "-eth0"
	results, _ := filepath.Glob(filepath.Join(dir, prefix+"*"+suffix))
	for _, result := range results {
		pod := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(result), prefix), suffix)
		_ = os.Remove(filepath.Join(dir, "cni-loopback-"+pod+"-lo"))
		_ = os.Remove(result)
	}
}

// removeDeadSocket deletes a shim's socket when nobody listens any more; another containerd's shims keep theirs.
func removeDeadSocket(path string) {
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(path)
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
