// Package watch keeps the route table in step with the cluster: Functions, Triggers, and the EndpointSlices of namespaces that the operator made.
package watch

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/gateway/internal/route"
)

// The indexes. Both give namespace/name of the Function that an object is about.
const (
	byFunction  = "function"
	byNamespace = cache.NamespaceIndex
)

// Watcher fills a route table. An event costs the one route that it touches.
type Watcher struct {
	table *route.Table
	// newRoute makes the route of a Function that is new.
	newRoute func(namespace, name string) *route.Route

	functions, triggers, slices, namespaces cache.SharedIndexInformer

	// mu orders the changes of routes. It guards nothing that requests read.
	mu sync.Mutex
}

// New returns a Watcher. newRoute makes the route of a Function seen for the first time.
func New(clients *Clients, table *route.Table, newRoute func(namespace, name string) *route.Route) (*Watcher, error) {
	w := &Watcher{table: table, newRoute: newRoute}
	w.functions = informer(clients.sless, "functions", "", &v1alpha1.Function{},
		cache.Indexers{byNamespace: cache.MetaNamespaceIndexFunc})
	w.triggers = informer(clients.sless, "triggers", "", &v1alpha1.Trigger{}, cache.Indexers{byFunction: functionOfTrigger})
	ours := names.ManagedByLabel + "=" + names.ManagedBy
	w.slices = informer(clients.discovery, "endpointslices", ours, &discoveryv1.EndpointSlice{},
		cache.Indexers{byFunction: functionOfSlice, byNamespace: cache.MetaNamespaceIndexFunc})
	w.namespaces = informer(clients.core, "namespaces", "", &corev1.Namespace{}, nil)
	for _, informer := range w.informers() {
		if err := informer.SetTransform(strip); err != nil {
			return nil, fmt.Errorf("set transform: %w", err)
		}
	}
	return w, nil
}

func informer(client rest.Interface, resource, selector string, example runtime.Object, indexers cache.Indexers) cache.SharedIndexInformer {
	lw := cache.NewFilteredListWatchFromClient(client, resource, metav1.NamespaceAll, func(options *metav1.ListOptions) {
		options.LabelSelector = selector
	})
	return cache.NewSharedIndexInformerWithOptions(lw, example, cache.SharedIndexInformerOptions{Indexers: indexers, ObjectDescription: resource})
}

func (w *Watcher) informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{w.namespaces, w.functions, w.triggers, w.slices}
}

