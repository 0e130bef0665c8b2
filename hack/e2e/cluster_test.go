package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/hack/internal/builder"
)

// patience is how long a test waits for what should happen: far longer than it takes, since a slow machine is no fault of sless.
const patience = 5 * time.Minute

// kube talks to the cluster; gateway is the public address of functions.
var (
	kubeConfig *rest.Config
	kube       client.Client
	gateway    = "http://127.0.0.1:8080"
)

func TestMain(m *testing.M) {
	if err := connect(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\nrun it by `make test`, or set KUBECONFIG to a cluster that sless is installed on\n", err)
		os.Exit(1)
	}
	if kind := os.Getenv("SLESS_TEST_BUILDER"); kind != "" {
		os.Exit(runWithBuilder(m, kind))
	}
	os.Exit(run(m))
}

// runWithBuilder has the operator run with another builder while the tests do. Schedules have nothing to do with builders.
func runWithBuilder(m *testing.M, kind string) int {
	ctx, code := context.Background(), 1
	err := builder.Use(ctx, kube, kind)
	if err == nil {
		code = m.Run()
	}
	if err := errors.Join(err, builder.Use(ctx, kube, "")); err != nil {
		fmt.Printf("--- FAIL: change the operator's builder: %v\n", err)
		code = 1
	}
	return code
}

func run(m *testing.M) int {
	flag.Parse()
	if flag.Lookup("test.run").Value.String() != "" {
		return m.Run()
	}
	// Schedules run beside the whole suite: they begin before the first test and are judged after the last.
	schedules, err := startSchedules(context.Background())
	code := m.Run()
	if err == nil {
		err = schedules.judge(context.Background())
	}
	if err != nil {
		fmt.Printf("--- FAIL: schedules of every minute: %v\n", err)
		code = 1
	}
	return code
}

func connect() error {
	if port := os.Getenv("SLESS_GATEWAY_PORT"); port != "" {
		gateway = "http://127.0.0.1:" + port
	}
	if url := os.Getenv("SLESS_GATEWAY_URL"); url != "" {
		gateway = strings.TrimRight(url, "/")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	kubeConfig = config
	kube, err = client.New(config, client.Options{Scheme: scheme})
	return err
}

// newNamespace makes a tenant's namespace, shows what is in it when the test fails, and deletes it at the end.
func newNamespace(t *testing.T) string {
	t.Helper()
	return newNamespaceNamed(t, "e2e-"+strings.ToLower(rand.Text()[:10]))
}

func newNamespaceNamed(t *testing.T, name string) string {
	t.Helper()
	if err := kube.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			show(t, name)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = kube.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	})
	return name
}

// show logs what helps to understand a failure.
func show(t *testing.T, namespace string) {
	running := names.FunctionNamespace(namespace)
	for _, args := range [][]string{
		{"get", "functions,triggers,functionjobs", "-n", namespace, "-o", "wide"},
		{"get", "pods,jobs,deployments", "-n", running},
		{"get", "events", "-n", running, "--sort-by=.lastTimestamp"},
		{"get", "pods,jobs", "-n", names.BuildNamespace},
		{"logs", "-n", names.SystemNamespace, "deployment/operator", "--tail=40"},
		{"logs", "-n", names.SystemNamespace, "deployment/gateway", "--tail=20"},
	} {
		out, _ := exec.Command("kubectl", args...).CombinedOutput()
		t.Logf("kubectl %s\n%s", strings.Join(args, " "), out)
	}
}

// kubectl runs kubectl with input on its standard input and returns what it prints; it must succeed.
func kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := tryKubectl(t, input, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func tryKubectl(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "kubectl", args...)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	return string(out), err
}

// programLogs is what all pods of a program of the platform have written. Of pods that come or go, as other tests have it, kubectl can't tell.
func programLogs(t *testing.T, program string) (text string) {
	t.Helper()
	eventually(t, "the logs of the "+program+" are read", func() (err error) {
		text, err = tryKubectl(t, "", "logs", "-n", names.SystemNamespace, "-l", "app.kubernetes.io/name="+program, "--all-containers", "--tail=-1")
		if err != nil {
			return fmt.Errorf("%w: %s", err, text[max(0, len(text)-300):])
		}
		return nil
	})
	return text
}

