// Package plan holds the fixed facts of the local cluster: its addresses, its names and where it keeps its files.
package plan

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Addresses inside the cluster. The node's own address is the bridge's, so the cluster does not depend on how
// the machine is connected to the outside and is not reachable from there.
const (
	PodCIDR     = "10.244.0.0/16"
	ServiceCIDR = "10.96.0.0/16"
	NodeIP      = "10.244.0.1"
	BridgeCIDR  = "10.244.0.1/16"

	KubernetesIP = "10.96.0.1"
	DNSIP        = "10.96.0.10"
	RegistryIP   = "10.96.0.50"
	S3IP         = "10.96.0.51"

	APIPort      = 6443
	EtcdPort     = 2379
	EtcdPeerPort = 2380
	RegistryPort = 5000
	S3Port       = 7070
	PostgresPort = 5432
	IngressPort  = 9443 // on NodeIP
)

// Names.
const (
	NodeName      = "sless-local"
	Bridge        = "sless0"
	CNINetwork    = "sless"
	NATTable      = "sless-cluster"
	ClusterDomain = "cluster.local"

	DevNamespace    = "sless-dev"
	SystemNamespace = "sless-system"
	BuildNamespace  = "sless-build"

	RegistryName = "registry.sless-dev.svc.cluster.local"
	S3Name       = "s3.sless-dev.svc.cluster.local"
	Bucket       = "sless"

	// Names below localhost lead to this machine by themselves in browsers and curl.
	FunctionDomain = "functions.localhost" // every function has a host below it
	PublicHost     = "sless.localhost"     // functions by their paths
)

// RegistryHost is how pods, containerd and image names call the local registry.
var RegistryHost = fmt.Sprintf("%s:%d", RegistryName, RegistryPort)

// S3Endpoint is the local object store's address for pods.
var S3Endpoint = fmt.Sprintf("http://%s:%d", S3Name, S3Port)

// RunDir holds what must be found by any work tree on this machine: sockets, process records and the owner's path.
// It is short because a Unix socket's path may have 107 bytes.
const RunDir = "/run/sless-cluster"

// Place is where one work tree keeps its cluster.
type Place struct {
	Repo  string // root of the work tree
	Dev   string // Repo/.dev: state of the running cluster, ignored by git
	Cache string // survives the cluster: binaries and images by the hash of their inputs
}

// Find locates the work tree from the current folder upwards, or from SLESS_REPO.
func Find() (Place, error) {
	dir := os.Getenv("SLESS_REPO")
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return Place{}, err
		}
		for !IsRepo(dir) {
			parent := filepath.Dir(dir)
			if parent == dir {
				return Place{}, errors.New("run this inside the sless work tree, or set SLESS_REPO to its path")
			}
			dir = parent
		}
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return Place{}, fmt.Errorf("find the cache folder: %w", err)
		}
		cache = filepath.Join(home, ".cache")
	}
	return Place{Repo: dir, Dev: filepath.Join(dir, ".dev"), Cache: filepath.Join(cache, "sless")}, nil
}

// IsRepo tells whether the folder is the root of a work tree.
func IsRepo(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "hack", "cluster", "kube", "go.mod"))
	return err == nil
}

// In is a path below .dev.
func (p Place) In(elem ...string) string { return filepath.Join(append([]string{p.Dev}, elem...)...) }

// Log is the log file of one program or step.
func (p Place) Log(name string) string { return p.In("log", name+".log") }

// Bin is the link to a program in .dev/bin.
func (p Place) Bin(name string) string { return p.In("bin", name) }

// Kubeconfig is the administrator's, for people and tests.
func (p Place) Kubeconfig() string { return p.In("kubeconfig") }

// ContainerdSocket is the address of this cluster's own containerd.
func ContainerdSocket() string { return filepath.Join(RunDir, "containerd.sock") }

// ExternalKubeconfig is the cluster to use instead of a local one; empty when there is none.
func ExternalKubeconfig() string { return os.Getenv("SLESS_KUBECONFIG") }
