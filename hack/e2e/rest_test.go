package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/naeel/sless/api/rest"
)

// apiserver is the address of the REST API.
func apiserver() string {
	if url := os.Getenv("SLESS_APISERVER_URL"); url != "" {
		return strings.TrimRight(url, "/")
	}
	port := os.Getenv("SLESS_APISERVER_PORT")
	if port == "" {
		port = "8081"
	}
	return "http://127.0.0.1:" + port
}

// programToken makes an account for a program with those roles in the namespace, and returns a token of it that works already.
func programToken(t *testing.T, namespace string, roles ...string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "program-"}}
	if err := kube.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		bind := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account.Name + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account.Name}},
		}
		if err := kube.Create(t.Context(), bind); err != nil {
			t.Fatal(err)
		}
	}
	clientset, err := kubernetes.NewForConfig(kubeConfig)
	if err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600))}}
	made, err := clientset.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account.Name, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Status.Token
}

func restClient(t *testing.T, token string) *rest.Client {
	t.Helper()
	client, err := rest.NewClient(rest.Config{Endpoint: apiserver(), Token: token, RetryFor: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// waitForRights waits until the cluster has heard of the roles of a token, and every replica of the apiserver too.
func waitForRights(t *testing.T, namespace, token string) {
	t.Helper()
	client := restClient(t, token)
	good := 0
	for end := time.Now().Add(patience); good < 10; time.Sleep(100 * time.Millisecond) {
		if _, err := client.Functions(namespace).List(t.Context(), rest.ListOptions{}); err == nil {
			good++
		} else if good = 0; time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func TestRESTOnTheClusterKeepsTenantsApart(t *testing.T) {
	t.Parallel()
	mine, other := newNamespace(t), newNamespace(t)
	token := programToken(t, mine, "sless-deployer")
	waitForRights(t, mine, token)
	client := restClient(t, token)
	absent := "absent-" + other
	for _, namespace := range []string{other, absent, "sless-system", "kube-system"} {
		_, err := client.Functions(namespace).Get(t.Context(), "hello")
		problem, ok := err.(*rest.Problem)
		if !ok || problem.Code != rest.CodeForbidden || problem.Detail != fmt.Sprintf("you may not get functions in namespace %s", namespace) {
			t.Errorf("%s: %v", namespace, err)
		}
	}
	// The role of deploying is not that of calling.
	if _, err := client.Invoke(t.Context(), mine, "hello", nil); err == nil || !strings.Contains(err.Error(), rest.CodeForbidden) {
		t.Errorf("called: %v", err)
	}
}

func TestAnInlineFunctionByRESTServesAndFailsAsItShould(t *testing.T) {
	t.Parallel()
	replacing.RLock()
	defer replacing.RUnlock()
	namespace := newNamespace(t)
	token := programToken(t, namespace, "sless-deployer", "sless-invoker")
	waitForRights(t, namespace, token)
	client := restClient(t, token)
	functions := client.Functions(namespace)
	good := rest.Function{Runtime: "python3.11", Source: &rest.Source{Inline: map[string]string{"handler.py": "def handle(event):\n    return {'got': event}\n"}}}
	stored, err := functions.Replace(t.Context(), "hello", good, rest.WaitReady(patience))
	if err != nil || stored.Object.Status.Phase != rest.FunctionReady {
		t.Fatalf("got %+v %v", stored.Object.Status, err)
	}
	answer, err := client.Invoke(t.Context(), namespace, "hello", []byte(`{"a": [1, 2]}`))
	if err != nil || strings.ReplaceAll(string(answer), " ", "") != `{"got":{"a":[1,2]}}` {
		t.Errorf("got %s %v", answer, err)
	}
	bad := map[string]any{"source": map[string]any{"inline": map[string]any{"handler.py": "def handle(event:\n"}}}
	broken, err := functions.Patch(t.Context(), "hello", bad, rest.WaitReady(patience))
	if err != nil || broken.Object.Status.Ready != "False" || broken.Object.Status.Message == "" {
		t.Errorf("a broken version: %+v %v", broken.Object.Status, err)
	}
	if answer, err = client.Invoke(t.Context(), namespace, "hello", []byte("1")); err != nil || !strings.Contains(string(answer), "got") {
		t.Errorf("the old version serves no more: %s %v", answer, err)
	}
}
