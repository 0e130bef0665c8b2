package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/naeel/sless/hack/cluster/internal/addons"
	"github.com/naeel/sless/hack/cluster/internal/install"
	"github.com/naeel/sless/hack/cluster/internal/pki"
	"github.com/naeel/sless/hack/cluster/internal/plan"
)

// installSless applies config/dev with the images that were built, and waits until everything runs.
func installSless(ctx context.Context, a *app) error {
	values, err := a.installValues(ctx)
	if err != nil {
		return err
	}
	installer := install.Installer{Base: filepath.Join(a.place.Repo, "config", "dev"), Dir: a.place.In("install"), Kubectl: a.kubectl}
	manifests, err := installer.Render(ctx, values)
	if err != nil {
		return err
	}
	if installer.Applied(manifests) {
		return installer.Wait(ctx)
	}
	if err := a.progress.Step("apply config/dev", "", func() error { return installer.Apply(ctx, manifests) }); err != nil {
		return err
	}
	return a.progress.Step("sless runs", "", func() error { return installer.Wait(ctx) })
}

func (a *app) installValues(ctx context.Context) (install.Values, error) {
	maker, err := a.imageMaker()
	if err != nil {
		return install.Values{}, err
	}
	store, err := a.objectStore()
	if err != nil {
		return install.Values{}, err
	}
	ca, err := os.ReadFile(caBundle)
	if err != nil {
		return install.Values{}, err
	}
	r := maker.registry
	record := maker.store.Record
	values := install.Values{
		Kaniko: record.Image("kaniko"), Check: record.Image("operator"),
		ExternalURL:  "http://127.0.0.1:" + gatewayPort(),
		RegistryHost: r.host, Repository: r.repository(), Insecure: r.Insecure,
		ObjectStore: store,
		PipIndexURL: pipIndex(ctx), NPMRegistry: npmRegistry(ctx),
		PushConfig: r.push, PullConfig: r.pull, CA: ca,
	}
	if !a.external {
		access, err := a.postgres.Start(ctx)
		if err != nil {
			return install.Values{}, err
		}
		values.Ledger = &install.Ledger{Owner: access.Owner, Writer: access.Writer, Reader: access.Reader}
		// Private addresses, which tenants may otherwise not name: the cluster's own stores, and what the tests serve on this machine.
		values.AllowedHosts = []string{plan.RegistryName, plan.S3Name, plan.NodeIP}
		if values.Public, err = a.public(); err != nil {
			return install.Values{}, err
		}
	}
	if values.Check == "" || values.Kaniko == "" {
		return install.Values{}, errors.New("no images yet; build them with: cluster images")
	}
	for _, name := range programs {
		if reference := record.Image(name); reference != "" {
			image, digest, _ := strings.Cut(reference, "@")
			values.Images = append(values.Images, install.Image{Name: name, Image: image, Digest: digest})
		}
	}
	for _, entry := range catalogue {
		if image := record.Image("runtime-" + entry.runtime); image != "" {
			values.Runtimes = append(values.Runtimes, install.Runtime{Name: entry.runtime, Language: entry.language, Image: image})
		}
	}
	return values, nil
}

// public is how functions are reached by HTTPS, with a certificate of this cluster's own authority.
func (a *app) public() (*install.Public, error) {
	authority, err := pki.Open(a.place.In("public"), "ca")
	if err != nil {
		return nil, err
	}
	subject := pki.Subject{Name: "sless", DNS: []string{"localhost", plan.PublicHost, "*." + plan.FunctionDomain}, IPs: []string{"127.0.0.1"}}
	if err := authority.Issue("public", subject); err != nil {
		return nil, err
	}
	public := &install.Public{Host: plan.PublicHost, Domain: plan.FunctionDomain, TrustedProxy: plan.NodeIP + "/32", ControllerNamespace: plan.DevNamespace}
	public.CAFile = authority.CertFile()
	public.CertFile, public.KeyFile = authority.Files("public")
	for file, content := range map[string]*[]byte{public.CAFile: &public.CA, public.CertFile: &public.Cert, public.KeyFile: &public.Key} {
		if *content, err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	return public, nil
}

// repository is the template of tenants' repositories: beside sless's own images, below the same path.
func (r registry) repository() string {
	const tenant = "sless-{namespace}"
	path := strings.TrimPrefix(strings.TrimPrefix(r.Prefix, r.host), "/")
	if r.host == plan.RegistryHost || path == "" {
		return tenant
	}
	return path + "/" + tenant
}

func (a *app) objectStore() (install.ObjectStore, error) {
	if !a.external {
		accounts, err := addons.LoadCredentials(a.place)
		return install.ObjectStore{
			Endpoint: plan.S3Endpoint, Bucket: plan.Bucket, AccessKey: accounts.S3AccessKey, SecretKey: accounts.S3SecretKey,
		}, err
	}
	store := install.ObjectStore{
		Endpoint: os.Getenv("SLESS_S3_ENDPOINT"), Bucket: os.Getenv("SLESS_S3_BUCKET"),
		AccessKey: os.Getenv("SLESS_S3_ACCESS_KEY"), SecretKey: os.Getenv("SLESS_S3_SECRET_KEY"),
	}
	if store.Endpoint == "" || store.Bucket == "" || store.AccessKey == "" || store.SecretKey == "" {
		return store, fmt.Errorf("with SLESS_KUBECONFIG set, name an object store that the cluster reaches: SLESS_S3_ENDPOINT, SLESS_S3_BUCKET, SLESS_S3_ACCESS_KEY, SLESS_S3_SECRET_KEY")
	}
	return store, nil
}
