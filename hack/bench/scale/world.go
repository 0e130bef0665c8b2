package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/naeel/sless/hack/internal/measure"
	"github.com/naeel/sless/hack/internal/plane"
)

// world is a control plane without nodes, a registry in this process, and the operator and the gateway as they are installed: with their own rights.
type world struct {
	dir       string
	plane     *plane.Plane
	watched   *watched
	audit     *audit
	functions int // made so far

	controllers, gateway, operator *measure.Process
	registry                       *httptest.Server
	stopWatching                   context.CancelFunc
}

const (
	operatorAccount = "system:serviceaccount:sless-system:operator"
	gatewayAccount  = "system:serviceaccount:sless-system:gateway"
	runtimeName     = "python3.11"
	// patience is how long anything may take on a machine that has other work.
	patience = 30 * time.Minute
)

// newWorld starts it. What it returns is to be ended also when there is an error.
func newWorld(ctx context.Context) (*world, error) {
	w := &world{}
	var err error
	if w.dir, err = os.MkdirTemp("", "sless-bench-"); err != nil {
		return w, err
	}
	if err := measure.Build(ctx, w.dir, "./operator", "./gateway"); err != nil {
		return w, err
	}
	for _, start := range []func(context.Context) error{w.startCluster, w.startControllers, w.startRegistry, w.startOperator, w.startGateway} {
		if err := start(ctx); err != nil {
			return w, err
		}
	}
	return w, nil
}

func (w *world) end() {
	for _, p := range []*measure.Process{w.gateway, w.operator, w.controllers} {
		if p != nil {
			p.Stop()
		}
	}
	if w.registry != nil {
		w.registry.Close()
	}
	if w.stopWatching != nil {
		w.stopWatching()
	}
	if w.plane != nil {
		if err := w.plane.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "end the API server:", err)
		}
	}
	_ = os.RemoveAll(w.dir)
}

