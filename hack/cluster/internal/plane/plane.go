// Package plane runs the control plane of the local cluster: etcd, kube-apiserver, controller-manager and scheduler.
package plane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/naeel/sless/hack/cluster/internal/pki"
	"github.com/naeel/sless/hack/cluster/internal/plan"
	"github.com/naeel/sless/hack/cluster/internal/process"
	"github.com/naeel/sless/hack/cluster/internal/progress"
)

const startTimeout = 3 * time.Minute

//go:embed audit.yaml
var auditPolicy string

// Server is the address of kube-apiserver.
var Server = fmt.Sprintf("https://%s:%d", plan.NodeIP, plan.APIPort)

// Plane is the control plane of one work tree.
type Plane struct {
	Place     plan.Place
	Processes process.Set
	Progress  *progress.Printer
}

// Credentials issues every certificate and kubeconfig that is not there yet.
func (p Plane) Credentials() error {
	ca, err := pki.Open(p.Place.In("pki"), "ca")
	if err != nil {
		return err
	}
	front, err := pki.Open(p.Place.In("pki"), "front-proxy-ca")
	if err != nil {
		return err
	}
	if err := front.Issue("front-proxy", pki.Subject{Name: "front-proxy"}); err != nil {
		return err
	}
	for name, subject := range subjects() {
		if err := ca.Issue(name, subject); err != nil {
			return err
		}
	}
	for _, name := range []string{"controller-manager", "scheduler", "kubelet", "kube-proxy", "kube-router"} {
		if err := ca.Kubeconfig(p.Place.In("kubeconfigs", name), Server, name); err != nil {
			return err
		}
	}
	if err := ca.Kubeconfig(p.Place.Kubeconfig(), Server, "admin"); err != nil {
		return err
	}
	return pki.EnsureKey(p.Place.In("pki", "tokens.key"), p.Place.In("pki", "tokens.pub"))
}

func subjects() map[string]pki.Subject {
	local := []string{"127.0.0.1", plan.NodeIP}
	return map[string]pki.Subject{
		"etcd": {Name: "etcd", IPs: local},
		"apiserver": {
			Name: "kube-apiserver",
			DNS: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc",
				"kubernetes.default.svc." + plan.ClusterDomain, "localhost"},
			IPs: append([]string{plan.KubernetesIP}, local...),
		},
		"apiserver-kubelet":  {Name: "kube-apiserver-kubelet", Group: []string{"system:masters"}},
		"admin":              {Name: "admin", Group: []string{"system:masters"}},
		"controller-manager": {Name: "system:kube-controller-manager"},
		"scheduler":          {Name: "system:kube-scheduler"},
		"kubelet": {
			Name: "system:node:" + plan.NodeName, Group: []string{"system:nodes"},
			DNS: []string{plan.NodeName}, IPs: local,
		},
		"kube-proxy":  {Name: "system:kube-proxy"},
		"kube-router": {Name: "kube-router"},
	}
}

func (p Plane) auditPolicy() string { return p.Place.In("audit.yaml") }

// Start brings the control plane up and waits until the API answers.
func (p Plane) Start(ctx context.Context) error {
	if _, err := p.Processes.Ensure(p.etcd()); err != nil {
		return err
	}
	if err := os.WriteFile(p.auditPolicy(), []byte(auditPolicy), 0o644); err != nil {
		return err
	}
	if _, err := p.Processes.Ensure(p.apiserver()); err != nil {
		return err
	}
	if !p.Ready(ctx) {
		err := p.Progress.Step("kube-apiserver answers", p.Place.Log("kube-apiserver"), func() error { return p.wait(ctx) })
		if err != nil {
			return err
		}
	}
	for _, spec := range []process.Spec{p.controllerManager(), p.scheduler()} {
		if _, err := p.Processes.Ensure(spec); err != nil {
			return err
		}
	}
	return nil
}

func (p Plane) wait(ctx context.Context) error {
	deadline := time.Now().Add(startTimeout)
	for !p.Ready(ctx) {
		for _, name := range []string{"etcd", "kube-apiserver"} {
			if !p.Processes.Alive(name) {
				return fmt.Errorf("%s has ended; its log is %s", name, p.Place.Log(name))
			}
		}
		if time.Now().After(deadline) {
			return errors.New("no answer in time")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}

// Ready tells whether the API server answers and says it is ready.
func (p Plane) Ready(ctx context.Context) bool {
	body, err := p.Get(ctx, "/readyz")
	return err == nil && string(body) == "ok"
}

// Get reads one path of the API as the administrator.
func (p Plane) Get(ctx context.Context, path string) ([]byte, error) {
	client, err := p.client()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, Server+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s", path, response.Status)
	}
	return body, nil
}

func (p Plane) client() (*http.Client, error) {
	pair, err := tls.LoadX509KeyPair(p.Place.In("pki", "admin.crt"), p.Place.In("pki", "admin.key"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(p.Place.In("pki", "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}}
	return &http.Client{Transport: transport, Timeout: 5 * time.Second}, nil
}
