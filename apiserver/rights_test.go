package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/rest"
)

// send makes a request as it stands, without the client's help.
func send(t *testing.T, token, method, path string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	return sendTo(t, shared, token, method, path, body, header...)
}

// sendTo is send to an apiserver of the test's own.
func sendTo(t *testing.T, own *instance, token, method, path string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, own.endpoint+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

// wantProblem checks an answer that send got.
func wantProblem(t *testing.T, response *http.Response, body string, status int, code string) {
	t.Helper()
	var problem rest.Problem
	if err := json.Unmarshal([]byte(body), &problem); err != nil {
		t.Errorf("%d %s is no problem: %v", response.StatusCode, body, err)
		return
	}
	if response.StatusCode != status || problem.Code != code || problem.Status != status || problem.RequestID == "" ||
		problem.RequestID != response.Header.Get("X-Request-Id") || response.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %d %s, want %d %s", response.StatusCode, body, status, code)
	}
}

// everyOperation is a request of each operation.
func everyOperation(namespace string) [][2]string {
	var all [][2]string
	for _, plural := range []string{"functions", "triggers", "jobs"} {
		collection := "/v1/namespaces/" + namespace + "/" + plural
		all = append(all, [2]string{"GET", collection}, [2]string{"POST", collection})
		for _, method := range []string{"GET", "PUT", "PATCH", "DELETE"} {
			all = append(all, [2]string{method, collection + "/hello"})
		}
	}
	function := "/v1/namespaces/" + namespace + "/functions/hello"
	return append(all, [][2]string{
		{"POST", "/v1/namespaces/" + namespace + "/sources"}, {"PUT", function + "/code"}, {"GET", function + "/code"}, {"GET", function + "/logs"},
		{"POST", function + "/invoke"}, {"GET", "/v1/namespaces/" + namespace + "/invocations"}, {"GET", "/v1/namespaces/" + namespace + "/invocations/summary"},
	}...)
}

func TestWithoutAGoodTokenNothingIsDone(t *testing.T) {
	tenant := newTenant(t)
	for _, operation := range everyOperation(tenant.namespace) {
		response, body := send(t, "", operation[0], operation[1], strings.NewReader("{}"))
		wantProblem(t, response, body, 401, rest.CodeUnauthenticated)
		if response.Header.Get("WWW-Authenticate") == "" {
			t.Error("no WWW-Authenticate")
		}
	}
	path := "/v1/namespaces/" + tenant.namespace + "/functions"
	foreign := strings.Split(tenant.token, ".")
	for name, header := range map[string]string{
		"basic": "Basic c2xlc3M6c2xlc3M=", "empty": "Bearer ", "rubbish": "Bearer rubbish", "bad characters": "Bearer a\"b", "no scheme": tenant.token,
		"cut": "Bearer " + tenant.token[:len(tenant.token)-5], "no signature": "Bearer " + foreign[0] + "." + foreign[1] + ".",
	} {
		response, body := send(t, "", "GET", path, nil, "Authorization", header)
		if response.StatusCode != 401 || strings.Contains(body, foreign[1]) {
			t.Errorf("%s: got %d %s", name, response.StatusCode, body)
		}
	}
}

func TestWithoutRightsNobodyLearnsWhatExists(t *testing.T) {
	owner, stranger := newTenant(t), newTenant(t)
	must[rest.Stored[rest.Function]](t)(owner.Functions(owner.namespace).Create(t.Context(), hello("hello")))
	absent := "absent-" + owner.namespace
	there, nowhere := everyOperation(owner.namespace), everyOperation(absent)
	for i := range there {
		response, body := send(t, stranger.token, there[i][0], there[i][1], strings.NewReader("{}"))
		wantProblem(t, response, body, 403, rest.CodeForbidden)
		other, otherBody := send(t, stranger.token, nowhere[i][0], nowhere[i][1], strings.NewReader("{}"))
		wantProblem(t, other, otherBody, 403, rest.CodeForbidden)
		hide := func(body, namespace, id string) string {
			return strings.NewReplacer(namespace, "NAMESPACE", id, "ID").Replace(body)
		}
		if diff := cmp.Diff(hide(body, owner.namespace, response.Header.Get("X-Request-Id")), hide(otherBody, absent, other.Header.Get("X-Request-Id"))); diff != "" {
			t.Errorf("%v: the answers differ by whether it exists:\n%s", there[i], diff)
		}
	}
}

func TestRightsAreRBACs(t *testing.T) {
	tenant := newTenant(t)
	must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), hello("hello")))
	reader := newClient(t, newToken(t, tenant.namespace, []rbacv1.PolicyRule{
		{APIGroups: []string{"sless.io"}, Resources: []string{"functions"}, Verbs: []string{"get", "update"}},
	}))
	functions := reader.Functions(tenant.namespace)
	if err := eventually(func() error { _, err := functions.Get(t.Context(), "hello"); return err }); err != nil {
		t.Fatal(err)
	}
	_, err := functions.Patch(t.Context(), "hello", map[string]any{"code_hash": "x"})
	wantCode(t, err, 403, rest.CodeForbidden)
	// A PUT that creates needs the right to create as well.
	if _, err := functions.Replace(t.Context(), "hello", hello("")); err != nil {
		t.Error(err)
	}
	_, err = functions.Replace(t.Context(), "other", hello(""))
	wantCode(t, err, 403, rest.CodeForbidden)
	_, err = functions.Get(t.Context(), "absent")
	wantCode(t, err, 404, rest.CodeNotFound)
	_, err = reader.Invoke(t.Context(), tenant.namespace, "hello", nil)
	wantCode(t, err, 403, rest.CodeForbidden)
}

// adminToken returns a token of somebody who may do everything everywhere.
func adminToken(t *testing.T) string {
	t.Helper()
	namespace := newNamespace(t)
	token := newToken(t, namespace, everything)
	accounts, err := cluster.kube.CoreV1().ServiceAccounts(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bind := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}}
	for _, account := range accounts.Items {
		bind.Subjects = append(bind.Subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: account.Name})
	}
	if err := cluster.client.Create(t.Context(), bind); err != nil {
		t.Fatal(err)
	}
	client := newClient(t, token)
	if err := eventually(func() error {
		_, err := client.Functions("default").List(t.Context(), rest.ListOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return token
}

// problemIn reads a problem from an answer.
func problemIn(t *testing.T, body string) error {
	t.Helper()
	problem := &rest.Problem{}
	if err := json.Unmarshal([]byte(body), problem); err != nil {
		t.Fatal(err)
	}
	return problem
}
