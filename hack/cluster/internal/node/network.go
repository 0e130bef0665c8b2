package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/naeel/sless/hack/cluster/internal/plan"
)

// Network makes the bridge that carries the node's address, and lets pods out through the machine's own address.
func (n Node) Network(ctx context.Context) error {
	// Either is built in or loaded on most kernels; the settings below fail clearly where it is neither.
	for _, module := range []string{"overlay", "br_netfilter"} {
		_ = exec.CommandContext(ctx, "modprobe", module).Run()
	}
	if err := bridge(ctx); err != nil {
		return err
	}
	for _, setting := range []string{"net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables"} {
		if err := os.WriteFile("/proc/sys/"+setting, []byte("1"), 0o644); err != nil {
			return fmt.Errorf("kernel setting %s: %w", setting, err)
		}
	}
	raiseLimits()
	if err := nat(ctx); err != nil {
		return err
	}
	_, err := writeConfig(n.Place.In("cni", "10-sless.conflist"), n.cniConfig())
	return err
}

// raiseLimits lifts what a machine full of containers runs into first. Where that is not allowed the cluster is smaller, nothing more.
func raiseLimits() {
	for name, least := range map[string]int{"max_user_instances": 8192, "max_user_watches": 1 << 19} {
		path := "/proc/sys/fs/inotify/" + name
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if now, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && now < least {
			_ = os.WriteFile(path, []byte(strconv.Itoa(least)), 0o644)
		}
	}
}

func bridge(ctx context.Context) error {
	if _, err := os.Stat("/sys/class/net/" + plan.Bridge); errors.Is(err, os.ErrNotExist) {
		if _, err := run(ctx, "ip", "link", "add", plan.Bridge, "type", "bridge"); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"link", "set", plan.Bridge, "up"},
		{"address", "replace", plan.BridgeCIDR, "dev", plan.Bridge},
	} {
		if _, err := run(ctx, "ip", args...); err != nil {
			return err
		}
	}
	return nil
}

// nat hides pods behind the machine's address when they talk to the outside. A table of our own goes away in one piece.
func nat(ctx context.Context) error {
	rules := fmt.Sprintf(`table ip %[1]s
delete table ip %[1]s
table ip %[1]s {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		ip saddr %[2]s ip daddr != %[2]s masquerade
	}
}
`, plan.NATTable, plan.PodCIDR)
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

func (n Node) cniConfig() string {
	return fmt.Sprintf(`{
  "cniVersion": "1.0.0",
  "name": %q,
  "plugins": [
    {
      "type": "bridge",
      "bridge": %q,
      "isGateway": true,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "dataDir": %q,
        "ranges": [[{"subnet": %q, "gateway": %q}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    }
  ]
}
`, plan.CNINetwork, plan.Bridge, n.Place.In("ipam"), plan.PodCIDR, plan.NodeIP)
}