// Run watches until ctx ends. It calls synced once the table holds everything that there was at the start.
func (w *Watcher) Run(ctx context.Context, synced func()) error {
	about := map[cache.SharedIndexInformer]cache.IndexFunc{
		w.functions:  keyOfFunction,
		w.triggers:   functionOfTrigger,
		w.slices:     functionOfSlice,
		w.namespaces: w.functionsOfNamespace,
	}
	var done []cache.InformerSynced
	for informer, keys := range about {
		registration, err := informer.AddEventHandler(w.handler(keys))
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		done = append(done, registration.HasSynced)
	}
	var running sync.WaitGroup
	for informer := range about {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	if cache.WaitForCacheSync(ctx.Done(), done...) {
		synced()
	}
	running.Wait()
	return nil
}

// handler brings the routes in step that an event is about. keys says which an object is about; one that changes may have been about
// others before.
func (w *Watcher) handler(keys cache.IndexFunc) cache.ResourceEventHandler {
	syncAll := func(objects ...any) {
		var done []string
		for _, object := range objects {
			about, _ := keys(object) // an object that is about nothing changes nothing
			for _, key := range about {
				if !slices.Contains(done, key) {
					w.sync(key)
					done = append(done, key)
				}
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { syncAll(object) },
		UpdateFunc: func(old, new any) { syncAll(new, old) },
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			syncAll(object)
		},
	}
}

// sync brings one route in step with the caches. It reads all of them, so that it does not matter in which order their events come.
func (w *Watcher) sync(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	current := w.table.Lookup(key)
	function := w.function(key)
	if function == nil {
		if current != nil {
			w.table.Remove(current)
			current.Pool.Close()
			current.Meter.Forget()
		}
		return
	}
	if current == nil {
		current = w.newRoute(function.Namespace, function.Name)
	}
	spec := route.Compile(function, indexed[*v1alpha1.Trigger](w.triggers, key))
	if namespace := w.namespace(function.Namespace); namespace != nil {
		spec.NamespaceUID = string(namespace.UID)
	}
	current.SetSpec(spec)
	slices := w.slicesOf(key)
	current.Pool.SetTargets(targets(slices), wanted(slices))
	if w.table.Lookup(key) == nil {
		w.table.Put(current)
	}
}

// function returns a Function that exists and is not being deleted, or nil.
func (w *Watcher) function(key string) *v1alpha1.Function {
	object, exists, err := w.functions.GetIndexer().GetByKey(key)
	if err != nil || !exists {
		return nil
	}
	function, ok := object.(*v1alpha1.Function)
	if !ok || !function.DeletionTimestamp.IsZero() {
		return nil
	}
	return function
}

// namespace returns a namespace that exists, or nil.
func (w *Watcher) namespace(name string) *corev1.Namespace {
	object, _, err := w.namespaces.GetIndexer().GetByKey(name)
	if err != nil {
		return nil
	}
	namespace, _ := object.(*corev1.Namespace)
	return namespace
}

// isOurs says whether the operator has marked a namespace as its own.
func isOurs(namespace *corev1.Namespace) bool {
	return namespace.Labels[names.ManagedByLabel] == names.ManagedBy
}

// slicesOf returns a Function's slices in a namespace that the operator has marked as its own: nobody else's slices lead traffic anywhere.
func (w *Watcher) slicesOf(key string) []*discoveryv1.EndpointSlice {
	var ours []*discoveryv1.EndpointSlice
	for _, slice := range indexed[*discoveryv1.EndpointSlice](w.slices, key) {
		if namespace := w.namespace(slice.Namespace); namespace != nil && isOurs(namespace) {
			ours = append(ours, slice)
		}
	}
	return ours
}

func indexed[T any](informer cache.SharedIndexInformer, key string) []T {
	objects, err := informer.GetIndexer().ByIndex(byFunction, key)
	if err != nil {
		return nil
	}
	typed := make([]T, 0, len(objects))
	for _, object := range objects {
		if object, ok := object.(T); ok {
			typed = append(typed, object)
		}
	}
	return typed
}

func keyOfFunction(object any) ([]string, error) {
	key, err := cache.MetaNamespaceKeyFunc(object)
	return []string{key}, err
}

func functionOfTrigger(object any) ([]string, error) {
	trigger, ok := object.(*v1alpha1.Trigger)
	if !ok {
		return nil, nil
	}
	return []string{trigger.Namespace + "/" + trigger.Spec.FunctionRef.Name}, nil
}

// functionOfSlice reads the labels that the slice has from its Service. They count only in the namespace that belongs to the one they
// name.
func functionOfSlice(object any) ([]string, error) {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, nil
	}
	namespace, name := slice.Labels[names.NamespaceLabel], slice.Labels[names.NameLabel]
	if namespace == "" || name == "" || slice.Namespace != names.FunctionNamespace(namespace) {
		return nil, nil
	}
	return []string{namespace + "/" + name}, nil
}

// functionsOfNamespace returns the Functions in a namespace, and those with slices in one that has become the operator's, or is no longer.
func (w *Watcher) functionsOfNamespace(object any) ([]string, error) {
	namespace, ok := object.(*corev1.Namespace)
	if !ok {
		return nil, nil
	}
	keys, err := w.functions.GetIndexer().IndexKeys(byNamespace, namespace.Name)
	if err != nil {
		return nil, err
	}
	slices, err := w.slices.GetIndexer().ByIndex(byNamespace, namespace.Name)
	if err != nil {
		return nil, err
	}
	for _, slice := range slices {
		about, _ := functionOfSlice(slice)
		keys = append(keys, about...)
	}
	return keys, nil
}