// apply applies a manifest to a namespace as a user would.
func apply(t *testing.T, namespace, manifest string) {
	t.Helper()
	kubectl(t, manifest, "apply", "-n", namespace, "-f", "-")
}

// eventually polls until check returns nothing to complain of, and fails with its last complaint.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// consistently fails as soon as check complains within the time.
func consistently(t *testing.T, within time.Duration, check func() error) {
	t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err := check(); err != nil {
			t.Fatal(err)
		}
	}
}

// condition returns the object's Ready condition if it speaks of its present generation.
func condition(conditions []metav1.Condition, generation int64) (metav1.Condition, error) {
	for _, c := range conditions {
		if c.Type == v1alpha1.Ready {
			if c.ObservedGeneration != generation {
				return c, fmt.Errorf("condition Ready is of generation %d, the object's is %d", c.ObservedGeneration, generation)
			}
			return c, nil
		}
	}
	return metav1.Condition{}, fmt.Errorf("no condition Ready yet")
}

// waitFunction waits until the Function's Ready condition has this status and, if given, this reason, and returns it.
func waitFunction(t *testing.T, namespace, name string, status metav1.ConditionStatus, reason string) *v1alpha1.Function {
	t.Helper()
	function := &v1alpha1.Function{}
	eventually(t, fmt.Sprintf("Function %s is %s %s", name, status, reason), func() error {
		if err := get(t, namespace, name, function); err != nil {
			return err
		}
		ready, err := condition(function.Status.Conditions, function.Generation)
		if err != nil {
			return err
		}
		return matches(ready, status, reason)
	})
	return function
}

// waitTrigger is waitFunction for a Trigger.
func waitTrigger(t *testing.T, namespace, name string, status metav1.ConditionStatus, reason string) *v1alpha1.Trigger {
	t.Helper()
	trigger := &v1alpha1.Trigger{}
	eventually(t, fmt.Sprintf("Trigger %s is %s %s", name, status, reason), func() error {
		if err := get(t, namespace, name, trigger); err != nil {
			return err
		}
		ready, err := condition(trigger.Status.Conditions, trigger.Generation)
		if err != nil {
			return err
		}
		return matches(ready, status, reason)
	})
	return trigger
}

func matches(c metav1.Condition, status metav1.ConditionStatus, reason string) error {
	if c.Status != status || (reason != "" && c.Reason != reason) {
		return fmt.Errorf("condition Ready is %s %s: %s", c.Status, c.Reason, c.Message)
	}
	return nil
}

func get(t *testing.T, namespace, name string, into client.Object) error {
	return kube.Get(t.Context(), clientKey(namespace, name), into)
}

func clientKey(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// gone waits until the object is not found any more.
func gone(t *testing.T, namespace, name string, object client.Object) {
	t.Helper()
	eventually(t, fmt.Sprintf("%T %s/%s is gone", object, namespace, name), func() error {
		err := get(t, namespace, name, object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			return fmt.Errorf("it is still there")
		}
		return err
	})
}

// answer is what an HTTP call got.
type answer struct {
	status int
	header http.Header
	body   string
}

// call makes one request to a function's public address; rest begins with / or ? or is empty.
func call(t *testing.T, method, namespace, function, rest, body string) (answer, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, gateway+names.FunctionPath(namespace, function)+rest, bytes.NewReader([]byte(body)))
	if err != nil {
		return answer{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(text)}, err
}

// mustCall makes one request that must be answered with this status; a Function that says Ready is not asked twice.
func mustCall(t *testing.T, method, namespace, function, rest, body string, status int) answer {
	t.Helper()
	got, err := call(t, method, namespace, function, rest, body)
	if err != nil {
		t.Fatalf("%s %s%s: %v", method, function, rest, err)
	}
	if got.status != status {
		t.Fatalf("%s %s%s: got %d, want %d: %s", method, function, rest, got.status, status, got.body)
	}
	return got
}
