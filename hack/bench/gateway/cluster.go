package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/hack/internal/plane"
)

// cluster is a bare API server, which holds functions that nobody but the gateway looks at.
type cluster struct {
	*plane.Plane
	kubeconfig string
	functions  int
}

// userNamespace is whose functions they are.
const userNamespace = "bench"

func startCluster(ctx context.Context, dir string) (*cluster, error) {
	c := &cluster{Plane: plane.New(), kubeconfig: filepath.Join(dir, "kubeconfig")}
	if err := c.Start(c.kubeconfig); err != nil {
		return nil, err
	}
	err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: userNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: names.FunctionNamespace(userNamespace), Labels: map[string]string{names.ManagedByLabel: names.ManagedBy},
		}})
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func functionName(i int) string { return fmt.Sprintf("function-%d", i) }

// path is a request's path to one of the functions.
func path(i int) string { return names.FunctionPath(userNamespace, functionName(i)) + "/some/path?q=1" }

// grow adds functions until there are so many, each with a Trigger and a pod.
func (c *cluster) grow(ctx context.Context, functions int) error {
	first := c.functions
	c.functions = max(first, functions)
	return c.CreateEach(ctx, first, functions, 16, func(i int) []client.Object { return objects(functionName(i)) })
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
