package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// A tenant's functions are bounded by the quota of its namespace: what is beyond is refused with a reason, what runs goes on, and no other
// tenant notices.
func TestQuotaBoundsFunctions(t *testing.T) {
	t.Parallel()
	namespace, other := newNamespace(t), newNamespace(t)
	kubectl(t, "", "create", "quota", "team", "-n", namespace, "--hard=pods=1,count/functions.sless.io=1")
	// Until it is counted for the first time, the API server refuses whatever it is about.
	eventually(t, "the quota is counted", func() error {
		quota := &corev1.ResourceQuota{}
		if err := get(t, namespace, "team", quota); err != nil {
			return err
		}
		if len(quota.Status.Used) < len(quota.Spec.Hard) {
			return fmt.Errorf("used: %v", quota.Status.Used)
		}
		return nil
	})
	apply(t, namespace, "apiVersion: v1\nkind: LimitRange\nmetadata: {name: team}\nspec: {limits: [{type: Container, max: {cpu: 2}}]}\n")
	apply(t, namespace, python("f", goodHandler)+httpTrigger("f"))
	apply(t, other, python("f", goodHandler, "replicas: 2")+httpTrigger("f"))
	waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
	waitFunction(t, other, "f", "True", v1alpha1.ReasonReady)

	if out, err := tryKubectl(t, python("g", goodHandler), "apply", "-n", namespace, "-f", "-"); err == nil || !strings.Contains(out, "exceeded quota: team") {
		t.Errorf("a second Function: %v, %s", err, out)
	}
	patch(t, namespace, "function", "f", `{"replicas": 2}`)
	refused := waitFunction(t, namespace, "f", "False", v1alpha1.ReasonQuotaExceeded)
	ready, _ := condition(refused.Status.Conditions, refused.Generation)
	if !strings.Contains(ready.Message, "exceeded quota: team-user") {
		t.Errorf("the Function says %q", ready.Message)
	}
	mustCall(t, "GET", namespace, "f", "", "", 200)
	mustCall(t, "GET", other, "f", "", "", 200)
	patch(t, namespace, "function", "f", `{"replicas": 1}`)
	waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
	waitFunction(t, other, "f", "True", v1alpha1.ReasonReady)

	kubectl(t, "", "delete", "quota,limitrange", "team", "-n", namespace)
	gone(t, names.FunctionNamespace(namespace), "team-user", &corev1.ResourceQuota{})
	gone(t, names.FunctionNamespace(namespace), "team-user", &corev1.LimitRange{})
	patch(t, namespace, "function", "f", `{"replicas": 2}`)
	waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
}

// Every namespace of sless is watched over by Pod Security, and every pod in it is restricted, whoever it is of. Of containers only
// kaniko's may be root and write its root file system; of pods only the platform's own three hold a token.
func TestEveryPodIsRestricted(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	apply(t, namespace, python("f", goodHandler))
	apply(t, namespace, job("once", "f", "runID: 1"))
	waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
	eventually(t, "the job has run", func() error {
		once := &v1alpha1.FunctionJob{}
		if err := get(t, namespace, "once", once); err != nil {
			return err
		}
		if once.Status.Phase != v1alpha1.FunctionJobSucceeded {
			return fmt.Errorf("it is %s", once.Status.Phase)
		}
		return nil
	})
	var namespaces corev1.NamespaceList
	if err := kube.List(t.Context(), &namespaces); err != nil {
		t.Fatal(err)
	}
	own := 0
	for _, place := range namespaces.Items {
		level := map[string]string{names.SystemNamespace: "restricted", names.BuildNamespace: "baseline"}[place.Name]
		if strings.HasPrefix(place.Name, names.FunctionNamespacePrefix) {
			level = "restricted"
		}
		if level == "" {
			continue
		}
		if got := place.Labels["pod-security.kubernetes.io/enforce"]; got != level {
			t.Errorf("Pod Security enforces %q in %s, want %q", got, place.Name, level)
		}
		var pods corev1.PodList
		if err := kube.List(t.Context(), &pods, client.InNamespace(place.Name)); err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods.Items {
			if pod.Labels[names.NamespaceLabel] == namespace {
				own++
			}
			judgePod(t, &pod)
		}
	}
	if own < 2 {
		t.Errorf("saw %d pods of the test's own, want those of a Function and a FunctionJob", own)
	}
}

