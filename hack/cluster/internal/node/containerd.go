package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/naeel/sless/hack/cluster/internal/plan"
	"github.com/naeel/sless/hack/cluster/internal/process"
)

// containerdConfig: restrict_oom_score_adj because root without CAP_SYS_RESOURCE may not lower a score, and every pause
// container asks for that.
const containerdConfig = `version = 2
root = %[1]q
state = %[2]q
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.tracing"]

[grpc]
  address = %[3]q

[plugins."io.containerd.internal.v1.opt"]
  path = %[4]q

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %[5]q
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  max_concurrent_downloads = 6

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = %[6]q

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = %[7]q
`

// Containerd starts this cluster's own containerd and waits until it answers. It uses the named pause image for every pod.
func (n Node) Containerd(ctx context.Context, pauseImage string) error {
	hosts := fmt.Sprintf("server = \"http://%[1]s:%[2]d\"\n\n[host.\"http://%[1]s:%[2]d\"]\n  capabilities = [\"pull\", \"resolve\"]\n",
		plan.RegistryIP, plan.RegistryPort)
	if _, err := writeConfig(n.Place.In("certs.d", plan.RegistryHost, "hosts.toml"), hosts); err != nil {
		return err
	}
	config := n.Place.In("containerd.toml")
	text := fmt.Sprintf(containerdConfig, n.Place.In("containerd"), filepath.Join(plan.RunDir, "containerd"), plan.ContainerdSocket(),
		n.Place.In("opt"), pauseImage, n.Place.In("cni"), n.Place.In("certs.d"))
	hash, err := writeConfig(config, text)
	if err != nil {
		return err
	}
	started, err := n.Processes.Ensure(process.Spec{
		Name: "containerd", Args: []string{"containerd", "--config", config}, Log: n.Place.Log("containerd"), Version: hash,
	})
	if err != nil || !started {
		return err
	}
	return n.Progress.Step("containerd answers", n.Place.Log("containerd"), func() error {
		return n.until(ctx, "containerd", func() error { _, err := ctr(ctx, "version"); return err })
	})
}

// until polls check while the named process lives, for at most a minute.
func (n Node) until(ctx context.Context, name string, check func() error) error {
	deadline := time.Now().Add(time.Minute)
	for {
		err := check()
		if err == nil {
			return nil
		}
		if !n.Processes.Alive(name) {
			return fmt.Errorf("%s has ended", name)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no answer in time: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func ctr(ctx context.Context, args ...string) (string, error) {
	return run(ctx, "ctr", append([]string{"--address", plan.ContainerdSocket(), "--namespace", "k8s.io"}, args...)...)
}

// Images lists the names of the images that containerd has.
func (n Node) Images(ctx context.Context) (map[string]bool, error) {
	out, err := ctr(ctx, "images", "list", "--quiet")
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for name := range strings.FieldsSeq(out) {
		names[name] = true
	}
	return names, nil
}

// Import gives containerd the images of a tar file.
func (n Node) Import(ctx context.Context, tar string) error {
	_, err := ctr(ctx, "images", "import", tar)
	return err
}

// resolvConf is the file that names real DNS servers: a local stub's address means nothing inside a pod.
func resolvConf() string {
	const systemd = "/run/systemd/resolve/resolv.conf"
	data, err := os.ReadFile("/etc/resolv.conf")
	if err == nil && onlyLoopback(string(data)) {
		if _, err := os.Stat(systemd); err == nil {
			return systemd
		}
	}
	return "/etc/resolv.conf"
}

func onlyLoopback(resolv string) bool {
	found := false
	for line := range strings.Lines(resolv) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if !strings.HasPrefix(fields[1], "127.") && fields[1] != "::1" {
			return false
		}
		found = true
	}
	return found
}
