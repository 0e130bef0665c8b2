package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/naeel/sless/hack/cluster/internal/plan"
)

// removeLinks deletes the bridge and the pods' interfaces on it.
func removeLinks(ctx context.Context) error {
	ports, _ := filepath.Glob("/sys/class/net/" + plan.Bridge + "/brif/*")
	names := []string{plan.Bridge}
	for _, port := range ports {
		names = append(names, filepath.Base(port))
	}
	var failures []error
	for _, name := range slices.Backward(names) {
		if _, err := os.Stat("/sys/class/net/" + name); err != nil {
			continue // a pod's interface goes away with its network namespace, at a time of its own
		}
		_, err := run(ctx, "ip", "link", "delete", name)
		if _, gone := os.Stat("/sys/class/net/" + name); err != nil && gone == nil {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// removeTables deletes our own nftables table and those of kube-proxy.
func removeTables(ctx context.Context) error {
	if _, err := exec.LookPath("nft"); err != nil {
		return nil
	}
	out, err := run(ctx, "nft", "list", "tables")
	if err != nil {
		return err
	}
	var failures []error
	for line := range strings.Lines(out) {
		fields := strings.Fields(line) // table ip kube-proxy
		if len(fields) == 3 && (fields[2] == plan.NATTable || fields[2] == "kube-proxy") {
			_, err := run(ctx, "nft", "delete", "table", fields[1], fields[2])
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// removeChains takes kube-router's rules out of iptables and leaves everybody else's in the order they had.
func removeChains(ctx context.Context) error {
	if _, err := exec.LookPath("iptables-save"); err != nil {
		return nil
	}
	var failures []error
	for _, family := range []string{"iptables", "ip6tables"} {
		saved, err := run(ctx, family+"-save")
		if err != nil {
			continue // no such family in this kernel: no rules either
		}
		undo := undoChains(saved)
		if undo == "" {
			continue
		}
		cmd := exec.CommandContext(ctx, family+"-restore", "--noflush")
		cmd.Stdin = strings.NewReader(undo)
		if out, err := cmd.CombinedOutput(); err != nil {
			failures = append(failures, fmt.Errorf("%s-restore: %w: %s", family, err, out))
		}
	}
	return errors.Join(failures...)
}

// undoChains writes, for a text of iptables-save, the commands that delete the chains named KUBE-… and the rules that jump to
// them, as input for iptables-restore --noflush.
func undoChains(saved string) string {
	const prefix = "KUBE-"
	var out, table strings.Builder
	var chains []string
	for line := range strings.Lines(saved) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table.Reset()
			chains = nil
			table.WriteString(line + "\n")
		case strings.HasPrefix(line, ":"+prefix):
			chain, _, _ := strings.Cut(line[1:], " ")
			chains = append(chains, chain)
		case strings.HasPrefix(line, "-A "+prefix):
			// gone with its chain
		case strings.HasPrefix(line, "-A ") && strings.Contains(line, " "+prefix):
			table.WriteString("-D " + line[3:] + "\n")
		case line == "COMMIT" && len(chains) > 0:
			out.WriteString(table.String())
			for _, chain := range chains {
				out.WriteString("-F " + chain + "\n")
			}
			for _, chain := range chains {
				out.WriteString("-X " + chain + "\n")
			}
			out.WriteString("COMMIT\n")
		}
	}
	return out.String()
}

// tablesFile remembers which nftables tables the machine had before the cluster.
var tablesFile = filepath.Join(plan.RunDir, "tables")

// Remember notes what Sweep can't tell later: which tables were there before. iptables makes its own on first use.
func (n Node) Remember(ctx context.Context) error {
	out, err := run(ctx, "nft", "list", "tables")
	if err != nil {
		return err
	}
	return os.WriteFile(tablesFile, []byte(out), 0o644)
}

// removeEmptyTables deletes the tables that iptables made for kube-router, if nobody else has put a rule there since.
func removeEmptyTables(ctx context.Context) error {
	before, err := os.ReadFile(tablesFile)
	if err != nil {
		return nil // nothing remembered: whose they are can't be told
	}
	var failures []error
	for family, save := range map[string]string{"ip": "iptables-save", "ip6": "ip6tables-save"} {
		saved, err := run(ctx, save)
		if err != nil {
			continue
		}
		for _, table := range emptyTables(saved) {
			line := "table " + family + " " + table
			if slices.Contains(strings.Split(string(before), "\n"), line) {
				continue
			}
			if _, err := run(ctx, "nft", "list", "table", family, table); err != nil {
				continue // iptables of the older kind keeps its tables elsewhere
			}
			_, err := run(ctx, "nft", "delete", "table", family, table)
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// emptyTables names, from a text of iptables-save, the tables without a rule, a chain of somebody's own or a policy but ACCEPT.
func emptyTables(saved string) []string {
	var tables []string
	name, empty := "", true
	for line := range strings.Lines(saved) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			name, empty = line[1:], true
		case strings.HasPrefix(line, "-A "):
			empty = false
		case strings.HasPrefix(line, ":"):
			fields := strings.Fields(line)
			empty = empty && len(fields) > 1 && fields[1] == "ACCEPT"
		case line == "COMMIT" && empty:
			tables = append(tables, name)
		}
	}
	return tables
}

// removeSets destroys kube-router's IP sets.
func removeSets(ctx context.Context) error {
	if _, err := exec.LookPath("ipset"); err != nil {
		return nil
	}
	out, err := run(ctx, "ipset", "list", "-name")
	if err != nil {
		return nil // a kernel without ipset has none
	}
	var failures []error
	for name := range strings.FieldsSeq(out) {
		if isRouterSet(name) {
			_, err := run(ctx, "ipset", "destroy", name)
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

func isRouterSet(name string) bool {
	for _, prefix := range []string{"KUBE-", "kube-router-", "inet6:KUBE-", "inet6:kube-router-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