func judgePod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	at := pod.Namespace + "/" + pod.Name
	if seccomp := pod.Spec.SecurityContext.SeccompProfile; seccomp == nil || seccomp.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: seccomp profile %v", at, seccomp)
	}
	if pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks {
		t.Errorf("%s is told of other Services", at)
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Projected == nil || pod.Namespace == names.SystemNamespace {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.ServiceAccountToken != nil {
				t.Errorf("%s has a token of account %s", at, pod.Spec.ServiceAccountName)
			}
		}
	}
	for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if pod.Namespace == names.BuildNamespace && container.Name == "kaniko" {
			continue
		}
		context, whole := container.SecurityContext, pod.Spec.SecurityContext
		if context == nil || context.ReadOnlyRootFilesystem == nil || !*context.ReadOnlyRootFilesystem {
			t.Errorf("container %s of %s can write its root file system", container.Name, at)
			continue
		}
		user := context.RunAsUser
		if user == nil {
			user = whole.RunAsUser
		}
		if user == nil || *user == 0 || context.AllowPrivilegeEscalation == nil || *context.AllowPrivilegeEscalation ||
			context.Capabilities == nil || len(context.Capabilities.Drop) != 1 || len(context.Capabilities.Add) > 0 {
			t.Errorf("container %s of %s: user %v, %+v", container.Name, at, user, context)
		}
	}
}

// What a tenant keeps in a Secret is in no object outside of its own two namespaces, and neither it nor what is sent to a function is in
// any log of the platform.
func TestSecretsStayWithTheirTenant(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	hidden, sent := "hidden-"+namespace, "sent-"+namespace
	kubectl(t, "", "create", "secret", "generic", "db", "-n", namespace, "--from-literal=password="+hidden)
	handler := "import os\ndef handle(event):\n    return os.environ['PASSWORD']\n"
	apply(t, namespace, python("f", handler, "env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: db, key: password}}}]")+httpTrigger("f"))
	waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
	if got := mustCall(t, "POST", namespace, "f", "", fmt.Sprintf("{%q: 1}", sent), 200).body; !strings.Contains(got, hidden) {
		t.Fatalf("the function answers %s", got)
	}

	seen := map[string]bool{}
	holds := func(object metav1.Object, data map[string][]byte) {
		for _, value := range data {
			if bytes.Contains(value, []byte(hidden)) {
				seen[object.GetNamespace()] = true
			}
		}
	}
	var secrets corev1.SecretList
	var configMaps corev1.ConfigMapList
	for _, list := range []client.ObjectList{&secrets, &configMaps} {
		if err := kube.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	for i := range secrets.Items {
		holds(&secrets.Items[i], secrets.Items[i].Data)
	}
	for i := range configMaps.Items {
		for _, value := range configMaps.Items[i].Data {
			holds(&configMaps.Items[i], map[string][]byte{"": []byte(value)})
		}
	}
	if len(seen) != 2 || !seen[namespace] || !seen[names.FunctionNamespace(namespace)] {
		t.Errorf("the value is in Secrets or ConfigMaps of %v, want those of the tenant's own two namespaces", seen)
	}
	if status := kubectl(t, "", "get", "function", "f", "-n", namespace, "-o", "yaml"); strings.Contains(status, hidden) {
		t.Errorf("the Function shows it:\n%s", status)
	}
	for _, program := range programs {
		log := programLogs(t, program)
		if strings.Contains(log, hidden) || strings.Contains(log, sent) {
			t.Errorf("the log of the %s has what the tenant hides or sends", program)
		}
	}
}
