package admission

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
)

// TestInstallTwice holds that applying the install again changes nothing.
func TestInstallTwice(t *testing.T) {
	objects, err := kubectl(nil, "kustomize", filepath.Join(root, "config", "dev"))
	if err != nil {
		t.Fatal(err)
	}
	versions := func() string {
		t.Helper()
		out, err := kubectl(objects, "get", "-f", "-", "-o", `jsonpath={range .items[*]}{.kind}{" "}{.metadata.name}{" "}{.metadata.generation}{"\n"}{end}`)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	before := versions()
	if err := install(); err != nil {
		t.Fatal(err)
	}
	if after := versions(); before != after || before == "" {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// TestPlatformPodsAreRestricted gives the pods of the install to the Pod Security admission of their namespace.
func TestPlatformPodsAreRestricted(t *testing.T) {
	deployments := &appsv1.DeploymentList{}
	if err := server.client.List(t.Context(), deployments, client.InNamespace(names.SystemNamespace)); err != nil {
		t.Fatal(err)
	}
	if len(deployments.Items) < 2 {
		t.Fatalf("want at least operator and gateway, got %d Deployments", len(deployments.Items))
	}
	for _, deployment := range deployments.Items {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: names.SystemNamespace, Name: deployment.Name, Labels: deployment.Spec.Template.Labels}, Spec: deployment.Spec.Template.Spec}
		if err := server.client.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Errorf("pod of %s: %v", deployment.Name, err)
		}
		for _, container := range pod.Spec.Containers {
			if context := container.SecurityContext; context == nil || context.ReadOnlyRootFilesystem == nil || !*context.ReadOnlyRootFilesystem {
				t.Errorf("container %s of %s can write its root file system", container.Name, deployment.Name)
			}
			if container.Resources.Limits.Memory().IsZero() {
				t.Errorf("container %s of %s has no memory limit", container.Name, deployment.Name)
			}
		}
	}
	mighty := &corev1.Pod{ObjectMeta: in(names.SystemNamespace, "root"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if err := server.client.Create(t.Context(), mighty, client.DryRunAll); err == nil {
		t.Error("a pod that may run as root is let into sless-system")
	}
}

// TestRights asks the API server what each account may do outside of the namespaces of sless.
func TestRights(t *testing.T) {
	const operator, gateway, apiserver = "operator", "gateway", "apiserver"
	for _, c := range []struct {
		account, verb, group, resource string
		allowed                        bool
	}{
		{operator, "get", "", "secrets", true},
		{operator, "list", "", "secrets", false},
		{operator, "watch", "", "secrets", false},
		{operator, "list", "", "configmaps", false},
		{operator, "create", "", "secrets", false},
		{operator, "create", "apps", "deployments", false},
		{operator, "delete", "", "pods", false},
		{operator, "delete", "sless.io", "functions", false},
		{operator, "create", "sless.io", "functions", false},
		{operator, "create", "rbac.authorization.k8s.io", "clusterrolebindings", false},
		{operator, "create", "", "serviceaccounts/token", false},
		{operator, "create", "", "pods/exec", false},
		{operator, "impersonate", "", "users", false},
		{gateway, "watch", "sless.io", "functions", true},
		{gateway, "watch", "discovery.k8s.io", "endpointslices", true},
		{gateway, "create", "authentication.k8s.io", "tokenreviews", true},
		{gateway, "get", "", "secrets", false},
		{gateway, "get", "", "configmaps", false},
		{gateway, "update", "sless.io", "functions", false},
		{gateway, "list", "", "pods", false},
		{apiserver, "create", "sless.io", "functions", true},
		{apiserver, "create", "authorization.k8s.io", "subjectaccessreviews", true},
		{apiserver, "get", "", "secrets", false},
		{apiserver, "list", "", "secrets", false},
		{apiserver, "list", "", "pods", false},
		{apiserver, "get", "", "pods/log", false},
		{apiserver, "update", "sless.io", "functions/status", false},
		{apiserver, "create", "apps", "deployments", false},
	} {
		resource, sub, _ := strings.Cut(c.resource, "/")
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + names.SystemNamespace + ":" + c.account,
			Groups: []string{"system:serviceaccounts", "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: "default", Verb: c.verb, Group: c.group, Resource: resource, Subresource: sub, Name: "x"},
		}}
		if err := server.client.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != c.allowed {
			t.Errorf("%s may %s %s in a user's namespace: %v, want %v", c.account, c.verb, c.resource, review.Status.Allowed, c.allowed)
		}
	}
}

// TestSamples holds that every sample is let in as it stands.
func TestSamples(t *testing.T) {
	ns := namespace(t, "samples-")
	samples := 0
	err := filepath.WalkDir(filepath.Join(root, "config", "samples"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" || entry.Name() == "kustomization.yaml" {
			return err
		}
		samples++
		out, err := kubectl(nil, "apply", "--namespace="+ns, "--dry-run=server", "--validate=strict", "-f", path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if bytes.Contains(out, []byte("Warning")) {
			t.Errorf("%s: %s", path, out)
		}
		return nil
	})
	if err != nil || samples < 5 {
		t.Errorf("tried %d samples, %v", samples, err)
	}
}
