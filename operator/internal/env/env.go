// Package env turns a Function's environment into an immutable Secret named by its content, beside the pods that use it.
package env

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// Store resolves environments and keeps their Secrets.
type Store struct {
	// Client writes in tenants' namespaces.
	Client client.Client
	// Reader reads past the cache: the operator may get a tenant's Secret by its name, and neither list nor watch them.
	Reader client.Reader

	now func() time.Time // of tests; nil is time.Now

	mu sync.Mutex
	// alone has, by Function, the environment beside which Collect has found no other since. Guarded by mu.
	alone map[client.ObjectKey]string
}

// Forget drops what is remembered of a Function that is gone.
func (s *Store) Forget(function client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.alone, function)
}

// Environment is a Function's environment with every value known.
type Environment struct {
	// Follows says that a value comes from a Secret or ConfigMap, which may change.
	Follows bool
	values  map[string][]byte
}

// maxBytes is what fits into a Secret beside its metadata.
const maxBytes = corev1.MaxSecretSize - 64<<10

// Ensure makes the Secret of a Function's environment in the tenant's namespace and returns its name; it is empty when there are
// no variables. The error is a *fault.Error when only a change by somebody helps. The Environment says in every case whether to
// look again.
func (s *Store) Ensure(ctx context.Context, function *v1alpha1.Function, tenant string) (string, Environment, error) {
	environment, err := s.Resolve(ctx, function)
	if err != nil || len(environment.values) == 0 {
		return "", environment, err
	}
	secret := environment.build(function, tenant)
	key := client.ObjectKeyFromObject(secret)
	var found metav1.PartialObjectMetadata
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err = s.Reader.Get(ctx, key, &found)
	if apierrors.IsNotFound(err) {
		s.Forget(client.ObjectKeyFromObject(function)) // there will be others, whoever it is made for
		err = s.Client.Create(ctx, secret, client.FieldOwner(names.ManagedBy))
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", environment, fmt.Errorf("create Secret %s: %w", key, err)
	}
	return secret.Name, environment, nil
}

// Resolve reads the values that a Function's environment takes from Secrets and ConfigMaps of its namespace.
func (s *Store) Resolve(ctx context.Context, function *v1alpha1.Function) (Environment, error) {
	environment := Environment{values: map[string][]byte{}}
	objects := objects{reader: s.Reader, namespace: function.Namespace}
	var missing []string
	for _, variable := range function.Spec.Env {
		if variable.ValueFrom == nil {
			environment.values[variable.Name] = []byte(variable.Value)
			continue
		}
		environment.Follows = true
		value, lack, err := objects.value(ctx, variable.ValueFrom)
		switch {
		case err != nil:
			return environment, fmt.Errorf("read env %s: %w", variable.Name, err)
		case lack == "":
			environment.values[variable.Name] = value
		case !optional(variable.ValueFrom):
			missing = append(missing, fmt.Sprintf("%s: %s does not exist", variable.Name, lack))
		}
	}
	if len(missing) > 0 {
		return environment, fault.Terminal(v1alpha1.ReasonEnvNotFound, "env %s; make it, or mark the reference optional", strings.Join(missing, "; env "))
	}
	return environment, environment.check()
}

// check refuses what no process can have as its environment. Its messages never have a value.
func (e Environment) check() error {
	size := 0
	for _, name := range slices.Sorted(maps.Keys(e.values)) {
		value := e.values[name]
		size += len(name) + len(value)
		if !utf8.Valid(value) || strings.ContainsRune(string(value), 0) {
			return fault.Terminal(v1alpha1.ReasonEnvInvalid, "env %s: its value is not UTF-8 text without NUL bytes; encode it, for example as base64", name)
		}
		if len(value) > maxValue {
			return fault.Terminal(v1alpha1.ReasonEnvInvalid, "env %s: its value has %d bytes, and Linux takes at most %d; put it into the code or an object store", name, len(value), maxValue)
		}
	}
	if size > maxBytes {
		return fault.Terminal(v1alpha1.ReasonEnvInvalid, "env has %d bytes in all, and at most %d are possible; put large values into the code or an object store", size, maxBytes)
	}
	return nil
}

// maxValue is the longest string Linux takes as one variable (MAX_ARG_STRLEN), less its name.
const maxValue = 128<<10 - 512

// build returns the Secret. The owner's UID is part of its name, so that the name says nothing about values to those who guess.
func (e Environment) build(function *v1alpha1.Function, tenant string) *corev1.Secret {
	parts := []string{string(function.UID)}
	for _, name := range slices.Sorted(maps.Keys(e.values)) {
		parts = append(parts, name, string(e.values[name]))
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:      names.Child(function.Name, "env-"+names.Hash(parts...)[:16]),
			Namespace: tenant,
			Labels:    names.Labels("Function", function.Namespace, function.Name, function.UID),
		},
		Immutable: new(true),
		Data:      e.values,
	}
}

func optional(from *v1alpha1.EnvVarSource) bool {
	if from.SecretKeyRef != nil {
		return from.SecretKeyRef.Optional
	}
	return from.ConfigMapKeyRef != nil && from.ConfigMapKeyRef.Optional
}

// objects reads each Secret and ConfigMap once, so that the keys of one object are of one version.
type objects struct {
	reader    client.Reader
	namespace string
	secrets   map[string]*corev1.Secret
	maps      map[string]*corev1.ConfigMap
}

// value returns the value of a reference, or the name of the thing that is not there.
func (o *objects) value(ctx context.Context, from *v1alpha1.EnvVarSource) (value []byte, lack string, err error) {
	switch {
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		secret, err := get(ctx, o, &o.secrets, ref.Name, &corev1.Secret{})
		if err != nil || secret == nil {
			return nil, fmt.Sprintf("Secret %s/%s", o.namespace, ref.Name), err
		}
		if value, ok := secret.Data[ref.Key]; ok {
			return value, "", nil
		}
		return nil, fmt.Sprintf("key %s of Secret %s/%s", ref.Key, o.namespace, ref.Name), nil
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		found, err := get(ctx, o, &o.maps, ref.Name, &corev1.ConfigMap{})
		if err != nil || found == nil {
			return nil, fmt.Sprintf("ConfigMap %s/%s", o.namespace, ref.Name), err
		}
		if value, ok := found.Data[ref.Key]; ok {
			return []byte(value), "", nil
		}
		if value, ok := found.BinaryData[ref.Key]; ok {
			return value, "", nil
		}
		return nil, fmt.Sprintf("key %s of ConfigMap %s/%s", ref.Key, o.namespace, ref.Name), nil
	}
	return nil, "the source of its value", nil
}

// get returns the object, read once, or nil when it does not exist.
func get[T client.Object](ctx context.Context, o *objects, known *map[string]T, name string, into T) (T, error) {
	var none T
	if found, ok := (*known)[name]; ok {
		return found, nil
	}
	err := o.reader.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: name}, into)
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		into, err = none, nil
	}
	if err != nil {
		return none, err
	}
	if *known == nil {
		*known = map[string]T{}
	}
	(*known)[name] = into
	return into, nil
}
