// Package install lays what only this cluster knows (images by digest, configuration, credentials) on top of config/dev, and applies it.
package install

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/naeel/sless/hack/cluster/internal/kubectl"
	"github.com/naeel/sless/hack/cluster/internal/plan"
)

var (
	//go:embed config.yaml
	configTemplate string
	//go:embed kustomization.yaml
	kustomizationTemplate string
	//go:embed public.yaml
	publicTemplate string
)

// Image is one image of a program.
type Image struct {
	Name   string // as the manifests call it, without sless/
	Image  string // without the digest
	Digest string
}

// Runtime is an entry of the catalogue of runtimes.
type Runtime struct{ Name, Language, Image string }

// ObjectStore is the S3 bucket to use.
type ObjectStore struct{ Endpoint, Bucket, AccessKey, SecretKey string }

// Public is how functions are reached by HTTPS: at the gateway itself, and through an Ingress controller.
type Public struct {
	Host         string // of paths
	Domain       string // of functions' own hosts
	TrustedProxy string // the address range of the Ingress controller
	// ControllerNamespace has the Ingress controller, whose account is called ingress.
	ControllerNamespace string

	CAFile, CertFile, KeyFile string
	CA, Cert, Key             []byte // PEM, what the files have
}

// Ledger has the connection strings of its roles.
type Ledger struct{ Owner, Writer, Reader string }

// Values are what the install is made of.
type Values struct {
	Images       []Image
	Runtimes     []Runtime
	Kaniko       string // image by digest
	Check        string // image by digest
	ExternalURL  string
	Public       *Public // nil: none
	RegistryHost string
	Repository   string // template of a tenant's repository
	Insecure     bool
	ObjectStore  ObjectStore
	Ledger       *Ledger // nil: none
	AllowedHosts []string
	PipIndexURL  string
	NPMRegistry  string

	PushConfig, PullConfig []byte // Docker config.json
	CA                     []byte
}

// Installer applies an install.
type Installer struct {
	Base    string // the overlay to build on: the path of config/dev
	Dir     string // where to write
	Kubectl kubectl.Client
}

// Render writes the overlay and gives the manifests that come out of it.
func (i Installer) Render(ctx context.Context, values Values) (string, error) {
	files, err := i.files(values)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(i.Dir, 0o700); err != nil {
		return "", err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(i.Dir, name), data, 0o600); err != nil {
			return "", err
		}
	}
	return i.Kubectl.Run(ctx, "kustomize", i.Dir)
}

func (i Installer) files(values Values) (map[string][]byte, error) {
	config, err := execute(configTemplate, values)
	if err != nil {
		return nil, err
	}
	base, err := filepath.Rel(i.Dir, i.Base)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	sum.Write(config)
	sum.Write(values.CA)
	kustomization, err := execute(kustomizationTemplate, map[string]any{
		"Base": base, "Images": values.Images, "ConfigHash": hex.EncodeToString(sum.Sum(nil)[:8]),
		"System": plan.SystemNamespace, "Build": plan.BuildNamespace, "Public": values.Public, "Ledger": values.Ledger,
	})
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"kustomization.yaml": kustomization,
		"config.yaml":        config,
		"push.json":          values.PushConfig,
		"pull.json":          values.PullConfig,
		"ca.crt":             values.CA,
		"accessKeyID":        []byte(values.ObjectStore.AccessKey),
		"secretAccessKey":    []byte(values.ObjectStore.SecretKey),
	}
	if ledger := values.Ledger; ledger != nil {
		files["ledger-owner"], files["ledger-writer"], files["ledger-reader"] = []byte(ledger.Owner), []byte(ledger.Writer), []byte(ledger.Reader)
	}
	if public := values.Public; public != nil {
		files["public-ca.crt"], files["tls.crt"], files["tls.key"] = public.CA, public.Cert, public.Key
		files["public.yaml"], err = execute(publicTemplate, map[string]any{"Public": public, "System": plan.SystemNamespace})
	}
	return files, err
}

func execute(text string, values any) ([]byte, error) {
	parsed, err := template.New("").Parse(text)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, values)
	return out.Bytes(), err
}

// Applied tells whether exactly these manifests were applied before, by this program.
func (i Installer) Applied(manifests string) bool {
	done, err := os.ReadFile(i.stamp())
	return err == nil && string(done) == hash(manifests)
}

// Apply sends the manifests and notes that it did.
func (i Installer) Apply(ctx context.Context, manifests string) error {
	if err := i.Kubectl.Apply(ctx, manifests); err != nil {
		return err
	}
	return os.WriteFile(i.stamp(), []byte(hash(manifests)), 0o600)
}

func (i Installer) stamp() string { return filepath.Join(i.Dir, "applied") }

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Deployments are the names of what must be rolled out.
func (i Installer) Deployments(ctx context.Context) ([]string, error) {
	out, err := i.Kubectl.Run(ctx, "-n", plan.SystemNamespace, "get", "deployments", "-o", "name")
	if err != nil {
		return nil, err
	}
	names := strings.Fields(out)
	slices.Sort(names)
	return names, nil
}

// Wait waits until every program runs as applied.
func (i Installer) Wait(ctx context.Context) error {
	names, err := i.Deployments(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := i.Kubectl.Rollout(ctx, plan.SystemNamespace, name, "3m"); err != nil {
			return errors.Join(err, i.explain(ctx, name))
		}
	}
	return nil
}

// explain collects what a person would look at next.
func (i Installer) explain(ctx context.Context, name string) error {
	pods, _ := i.Kubectl.Run(ctx, "-n", plan.SystemNamespace, "get", "pods", "-o", "wide")
	logs, _ := i.Kubectl.Run(ctx, "-n", plan.SystemNamespace, "logs", name, "--tail=20", "--all-pods", "--prefix")
	events, _ := i.Kubectl.Run(ctx, "-n", plan.SystemNamespace, "get", "events", "--field-selector=type=Warning", "--sort-by=.lastTimestamp")
	return fmt.Errorf("%s\n%s\n%s", pods, logs, events)
}
