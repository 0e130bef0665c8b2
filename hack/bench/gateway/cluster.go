package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// cluster is a bare API server, which holds functions that nobody but the gateway looks at.
type cluster struct {
	environment *envtest.Environment
	client      client.Client
	kubeconfig  string
	functions   int
}

// userNamespace is whose functions they are.
const userNamespace = "bench"

func startCluster(ctx context.Context, dir string) (*cluster, error) {
	ctrllog.SetLogger(logr.Discard())
	programs := os.Getenv("KUBEBUILDER_ASSETS")
	if programs == "" {
		programs = filepath.Join(".dev", "bin")
	}
	c := &cluster{
		environment: &envtest.Environment{
			BinaryAssetsDirectory: programs, CRDDirectoryPaths: []string{filepath.Join("config", "crd")}, ErrorIfCRDPathMissing: true,
			ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute,
		},
		kubeconfig: filepath.Join(dir, "kubeconfig"),
	}
	config, err := c.environment.Start()
	if err != nil {
		return nil, fmt.Errorf("start an API server (make kubernetes builds it): %w", err)
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	err = errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), os.WriteFile(c.kubeconfig, c.environment.KubeConfig, 0o600))
	if err == nil {
		c.client, err = client.New(config, client.Options{Scheme: scheme})
	}
	if err == nil {
		err = c.create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: userNamespace}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: names.FunctionNamespace(userNamespace), Labels: map[string]string{names.ManagedByLabel: names.ManagedBy},
			}})
	}
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

func (c *cluster) stop() error { return c.environment.Stop() }

func (c *cluster) create(ctx context.Context, objects ...client.Object) error {
	for _, object := range objects {
		if err := c.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

func functionName(i int) string { return fmt.Sprintf("function-%d", i) }

// path is a request's path to one of the functions.
func path(i int) string { return names.FunctionPath(userNamespace, functionName(i)) + "/some/path?q=1" }

// grow adds functions until there are so many, each with a Trigger and a pod.
func (c *cluster) grow(ctx context.Context, functions int) error {
	const writers = 16
	next := make(chan int)
	failed := make(chan error, writers)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for i := range next {
				if err := c.create(ctx, objects(functionName(i))...); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	defer all.Wait()
	defer close(next)
	for ; c.functions < functions; c.functions++ {
		select {
		case next <- c.functions:
		case err := <-failed:
			return err
		}
	}
	return nil
}

// objects are what makes one function reachable. Its limit is never reached, and costs what a limit costs.
func objects(name string) []client.Object {
	function := &v1alpha1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: userNamespace, Name: name}}
	function.Spec.Runtime = "python3.11"
	function.Spec.Concurrency = new(int32(1000))
	function.Spec.Source.Inline = map[string]v1alpha1.InlineFile{"handler.py": "def handle(event): pass"}
	trigger := &v1alpha1.Trigger{ObjectMeta: metav1.ObjectMeta{Namespace: userNamespace, Name: name}}
	trigger.Spec = v1alpha1.TriggerSpec{FunctionRef: v1alpha1.FunctionRef{Name: name}, Type: v1alpha1.TriggerHTTP}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: names.FunctionNamespace(userNamespace), Name: name, Labels: names.Labels("Function", userNamespace, name, "uid")},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(names.PortName), Port: new(int32(names.Port))}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{podAddress}, TargetRef: &corev1.ObjectReference{UID: types.UID(name)}}},
	}
	slice.Labels[names.RevisionLabel] = "r1"
	return []client.Object{function, trigger, slice}
}
