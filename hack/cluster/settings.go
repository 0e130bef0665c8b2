package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/naeel/sless/hack/cluster/internal/addons"
	"github.com/naeel/sless/hack/cluster/internal/images"
	"github.com/naeel/sless/hack/cluster/internal/plan"
)

// settings prints what the README's section on a cluster of one's own asks for, as this cluster has it, for a shell to evaluate.
func settings(_ context.Context, a *app) error {
	if a.external {
		return errors.New("only a cluster that this program made is known to it; set the variables of README.md yourself")
	}
	accounts, err := addons.LoadCredentials(a.place)
	if err != nil {
		return err
	}
	record, err := images.OpenRecord(a.recordFile())
	if err != nil {
		return err
	}
	public, err := a.public()
	if err != nil {
		return err
	}
	return writeSettings(os.Stdout, [][2]string{
		{"KUBECONFIG", a.place.Kubeconfig()},
		{"REGISTRY", plan.RegistryHost}, {"REGISTRY_INSECURE", "true"},
		{"PUSH_USER", accounts.RegistryPushUser}, {"PUSH_PASSWORD", accounts.RegistryPushPassword},
		{"PULL_USER", accounts.RegistryPullUser}, {"PULL_PASSWORD", accounts.RegistryPullPassword},
		{"S3_ENDPOINT", plan.S3Endpoint}, {"S3_BUCKET", plan.Bucket},
		{"ACCESS_KEY_ID", accounts.S3AccessKey}, {"SECRET_ACCESS_KEY", accounts.S3SecretKey},
		{"OPERATOR_IMAGE", record.Image("operator")}, {"GATEWAY_IMAGE", record.Image("gateway")}, {"APISERVER_IMAGE", record.Image("apiserver")},
		{"KANIKO_IMAGE", record.Image("kaniko")},
		{"PYTHON_IMAGE", record.Image("runtime-python3.11")}, {"NODE_IMAGE", record.Image("runtime-nodejs20")},
		{"EXTERNAL_URL", "https://localhost:" + tlsPort()}, {"API_URL", "https://localhost:" + apiserverPort()},
		{"TLS_CERT", public.CertFile}, {"TLS_KEY", public.KeyFile}, {"CA_CERT", public.CAFile},
	})
}

// writeSettings writes assignments. Nothing that it is given has a quote in it.
func writeSettings(out io.Writer, settings [][2]string) error {
	for _, pair := range settings {
		if pair[1] == "" {
			return fmt.Errorf("%s is not known yet; build the images first: cluster images", pair[0])
		}
		if _, err := fmt.Fprintf(out, "export %s='%s'\n", pair[0], pair[1]); err != nil {
			return err
		}
	}
	return nil
}
