package plane

import (
	"fmt"

	"github.com/naeel/sless/hack/cluster/internal/plan"
	"github.com/naeel/sless/hack/cluster/internal/process"
)

func (p Plane) spec(name string, flags ...string) process.Spec {
	return process.Spec{Name: name, Args: append([]string{p.Place.Bin(name)}, flags...), Log: p.Place.Log(name)}
}

func (p Plane) etcd() process.Spec {
	client := fmt.Sprintf("https://127.0.0.1:%d", plan.EtcdPort)
	peer := fmt.Sprintf("https://127.0.0.1:%d", plan.EtcdPeerPort)
	cert, key, ca := p.Place.In("pki", "etcd.crt"), p.Place.In("pki", "etcd.key"), p.Place.In("pki", "ca.crt")
	return p.spec("etcd",
		"--name=local",
		"--data-dir="+p.Place.In("etcd"),
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
		"--initial-cluster=local="+peer,
		"--cert-file="+cert, "--key-file="+key, "--trusted-ca-file="+ca, "--client-cert-auth",
		"--peer-cert-file="+cert, "--peer-key-file="+key, "--peer-trusted-ca-file="+ca, "--peer-client-cert-auth",
		// A cluster that can be made again in seconds need not survive a power cut.
		"--unsafe-no-fsync",
		"--log-level=warn",
	)
}

func (p Plane) apiserver() process.Spec {
	file := func(name string) string { return p.Place.In("pki", name) }
	spec := p.spec("kube-apiserver",
		"--bind-address="+plan.NodeIP,
		"--advertise-address="+plan.NodeIP,
		fmt.Sprintf("--secure-port=%d", plan.APIPort),
		fmt.Sprintf("--etcd-servers=https://127.0.0.1:%d", plan.EtcdPort),
		"--etcd-cafile="+file("ca.crt"), "--etcd-certfile="+file("etcd.crt"), "--etcd-keyfile="+file("etcd.key"),
		"--client-ca-file="+file("ca.crt"),
		"--tls-cert-file="+file("apiserver.crt"), "--tls-private-key-file="+file("apiserver.key"),
		"--kubelet-certificate-authority="+file("ca.crt"),
		"--kubelet-client-certificate="+file("apiserver-kubelet.crt"), "--kubelet-client-key="+file("apiserver-kubelet.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file="+file("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+file("front-proxy.crt"), "--proxy-client-key-file="+file("front-proxy.key"),
		"--service-account-issuer=https://kubernetes.default.svc."+plan.ClusterDomain,
		"--service-account-key-file="+file("tokens.pub"), "--service-account-signing-key-file="+file("tokens.key"),
		"--service-cluster-ip-range="+plan.ServiceCIDR,
		// No Node authorizer: it learns of a pod later than the kubelet does, which costs many pods a second at their start.
		"--authorization-mode=RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--anonymous-auth=false",
		"--profiling=false",
		"--audit-policy-file="+p.auditPolicy(),
		"--audit-log-path="+p.Place.Log("audit"),
		// In MB, and number of older files: the requests of some runs of all tests.
		"--audit-log-maxsize=100", "--audit-log-maxbackup=4",
	)
	spec.Version = auditPolicy
	return spec
}

func (p Plane) controllerManager() process.Spec {
	kubeconfig := p.Place.In("kubeconfigs", "controller-manager")
	return p.spec("kube-controller-manager",
		"--kubeconfig="+kubeconfig,
		"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
		"--use-service-account-credentials",
		"--service-account-private-key-file="+p.Place.In("pki", "tokens.key"),
		"--root-ca-file="+p.Place.In("pki", "ca.crt"),
		"--cluster-signing-cert-file="+p.Place.In("pki", "ca.crt"), "--cluster-signing-key-file="+p.Place.In("pki", "ca.key"),
		"--allocate-node-cidrs", "--cluster-cidr="+plan.PodCIDR, "--node-cidr-mask-size=16",
		"--service-cluster-ip-range="+plan.ServiceCIDR,
		// The only node may be busy compiling: late heartbeats are no reason to evict everything.
		"--node-monitor-grace-period=5m",
		"--kube-api-qps=200", "--kube-api-burst=400",
		"--profiling=false",
	)
}

func (p Plane) scheduler() process.Spec {
	kubeconfig := p.Place.In("kubeconfigs", "scheduler")
	return p.spec("kube-scheduler",
		"--kubeconfig="+kubeconfig,
		"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
		"--kube-api-qps=200", "--kube-api-burst=400",
		"--profiling=false",
	)
}
