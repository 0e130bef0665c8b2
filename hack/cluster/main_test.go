package main

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/naeel/sless/hack/cluster/internal/images"
	"github.com/naeel/sless/hack/cluster/internal/plan"
)

func TestStopOrderEndsWhoeverRestoresThingsFirst(t *testing.T) {
	got := stopOrder([]string{"containerd", "etcd", "forward", "kube-router", "kubelet", "unknown"})
	want := []string{"unknown", "forward", "kube-router", "kubelet", "containerd", "etcd"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRepositoryOfTenants(t *testing.T) {
	for _, test := range []struct{ host, prefix, want string }{
		{plan.RegistryHost, plan.RegistryHost + "/sless", "sless-{namespace}"},
		{"registry.example.org", "registry.example.org", "sless-{namespace}"},
		{"registry.example.org:5000", "registry.example.org:5000/team/a", "team/a/sless-{namespace}"},
	} {
		r := registry{host: test.host, Registry: images.Registry{Prefix: test.prefix}}
		if got := r.repository(); got != test.want {
			t.Errorf("%s: got %q, want %q", test.prefix, got, test.want)
		}
	}
}

func TestAForeignClusterNeedsARegistry(t *testing.T) {
	if _, err := externalRegistry(""); err == nil {
		t.Error("no complaint without SLESS_REGISTRY")
	}
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	r, err := externalRegistry("registry.example.org/team/")
	if err != nil {
		t.Fatal(err)
	}
	if r.host != "registry.example.org" || r.Prefix != "registry.example.org/team" || r.Insecure {
		t.Errorf("got %+v", r)
	}
}

func TestDockerConfig(t *testing.T) {
	data, err := dockerConfig("registry.example.org:5000", "user", "pass")
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		Auths map[string]struct{ Username, Password, Auth string }
	}
	if err := json.Unmarshal(data, &parsed); err != nil {
		t.Fatal(err)
	}
	entry := parsed.Auths["registry.example.org:5000"]
	if entry.Username != "user" || entry.Password != "pass" || entry.Auth != "dXNlcjpwYXNz" {
		t.Errorf("got %s", data)
	}
}
