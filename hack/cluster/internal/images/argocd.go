package images

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// ArgoCD makes an image of Argo CD's program and what it calls, laid out like the one its project publishes, and with Redis in it too.
func (b Base) ArgoCD(ctx context.Context, argoCD, kustomize string) (v1.Image, error) {
	const bin = "/usr/local/bin/"
	base, err := b.make(ctx, []string{"ca-certificates", "git", "redis-server", "tini"}, func(string) error { return nil })
	if err != nil {
		return nil, err
	}
	files := []File{
		{Path: bin + "argocd", Source: argoCD, Mode: 0o755},
		{Path: bin + "kustomize", Source: kustomize, Mode: 0o755},
		CABundle(),
	}
	for _, name := range []string{"argocd-application-controller", "argocd-repo-server"} {
		files = append(files, File{Path: bin + name, Link: "argocd"})
	}
	image, err := AddFiles(base, files)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config := file.Config
	config.User, config.Entrypoint = "999", []string{"/usr/bin/tini", "--"}
	config.Env = append(config.Env, "HOME=/tmp")
	return mutate.Config(image, config)
}
