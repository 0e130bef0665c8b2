// Package kubectl talks to a cluster by way of its command-line program.
package kubectl

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Client is a kubectl with its kubeconfig.
type Client struct {
	Program    string
	Kubeconfig string
}

// Run gives the output of one command; the error carries what kubectl said.
func (c Client) Run(ctx context.Context, args ...string) (string, error) {
	return c.RunInput(ctx, "", args...)
}

// RunInput is Run with something on the standard input.
func (c Client) RunInput(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.Program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	cmd.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// Apply sends manifests by server-side apply.
func (c Client) Apply(ctx context.Context, manifests string) error {
	_, err := c.RunInput(ctx, manifests, "apply", "--server-side", "--force-conflicts", "--field-manager=sless-cluster", "-f", "-")
	return err
}

// Rollout waits until a workload such as deployment/x serves its newest version.
func (c Client) Rollout(ctx context.Context, namespace, workload, timeout string) error {
	_, err := c.Run(ctx, "-n", namespace, "rollout", "status", workload, "--timeout="+timeout)
	return err
}
