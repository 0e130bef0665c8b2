package addons

import (
	"context"
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/naeel/sless/hack/cluster/internal/binaries"
	"github.com/naeel/sless/hack/cluster/internal/images"
)

var (
	//go:embed argocd.yaml
	argoCD string
	//go:embed argocd-project.yaml
	argoCDProject string
)

// argoCDNamespace is where Argo CD runs; its own manifests know no other.
const argoCDNamespace = "argocd"

// ArgoCD runs Argo CD on the cluster, made from its module: controller, repository server and Redis.
func (a Addons) ArgoCD(ctx context.Context) error {
	image, err := a.argoCDImage(ctx)
	if err != nil {
		return err
	}
	module, err := binaries.Download(ctx, binaries.ArgoCD.Module)
	if err != nil {
		return err
	}
	manifests, err := a.argoCDManifests(ctx, filepath.Join(module, "manifests"), image)
	if err != nil {
		return err
	}
	return a.Progress.Step("Argo CD runs", a.Place.Log("kubelet"), func() error {
		// The API server needs a moment from a new kind's definition to its first object.
		if err := patiently(ctx, func() error { return a.Kubectl.Apply(ctx, manifests) }); err != nil {
			return err
		}
		for _, workload := range []string{"deployment/argocd-redis", "deployment/argocd-repo-server", "statefulset/argocd-application-controller"} {
			if err := a.Kubectl.Rollout(ctx, argoCDNamespace, workload, "5m"); err != nil {
				return err
			}
		}
		return nil
	})
}

// argoCDImage gives containerd the image of Argo CD and what it calls, and returns its name.
func (a Addons) argoCDImage(ctx context.Context) (string, error) {
	argoCD, err := a.Builder.Build(ctx, binaries.ArgoCD)
	if err != nil {
		return "", err
	}
	kustomize, err := a.Builder.Build(ctx, binaries.Kustomize)
	if err != nil {
		return "", err
	}
	base, err := images.BaseInputs()
	if err != nil {
		return "", err
	}
	inputs, err := images.Inputs("", nil, filepath.Base(argoCD), filepath.Base(kustomize), base)
	if err != nil {
		return "", err
	}
	name := "sless.local/argocd:" + inputs
	present, err := a.Node.Images(ctx)
	if err != nil || present[name] {
		return name, err
	}
	log := a.Place.Log("image-argocd")
	return name, a.Progress.Step("image argocd", log, func() error {
		image, err := a.Cache.Get("argocd-"+inputs, func() (v1.Image, error) {
			return images.Base{Log: log, Temp: a.Place.In("build", "argocd")}.ArgoCD(ctx, argoCD, kustomize)
		})
		if err != nil {
			return err
		}
		tar := a.Place.In("build", "argocd.tar")
		if err := os.MkdirAll(filepath.Dir(tar), 0o755); err != nil {
			return err
		}
		defer os.Remove(tar)
		if err := images.WriteTar(tar, name, image); err != nil {
			return err
		}
		return a.Node.Import(ctx, tar)
	})
}

// argoCDManifests lays what this cluster alone knows on top of Argo CD's own manifests.
func (a Addons) argoCDManifests(ctx context.Context, own, image string) (string, error) {
	dir := a.Place.In("argocd")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	relative, err := filepath.Rel(dir, own)
	if err != nil {
		return "", err
	}
	parsed, err := template.New("argocd").Parse(argoCD)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	if err := parsed.Execute(&text, map[string]string{"Manifests": relative, "Image": image}); err != nil {
		return "", err
	}
	for name, data := range map[string]string{"kustomization.yaml": text.String(), "project.yaml": argoCDProject} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			return "", err
		}
	}
	return a.Kubectl.Run(ctx, "kustomize", dir)
}
