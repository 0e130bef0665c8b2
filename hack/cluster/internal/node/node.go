// Package node makes this machine the cluster's only node: packages, network, containerd, kubelet, kube-proxy and the firewall
// that enforces NetworkPolicies; and takes all of it away again.
package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/naeel/sless/hack/cluster/internal/plan"
	"github.com/naeel/sless/hack/cluster/internal/process"
	"github.com/naeel/sless/hack/cluster/internal/progress"
)

// Node is the node of one work tree's cluster.
type Node struct {
	Place     plan.Place
	Processes process.Set
	Progress  *progress.Printer
}

// debian is a package and a program by which it is known to be there.
type debian struct{ program, name string }

// postgres is what tests of the ledger start, and the cluster has.
var postgres = debian{"pg_ctlcluster", "postgresql"}

// packages are the Debian packages that carry the programs.
var packages = []debian{
	{"containerd", "containerd"},
	{"runc", "runc"},
	{"/usr/lib/cni/bridge", "containernetworking-plugins"},
	{"iptables", "iptables"},
	{"conntrack", "conntrack"},
	{"nft", "nftables"},
	{"ipset", "ipset"},
	{"ip", "iproute2"},
	{"mount", "mount"},
	{"debootstrap", "debootstrap"},
	postgres,
	{"setpriv", "util-linux"},
}

// CheckRoot says clearly why nothing works without root.
func CheckRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("the local cluster runs containers on this machine itself: run this as root (sudo)")
	}
	return nil
}

// InstallPackages installs the Debian packages that are missing.
func (n Node) InstallPackages(ctx context.Context) error { return n.install(ctx, packages...) }

// InstallPostgres installs PostgreSQL alone, if it is missing.
func (n Node) InstallPostgres(ctx context.Context) error { return n.install(ctx, postgres) }

func (n Node) install(ctx context.Context, packages ...debian) error {
	var missing []string
	for _, p := range packages {
		if _, err := exec.LookPath(p.program); err != nil {
			missing = append(missing, p.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("install these and try again (this machine has no apt-get): %s", strings.Join(missing, ", "))
	}
	log := n.Place.Log("apt")
	return n.Progress.Step("install "+strings.Join(missing, ", "), log, func() error {
		if err := runLogged(ctx, log, "apt-get", "update"); err != nil {
			// One broken source among several need not matter: the install says so if it does.
			n.Progress.Say("      apt-get update: %v (going on)", err)
		}
		return runLogged(ctx, log, "apt-get", append([]string{"install", "-y", "--no-install-recommends"}, missing...)...)
	})
}

func runLogged(ctx context.Context, log, program string, args ...string) error {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return nil
}

// run gives a short command's output, and its complaint in the error.
func run(ctx context.Context, program string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// writeConfig writes a configuration file and gives the hash by which its program is restarted when it changes.
func writeConfig(path, text string) (hash string, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8]), nil
}
