package node

import (
	"context"
	"fmt"

	"github.com/naeel/sless/hack/cluster/internal/kubectl"
	"github.com/naeel/sless/hack/cluster/internal/plan"
	"github.com/naeel/sless/hack/cluster/internal/process"
)

// kubeletConfig: nothing is evicted and no image collected because the disk, which others use too, is full.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[2]q}
authorization: {mode: Webhook}
tlsCertFile: %[3]q
tlsPrivateKeyFile: %[4]q
containerRuntimeEndpoint: unix://%[5]s
podLogsDir: %[6]q
volumePluginDir: %[7]q
resolvConf: %[8]s
clusterDNS: [%[9]s]
clusterDomain: %[10]s
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
evictionHard: {}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
maxPods: 500
podPidsLimit: 1024
serializeImagePulls: false
maxParallelImagePulls: 6
registryPullQPS: 100
registryBurst: 200
kubeAPIQPS: 200
kubeAPIBurst: 400
healthzBindAddress: 127.0.0.1
enableProfilingHandler: false
`

// Kubelet starts the kubelet; it registers the node by itself.
func (n Node) Kubelet() error {
	file := func(name string) string { return n.Place.In("pki", name) }
	config := n.Place.In("kubelet.yaml")
	text := fmt.Sprintf(kubeletConfig, plan.NodeIP, file("ca.crt"), file("kubelet.crt"), file("kubelet.key"), plan.ContainerdSocket(),
		n.Place.In("pods"), n.Place.In("volume-plugins"), resolvConf(), plan.DNSIP, plan.ClusterDomain)
	hash, err := writeConfig(config, text)
	if err != nil {
		return err
	}
	_, err = n.Processes.Ensure(process.Spec{
		Name: "kubelet",
		Args: []string{
			n.Place.Bin("kubelet"),
			"--config=" + config,
			"--kubeconfig=" + n.Place.In("kubeconfigs", "kubelet"),
			"--root-dir=" + n.Place.In("kubelet"),
			"--hostname-override=" + plan.NodeName,
			"--node-ip=" + plan.NodeIP,
		},
		Log: n.Place.Log("kubelet"), Version: hash,
	})
	return err
}

// Proxies starts kube-proxy (Services) and kube-router (NetworkPolicies).
func (n Node) Proxies() error {
	_, err := n.Processes.Ensure(process.Spec{
		Name: "kube-proxy",
		Args: []string{
			n.Place.Bin("kube-proxy"),
			"--kubeconfig=" + n.Place.In("kubeconfigs", "kube-proxy"),
			"--proxy-mode=nftables",
			"--cluster-cidr=" + plan.PodCIDR,
			"--hostname-override=" + plan.NodeName,
			"--healthz-bind-address=127.0.0.1:10256",
			"--metrics-bind-address=127.0.0.1:10249",
			// Root may lack the right to raise the kernel's own limit.
			"--conntrack-max-per-core=0",
		},
		Log: n.Place.Log("kube-proxy"),
	})
	if err != nil {
		return err
	}
	_, err = n.Processes.Ensure(process.Spec{
		Name: "kube-router",
		Args: []string{
			n.Place.Bin("kube-router"),
			"--kubeconfig=" + n.Place.In("kubeconfigs", "kube-router"),
			"--run-firewall=true", "--run-router=false", "--run-service-proxy=false",
			"--hostname-override=" + plan.NodeName,
			"--service-cluster-ip-range=" + plan.ServiceCIDR,
			"--health-port=20244",
		},
		Log: n.Place.Log("kube-router"),
	})
	return err
}

// ProxiesReady waits until policies are carried out: a pod that starts before that is not guarded. kube-router calls itself
// healthy before its first pass, so look for what that writes.
func (n Node) ProxiesReady(ctx context.Context) error {
	enforced := func() error {
		_, err := run(ctx, "iptables", "--wait", "--list-rules", "KUBE-ROUTER-FORWARD")
		return err
	}
	if n.Processes.Alive("kube-router") && enforced() == nil {
		return nil
	}
	return n.Progress.Step("NetworkPolicies are enforced", n.Place.Log("kube-router"), func() error { return n.until(ctx, "kube-router", enforced) })
}

// Ready waits until the node may take pods.
func (n Node) Ready(ctx context.Context, client kubectl.Client) error {
	ready := func() error {
		_, err := client.Run(ctx, "wait", "--for=condition=Ready", "node/"+plan.NodeName, "--timeout=5s")
		return err
	}
	if ready() == nil {
		return nil
	}
	return n.Progress.Step("the node is Ready", n.Place.Log("kubelet"), func() error { return n.until(ctx, "kubelet", ready) })
}
