package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

const (
	// patience is how long anything may take.
	patience = 5 * time.Minute
	// pollEvery is how often the address is asked that must serve a change: the measure's grain.
	pollEvery = 5 * time.Millisecond
)

// world is the cluster and the two namespaces of this run: a tenant's, and one for a Deployment that has nothing to do with sless.
type world struct {
	config    *rest.Config
	kube      client.WithWatch
	gateway   string
	namespace string
	plain     string
	http      *http.Client
}

func newWorld(ctx context.Context) (*world, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, fmt.Errorf("find the cluster that KUBECONFIG names: %w", err)
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	kube, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	name := "bench-" + strings.ToLower(rand.Text()[:8])
	w := &world{
		config: config, kube: kube, gateway: address("SLESS_GATEWAY_URL", "SLESS_GATEWAY_PORT", "8080"), namespace: name, plain: name + "-plain",
		http: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	for _, name := range []string{w.namespace, w.plain} {
		if err := kube.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// address is where the local cluster, or the one that the environment names, has a listener.
func address(urlVariable, portVariable, port string) string {
	if url := os.Getenv(urlVariable); url != "" {
		return strings.TrimRight(url, "/")
	}
	if other := os.Getenv(portVariable); other != "" {
		port = other
	}
	return "http://127.0.0.1:" + port
}

func (w *world) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, name := range []string{w.namespace, w.plain} {
		if err := w.kube.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			fmt.Fprintf(os.Stderr, "bench: namespace %s stays: %v\n", name, err)
		}
	}
}

// until asks until there is nothing to complain of.
func until(ctx context.Context, what string, every time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s: %w", what, patience, err)
		case <-time.After(every):
		}
	}
}

// patch merge-patches an object and returns when the API server began to know.
func (w *world) patch(ctx context.Context, object client.Object, body string) (time.Time, error) {
	began := time.Now()
	return began, w.kube.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(body)))
}

// served waits until the address answers with these bytes, and says how long after the beginning that was.
func (w *world) served(ctx context.Context, url, want string, began time.Time) (time.Duration, error) {
	err := until(ctx, url+" serves the change", pollEvery, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := w.http.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || string(body) != want {
			return fmt.Errorf("got %d %q, %v", response.StatusCode, body, err)
		}
		return nil
	})
	return time.Since(began), err
}

// ready waits until a Function has done all that its spec asks for: old pods are gone too.
func (w *world) ready(ctx context.Context, name string) (*v1alpha1.Function, error) {
	function := &v1alpha1.Function{}
	return function, until(ctx, "Function "+name+" is Ready", 100*time.Millisecond, func(ctx context.Context) error {
		if err := w.kube.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, function); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(function.Status.Conditions, v1alpha1.Ready)
		if ready == nil || ready.ObservedGeneration != function.Generation || ready.Status != metav1.ConditionTrue {
			return fmt.Errorf("it is %+v", ready)
		}
		return nil
	})
}

// settled waits until a Deployment's old pods are gone.
func (w *world) settled(ctx context.Context, namespace, name string) error {
	return until(ctx, "Deployment "+name+" is complete", 100*time.Millisecond, func(ctx context.Context) error {
		deployment := &appsv1.Deployment{}
		if err := w.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment); err != nil {
			return err
		}
		pods := &corev1.PodList{}
		if err := w.kube.List(ctx, pods, client.InNamespace(namespace)); err != nil {
			return err
		}
		status := deployment.Status
		if status.ObservedGeneration < deployment.Generation || status.AvailableReplicas != 1 || len(pods.Items) != 1 {
			return fmt.Errorf("%d available, %d pods", status.AvailableReplicas, len(pods.Items))
		}
		return nil
	})
}

func (w *world) url(function string) string {
	return w.gateway + names.FunctionPath(w.namespace, function)
}
