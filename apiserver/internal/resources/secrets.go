package resources

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/apiserver/internal/convert"
	"github.com/naeel/sless/apiserver/internal/problem"
	"github.com/naeel/sless/apiserver/internal/request"
	"github.com/naeel/sless/apiserver/internal/store"
)

// EnvSecretType is the type of the Secrets that hold secret_env. No other Secret is ever read, written or deleted.
const EnvSecretType corev1.SecretType = "sless.io/function-env"

// retireAfter is how long a Secret that was replaced is kept for an operator that has not seen the change yet.
const retireAfter = time.Minute

// maxSecretEnv is the largest sum of names and values: less than what the cluster stores in one Secret.
const maxSecretEnv = 512 << 10

// envSecrets keeps the values of secret_env in Secrets: immutable, one for each change, owned by their Function.
type envSecrets struct {
	store *store.Store
	// later runs a function after a while, or at once when the server ends.
	later func(time.Duration, func(context.Context))
}

// write is the hook of functions: it puts the values into a new Secret when they have changed, and lets next refer to it.
func (e *envSecrets) write(ctx context.Context, c change[rest.Function, *v1alpha1.Function]) (settle, error) {
	current := ""
	var values map[string]string
	if !c.isNew {
		var err error
		if current, values, err = e.read(ctx, c.now); err != nil {
			return nil, err
		}
	}
	if c.wire.SecretEnv == nil && !c.patch {
		c.wire.SecretEnv = values
	}
	if clashes := convert.Clashes(c.wire); len(clashes) > 0 {
		return nil, problem.Invalid(clashes...)
	}
	if len(c.wire.SecretEnv) > 0 && maps.Equal(c.wire.SecretEnv, values) {
		convert.SetEnvSecret(c.wire, c.next, current)
		return nil, nil
	}
	made, err := e.make(ctx, c)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, written client.Object, err error) {
		e.settle(ctx, made, current, written, err)
	}, nil
}

// fill adds the values of secret_env.
func (e *envSecrets) fill(ctx context.Context, fn *v1alpha1.Function, wire *rest.Function) error {
	_, values, err := e.read(ctx, fn)
	wire.SecretEnv = values
	return err
}

// read returns the Secret that holds fn's values, and them. When it is lost the values are empty.
func (e *envSecrets) read(ctx context.Context, fn *v1alpha1.Function) (string, map[string]string, error) {
	name := fn.Annotations[convert.EnvSecretAnnotation]
	shown := convert.Function(fn).SecretKeys
	if name == "" || len(shown) == 0 {
		return "", nil, nil
	}
	values := map[string]string{}
	for _, variable := range shown {
		values[variable] = ""
	}
	secret := &corev1.Secret{}
	err := e.store.Get(ctx, types.NamespacedName{Namespace: fn.Namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err), err == nil && secret.Type != EnvSecretType:
		return name, values, nil
	case err != nil:
		return "", nil, fmt.Errorf("get Secret %s/%s: %w", fn.Namespace, name, err)
	}
	for _, variable := range shown {
		values[variable] = string(secret.Data[variable])
	}
	return name, values, nil
}

// make creates a Secret for the values, if there are any, and lets c.next refer to it.
func (e *envSecrets) make(ctx context.Context, c change[rest.Function, *v1alpha1.Function]) (*corev1.Secret, error) {
	if len(c.wire.SecretEnv) == 0 {
		convert.SetEnvSecret(c.wire, c.next, "")
		return nil, nil
	}
	size := 0
	data := map[string][]byte{}
	for name, value := range c.wire.SecretEnv {
		size += len(name) + len(value)
		data[name] = []byte(value)
	}
	if size > maxSecretEnv {
		return nil, problem.Invalid(rest.FieldError{Location: "body.secret_env", Message: "the values together must not be larger than 512 KiB"})
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.next.Namespace, Name: names.Child(c.next.Name, "env-"+strings.ToLower(rand.Text()[:8])),
			Labels: names.Labels("Function", c.next.Namespace, c.next.Name, c.next.UID),
		},
		Type: EnvSecretType, Immutable: new(true), Data: data,
	}
	convert.SetEnvSecret(c.wire, c.next, secret.Name)
	if !c.isNew {
		secret.OwnerReferences = ownedBy(c.now)
	}
	// A dry run of the Function first: a Secret is made only for one that the cluster takes.
	if err := e.dryRun(ctx, c); err != nil {
		return nil, err
	}
	if err := e.store.Client.Create(ctx, secret); err != nil {
		if apierrors.IsInvalid(err) {
			return nil, problem.Invalid(rest.FieldError{Location: "body.secret_env", Message: "names must be at most 253 letters, digits and _ . -"})
		}
		return nil, err
	}
	return secret, nil
}

func (e *envSecrets) dryRun(ctx context.Context, c change[rest.Function, *v1alpha1.Function]) error {
	trial := c.next.DeepCopy()
	if c.isNew {
		return e.store.Client.Create(ctx, trial, client.DryRunAll)
	}
	return e.store.Client.Update(ctx, trial, client.DryRunAll)
}

func ownedBy(fn *v1alpha1.Function) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Function", Name: fn.Name, UID: fn.UID}}
}

// settle deletes the Secret that is not needed: the new one when the Function could not be written, else, a little later, the old one.
func (e *envSecrets) settle(ctx context.Context, made *corev1.Secret, old string, written client.Object, err error) {
	log := request.From(ctx).Log
	ctx = context.WithoutCancel(ctx)
	if err != nil {
		if made != nil {
			if err := e.store.Client.Delete(ctx, made); err != nil {
				log.ErrorContext(ctx, "delete unused Secret", "namespace", made.Namespace, "name", made.Name, "error", err)
			}
		}
		return
	}
	fn, ok := written.(*v1alpha1.Function)
	if !ok {
		return
	}
	if made != nil && len(made.OwnerReferences) == 0 {
		owned := made.DeepCopy()
		owned.OwnerReferences = ownedBy(fn)
		owned.Labels = names.Labels("Function", fn.Namespace, fn.Name, fn.UID)
		if err := e.store.Client.Patch(ctx, owned, client.MergeFrom(made)); err != nil {
			log.ErrorContext(ctx, "set owner of Secret", "namespace", made.Namespace, "name", made.Name, "error", err)
		}
	}
	if old != "" {
		e.later(retireAfter, func(ctx context.Context) { e.retire(ctx, types.NamespacedName{Namespace: fn.Namespace, Name: old}) })
	}
}

// retire deletes a Secret that was replaced, unless it is somebody else's, or named by its Function again.
func (e *envSecrets) retire(ctx context.Context, name types.NamespacedName) {
	secret := &corev1.Secret{}
	if err := e.store.Get(ctx, name, secret); err != nil || secret.Type != EnvSecretType {
		return
	}
	fn := &v1alpha1.Function{}
	owner := types.NamespacedName{Namespace: name.Namespace, Name: secret.Labels[names.NameLabel]}
	if err := e.store.Get(ctx, owner, fn); err != nil || fn.Annotations[convert.EnvSecretAnnotation] == name.Name {
		return // with its Function gone it goes by its owner reference
	}
	_ = e.store.Client.Delete(ctx, secret) // it goes with its Function at the latest
}