// startCluster starts an API server with sless's kinds, policies and roles, that writes down what the operator asks it to change.
func (w *world) startCluster(ctx context.Context) error {
	var err error
	if w.audit, err = newAudit(w.dir); err != nil {
		return err
	}
	p := plane.New()
	p.Environment.ControlPlane.GetAPIServer().Configure().
		Set("service-cluster-ip-range", "10.0.0.0/16").
		Set("audit-policy-file", w.audit.policy).
		Set("audit-log-path", w.audit.log).
		Set("audit-log-maxsize", "10000") // MB: what is counted must not be put aside, which is done at 100 else
	if err := startRarelyCollecting(p, w.file("admin")); err != nil {
		return err
	}
	w.plane = p
	for _, what := range [][]string{
		{"-f", filepath.Join("config", "base", "namespaces.yaml")}, {"-k", filepath.Join("config", "rbac")}, {"-k", filepath.Join("config", "admission")},
	} {
		args := append([]string{"--kubeconfig", w.file("admin"), "apply", "--server-side"}, what...)
		if out, err := exec.CommandContext(ctx, filepath.Join(p.Programs, "kubectl"), args...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl apply %v: %w: %s", what, err, out)
		}
	}
	for file, account := range map[string]string{"operator.kubeconfig": operatorAccount, "gateway.kubeconfig": gatewayAccount} {
		user, err := p.Environment.AddUser(envtest.User{Name: account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:sless-system"}}, nil)
		if err != nil {
			return err
		}
		text, err := user.KubeConfig()
		if err != nil {
			return err
		}
		if err := os.WriteFile(w.file(file), text, 0o600); err != nil {
			return err
		}
	}
	watching, stop := context.WithCancel(ctx)
	w.stopWatching = stop
	w.watched, err = watch(watching, p.Environment.Config, p.Client.Scheme())
	return err
}

// startRarelyCollecting starts etcd and the API server, which collect garbage less often than they would: nothing is said about what they need,
// and they need most of the machine.
func startRarelyCollecting(p *plane.Plane, kubeconfig string) error {
	const name = "GOGC"
	if _, set := os.LookupEnv(name); !set {
		_ = os.Setenv(name, "400")
		defer os.Unsetenv(name)
	}
	return p.Start(kubeconfig)
}

func (w *world) file(name string) string { return filepath.Join(w.dir, name) }

// startControllers starts those of Kubernetes' controllers that look at what the operator makes.
func (w *world) startControllers(context.Context) (err error) {
	w.controllers, err = measure.Start("kube-controller-manager", filepath.Join(w.plane.Programs, "kube-controller-manager"), "--kubeconfig="+w.file("admin"),
		"--controllers=deployment-controller,replicaset-controller,endpointslice-controller,namespace-controller",
		"--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=1000")
	return err
}

// startRegistry starts a registry in this process, with an image in it that looks like a runtime.
func (w *world) startRegistry(context.Context) error {
	w.registry = httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	address := strings.TrimPrefix(w.registry.URL, "http://")
	image, err := pushRuntime(address)
	if err != nil {
		return fmt.Errorf("push a runtime image: %w", err)
	}
	return w.configure(address, image)
}

// pushRuntime returns the image by digest.
func pushRuntime(host string) (string, error) {
	image, err := random.Image(1<<20, 3)
	if err != nil {
		return "", err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return "", err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config = "linux", "amd64", v1.Config{User: "65532:65532"}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return "", err
	}
	tag, err := name.NewTag(host+"/runtimes/python:v1", name.Insecure)
	if err != nil {
		return "", err
	}
	if err := remote.Write(tag, image); err != nil {
		return "", err
	}
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	return tag.Context().Digest(digest.String()).String(), nil
}

// configure writes the platform's configuration.
func (w *world) configure(host, image string) error {
	for file, text := range map[string]string{
		"docker.json": `{"auths":{}}`, "accessKeyID": "key", "secretAccessKey": "secret",
		"config.yaml": fmt.Sprintf(`
externalURL: https://functions.example.org
runtimes: [{name: %s, language: python, image: %q}]
registry: {host: %q, insecure: true, allowAnonymousPush: true, pushConfigFile: %[4]s/docker.json, pullConfigFile: %[4]s/docker.json}
objectStore: {endpoint: "http://127.0.0.1:1", bucket: sless, credentialsDir: %[4]s}
build: {kanikoImage: "kaniko@sha256:0", checkImage: "operator@sha256:0", spoolDir: %[4]s}
`, runtimeName, image, host, w.dir),
	} {
		if err := os.WriteFile(w.file(file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// startOperator starts the operator as it is installed, outside of its pod, and stops the one before.
func (w *world) startOperator(ctx context.Context) error {
	if w.operator != nil {
		w.operator.Stop()
	}
	health, err := measure.FreeAddress()
	if err != nil {
		return err
	}
	w.operator, err = w.start(ctx, "operator", func(admin string) []string {
		return []string{"-config", w.file("config.yaml"), "-health-address", health, "-metrics-address", admin}
	})
	return err
}

func (w *world) startGateway(ctx context.Context) error {
	public, err := measure.FreeAddress()
	if err != nil {
		return err
	}
	internal, err := measure.FreeAddress()
	if err != nil {
		return err
	}
	w.gateway, err = w.start(ctx, "gateway", func(admin string) []string {
		return []string{"-kubeconfig", w.file("gateway.kubeconfig"), "-public-address", public, "-internal-address", internal, "-admin-address", admin}
	})
	return err
}

// start starts one of sless's programs and waits until its admin address answers.
func (w *world) start(ctx context.Context, name string, args func(admin string) []string) (*measure.Process, error) {
	admin, err := measure.FreeAddress()
	if err != nil {
		return nil, err
	}
	started, err := measure.Start(name, "env", append([]string{"KUBECONFIG=" + w.file(name+".kubeconfig"), w.file(name)}, args(admin)...)...)
	if err != nil {
		return nil, err
	}
	started.Admin = admin
	return started, started.Reachable(ctx, admin)
}
