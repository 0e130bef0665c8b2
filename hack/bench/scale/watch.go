package main

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
)

// watched knows which Functions and Triggers are Ready.
type watched struct {
	mu      sync.Mutex
	ready   map[string]bool // guarded by mu, as all below
	changed chan struct{}   // closed, and replaced, by every change
}

func watch(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) (*watched, error) {
	w := &watched{ready: map[string]bool{}, changed: make(chan struct{})}
	c, err := cache.New(config, cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return nil, err
	}
	go func() { _ = c.Start(ctx) }() // it ends with ctx
	for _, object := range []client.Object{&v1alpha1.Function{}, &v1alpha1.Trigger{}} {
		informer, err := c.GetInformer(ctx, object)
		if err != nil {
			return nil, err
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    w.note,
			UpdateFunc: func(_, object any) { w.note(object) },
		}); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *watched) note(object any) {
	key, ready := "", false
	switch object := object.(type) {
	case *v1alpha1.Function:
		key, ready = keyOf(object), isReady(object.Generation, object.Status.Conditions)
	case *v1alpha1.Trigger:
		key, ready = keyOf(object), isReady(object.Generation, object.Status.Conditions)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ready[key] == ready {
		return
	}
	if ready {
		w.ready[key] = true
	} else {
		delete(w.ready, key)
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

func isReady(generation int64, conditions []metav1.Condition) bool {
	ready := meta.FindStatusCondition(conditions, v1alpha1.Ready)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == generation
}

func keyOf(object client.Object) string {
	kind := "function "
	if _, is := object.(*v1alpha1.Trigger); is {
		kind = "trigger "
	}
	return kind + object.GetNamespace() + "/" + object.GetName()
}

// wait waits until so many Functions, and as many Triggers, are Ready.
func (w *watched) wait(ctx context.Context, functions int) error {
	return w.until(ctx, func() bool { return len(w.ready) >= 2*functions })
}

// waitFor waits until one object is.
func (w *watched) waitFor(ctx context.Context, object client.Object) error {
	return w.until(ctx, func() bool { return w.ready[keyOf(object)] })
}

func (w *watched) until(ctx context.Context, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		w.mu.Lock()
		is, changed := done(), w.changed
		w.mu.Unlock()
		if is {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
