// Package addons runs what the local cluster needs besides Kubernetes: DNS, an image registry that asks for a password, an S3 object
// store, and an Ingress controller.
package addons

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"golang.org/x/crypto/bcrypt"

	"github.com/naeel/sless/hack/cluster/internal/binaries"
	"github.com/naeel/sless/hack/cluster/internal/images"
	"github.com/naeel/sless/hack/cluster/internal/kubectl"
	"github.com/naeel/sless/hack/cluster/internal/node"
	"github.com/naeel/sless/hack/cluster/internal/plan"
	"github.com/naeel/sless/hack/cluster/internal/progress"
)

//go:embed addons.yaml
var manifests string

//go:embed node-rights.yaml
var nodeRights string

// NodeRights lets the kubelet do its work; it must be there before the kubelet is.
func (a Addons) NodeRights(ctx context.Context) error {
	_, err := a.Kubectl.Run(ctx, "get", "clusterrolebinding", "sless-local-nodes")
	if err == nil {
		return nil
	}
	return a.Kubectl.Apply(ctx, nodeRights)
}

// Credentials are the passwords of this cluster, made at random and kept in .dev/credentials.json. The registry knows two
// accounts, one for pushing and one that is meant for pulling (it has no rights of its own to tell them apart).
type Credentials struct {
	RegistryPushUser     string `json:"registryPushUser"`
	RegistryPushPassword string `json:"registryPushPassword"`
	RegistryPullUser     string `json:"registryPullUser"`
	RegistryPullPassword string `json:"registryPullPassword"`
	S3AccessKey          string `json:"s3AccessKey"`
	S3SecretKey          string `json:"s3SecretKey"`
}

// LoadCredentials reads the cluster's passwords or makes them.
func LoadCredentials(place plan.Place) (Credentials, error) {
	path := place.In("credentials.json")
	data, err := os.ReadFile(path)
	if err == nil {
		var c Credentials
		return c, json.Unmarshal(data, &c)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return Credentials{}, err
	}
	c := Credentials{
		RegistryPushUser: "sless-push", RegistryPushPassword: rand.Text(),
		RegistryPullUser: "sless-pull", RegistryPullPassword: rand.Text(),
		S3AccessKey: "sless", S3SecretKey: rand.Text(),
	}
	if data, err = json.MarshalIndent(c, "", "  "); err != nil {
		return c, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return c, err
	}
	return c, os.WriteFile(path, append(data, '\n'), 0o600)
}

// Addons are the extra parts of one work tree's cluster.
type Addons struct {
	Place    plan.Place
	Builder  binaries.Builder
	Cache    images.Cache
	Node     node.Node
	Kubectl  kubectl.Client
	Progress *progress.Printer
}

// program is an image of one static program that containerd gets by hand: there is no registry yet to pull it from.
type program struct {
	binary binaries.Program
	image  string // filled in by load
}

// LoadPause gives containerd the image that it starts for every pod.
func (a Addons) LoadPause(ctx context.Context) error {
	return a.load(ctx, &program{binary: binaries.Pause})
}

// PauseName is the name of the pause image, which is part of containerd's configuration.
func (a Addons) PauseName(ctx context.Context) (string, error) {
	path, err := a.Builder.Build(ctx, binaries.Pause)
	return imageName(path), err
}

// Apply loads the images, applies the manifests and waits until all parts serve.
func (a Addons) Apply(ctx context.Context) error {
	parts := map[string]*program{
		"CoreDNS":  {binary: binaries.CoreDNS},
		"Registry": {binary: binaries.Registry},
		"S3":       {binary: binaries.S3},
		"Ingress":  {binary: binaries.Skipper},
	}
	for _, part := range parts {
		if err := a.load(ctx, part); err != nil {
			return err
		}
	}
	credentials, err := LoadCredentials(a.Place)
	if err != nil {
		return err
	}
	text, err := a.render(parts, credentials)
	if err != nil {
		return err
	}
	if err := a.applyOnce(ctx, text); err != nil {
		return err
	}
	return a.Serving(ctx, credentials)
}

