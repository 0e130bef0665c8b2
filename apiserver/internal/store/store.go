// Package store reads and writes the custom resources: reads from a cache that never shows less than what this process wrote.
package store

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	kuberest "k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/apiserver/internal/problem"
)

// Store reads and writes Functions, Triggers and FunctionJobs.
type Store struct {
	client.Client // live
	cache         crcache.Cache
	written       *cache.LRUExpireCache // resource versions of this process's writes that the cache may not have yet
	watchers      watchers
}

// catchUp is how long the cache is doubted after a write: far longer than a watch is late.
const catchUp = 30 * time.Second

// Scheme returns the kinds that the apiserver knows.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	return scheme, nil
}

// New returns a Store that talks to the cluster of config. It answers once [Store.Start] has filled the cache.
func New(config *kuberest.Config) (*Store, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	live, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	informers, err := crcache.New(config, crcache.Options{
		Scheme: scheme, DefaultTransform: crcache.TransformStripManagedFields(), ReaderFailOnMissingInformer: true,
	})
	if err != nil {
		return nil, fmt.Errorf("make cache: %w", err)
	}
	return &Store{Client: live, cache: informers, written: cache.NewLRUExpireCache(4096)}, nil
}

// Start runs the cache until ctx ends.
func (s *Store) Start(ctx context.Context) error {
	for _, kind := range []client.Object{&v1alpha1.Function{}, &v1alpha1.Trigger{}, &v1alpha1.FunctionJob{}} {
		informer, err := s.cache.GetInformer(ctx, kind, crcache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		notify := func(object any) {
			if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			if object, ok := object.(client.Object); ok {
				s.watchers.notify(keyOf(object))
			}
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: notify, UpdateFunc: func(_, object any) { notify(object) }, DeleteFunc: notify,
		})
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return s.cache.Start(ctx)
}

// Synced says whether the cache is filled.
func (s *Store) Synced(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	return s.cache.WaitForCacheSync(ctx)
}

// Get reads from the cluster. A name that can't be one is not found.
func (s *Store) Get(ctx context.Context, name types.NamespacedName, into client.Object, options ...client.GetOption) error {
	if len(content.IsPathSegmentName(name.Name)) > 0 {
		return apierrors.NewNotFound(schema.GroupResource{}, name.Name)
	}
	reflect.ValueOf(into).Elem().SetZero() // decoding would leave what it does not find
	return s.Client.Get(ctx, name, into, options...)
}

// Read reads from the cache, or from the cluster when the cache has not the object or not yet what was written here.
func (s *Store) Read(ctx context.Context, name types.NamespacedName, into client.Object) error {
	err := s.cache.Get(ctx, name, into)
	if err == nil && !s.stale(name, into) {
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return s.Get(ctx, name, into)
}

func (s *Store) stale(name types.NamespacedName, object client.Object) bool {
	written, ok := s.written.Get(key(object, name))
	return ok && version(object.GetResourceVersion()) < written.(uint64)
}

// version orders resource versions. What can't be ordered counts as old.
func version(text string) uint64 {
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return number
}

// Create creates the object in the cluster.
func (s *Store) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	err := s.Client.Create(ctx, object, options...)
	s.wrote(object, version(object.GetResourceVersion()), err)
	return err
}

// Update replaces the object in the cluster; the error is a conflict when it has changed since it was read.
func (s *Store) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	err := s.Client.Update(ctx, object, options...)
	s.wrote(object, version(object.GetResourceVersion()), err)
	return err
}

// Delete deletes the object.
func (s *Store) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	err := s.Client.Delete(ctx, object, options...)
	s.wrote(object, math.MaxUint64, err)
	return err
}

func (s *Store) wrote(object client.Object, version uint64, err error) {
	if err == nil {
		s.written.Add(keyOf(object), version, catchUp)
	}
}

// Wait reads the object whenever it changes, until done says so or ctx ends. It leaves the last state read in object; done gets nil
// once the object is gone.
func (s *Store) Wait(ctx context.Context, object client.Object, done func(client.Object) bool) error {
	name := client.ObjectKeyFromObject(object)
	changed, stop := s.watchers.watch(keyOf(object))
	defer stop()
	for {
		err := s.Read(ctx, name, object)
		switch {
		case apierrors.IsNotFound(err):
			if done(nil) {
				return nil
			}
			return err
		case err == nil && done(object):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func keyOf(object client.Object) string { return key(object, client.ObjectKeyFromObject(object)) }

func key(object client.Object, name types.NamespacedName) string {
	return fmt.Sprintf("%T/%s", object, name)
}

// Tenant returns the UID of a namespace: what a tenant's things outside Kubernetes are kept under.
func (s *Store) Tenant(ctx context.Context, namespace string) (string, error) {
	object := &corev1.Namespace{}
	if err := s.Get(ctx, types.NamespacedName{Name: namespace}, object); err != nil {
		if apierrors.IsNotFound(err) {
			return "", problem.New(http.StatusNotFound, rest.CodeNamespaceNotFound, "namespace %s does not exist", namespace)
		}
		return "", problem.FromKubernetes(err, problem.Object{Kind: "namespace", Namespace: namespace})
	}
	return string(object.UID), nil
}