// applyOnce applies the manifests and waits, unless exactly these were applied to this cluster before.
func (a Addons) applyOnce(ctx context.Context, text string) error {
	sum := sha256.Sum256([]byte(text))
	stamp, hash := a.Place.In("addons.applied"), hex.EncodeToString(sum[:])
	if done, err := os.ReadFile(stamp); err == nil && string(done) == hash {
		return nil
	}
	err := a.Progress.Step("DNS, registry, object store and Ingress controller serve", a.Place.Log("kubelet"), func() error {
		if err := a.Kubectl.Apply(ctx, text); err != nil {
			return err
		}
		for _, workload := range []struct{ namespace, name string }{
			{"kube-system", "deployment/coredns"}, {plan.DevNamespace, "deployment/registry"}, {plan.DevNamespace, "deployment/s3"}, {plan.DevNamespace, "deployment/ingress"},
		} {
			if err := a.Kubectl.Rollout(ctx, workload.namespace, workload.name, "3m"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return os.WriteFile(stamp, []byte(hash), 0o644)
}

func (a Addons) render(parts map[string]*program, c Credentials) (string, error) {
	htpasswd, err := a.htpasswd(c)
	if err != nil {
		return "", err
	}
	parsed, err := template.New("addons").Parse(manifests)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = parsed.Execute(&out, map[string]any{
		"Images":      map[string]string{"CoreDNS": parts["CoreDNS"].image, "Registry": parts["Registry"].image, "S3": parts["S3"].image, "Ingress": parts["Ingress"].image},
		"Namespace":   plan.DevNamespace,
		"Domain":      plan.ClusterDomain,
		"DNSIP":       plan.DNSIP,
		"RegistryIP":  plan.RegistryIP,
		"S3IP":        plan.S3IP,
		"NodeIP":      plan.NodeIP,
		"IngressPort": plan.IngressPort,
		"System":      plan.SystemNamespace,
		"RegistryDir": a.Place.In("registry"),
		"S3Dir":       a.Place.In("s3"),
		"VersionsDir": a.Place.In("s3-versions"),
		"Htpasswd":    base64.StdEncoding.EncodeToString([]byte(htpasswd)),
		"S3AccessKey": c.S3AccessKey,
		"S3SecretKey": c.S3SecretKey,
	})
	return out.String(), err
}

// htpasswd is made once, because bcrypt salts it: the same text keeps the manifests the same. The cheapest cost will do: each
// pushed layer asks several times, and the passwords are random.
func (a Addons) htpasswd(c Credentials) (string, error) {
	path := a.Place.In("htpasswd")
	if data, err := os.ReadFile(path); err == nil {
		return string(data), nil
	}
	var text strings.Builder
	for _, account := range [][2]string{
		{c.RegistryPushUser, c.RegistryPushPassword}, {c.RegistryPullUser, c.RegistryPullPassword},
	} {
		hash, err := bcrypt.GenerateFromPassword([]byte(account[1]), bcrypt.MinCost)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "%s:%s\n", account[0], hash)
	}
	return text.String(), os.WriteFile(path, []byte(text.String()), 0o600)
}

// load builds the program, puts it into an image and gives that to containerd, unless it is there.
func (a Addons) load(ctx context.Context, p *program) error {
	path, err := a.Builder.Build(ctx, p.binary)
	if err != nil {
		return err
	}
	p.image = imageName(path)
	present, err := a.Node.Images(ctx)
	if err != nil || present[p.image] {
		return err
	}
	tar := filepath.Join(a.Cache.Dir, filepath.Base(path)+".tar")
	if _, err := os.Stat(tar); err != nil {
		if err := writeImage(tar, path, p); err != nil {
			return err
		}
	}
	return a.Node.Import(ctx, tar)
}

// writeImage writes under another name first: a file with the right name is whole.
func writeImage(tar, path string, p *program) error {
	image, err := images.Program(path, "/"+p.binary.Name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(tar), 0o755); err != nil {
		return err
	}
	aside := fmt.Sprintf("%s.%d", tar, os.Getpid())
	defer os.Remove(aside)
	if err := images.WriteTar(aside, p.image, image); err != nil {
		return err
	}
	return os.Rename(aside, tar)
}

// imageName names an image by its program's file, whose name carries the hash of what it was built from.
func imageName(path string) string {
	name := filepath.Base(path)
	i := strings.LastIndex(name, "-")
	return "sless.local/" + name[:i] + ":" + name[i+1:]
}
