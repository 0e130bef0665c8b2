package resources

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/apiserver/internal/convert"
	"github.com/naeel/sless/apiserver/internal/problem"
	"github.com/naeel/sless/apiserver/internal/request"
	"github.com/naeel/sless/apiserver/internal/store"
)

// EnvSecretType is the type of the Secrets that hold secret_env. An admission policy holds that no other is written or deleted here.
const EnvSecretType corev1.SecretType = "sless.io/function-env"

// retireAfter is how long a Secret that was replaced is kept for an operator that has not seen the change yet.
const retireAfter = time.Minute

// maxSecretEnv is the largest sum of names and values: less than what the cluster stores in one Secret.
const maxSecretEnv = 512 << 10

// unchanged stands for a value that is in a Secret already. Nobody outside of this process can know it.
var unchanged = rand.Text()

// Secrets keeps the values of secret_env in Secrets: immutable, one for each change with what has changed, owned by their Function. It never
// reads one: a value that has not changed is known by its digest.
type Secrets struct {
	Store *store.Store
	// Key is for the digests, which others can see: without it they tell nothing.
	Key []byte
	// Later runs a function after a while, or at once when the server ends.
	Later func(time.Duration, func(context.Context))
}

// fill marks the values that are there.
func (e *Secrets) fill(fn *v1alpha1.Function, wire *rest.Function) {
	for name := range convert.SecretEnv(fn) {
		if wire.SecretEnv == nil {
			wire.SecretEnv = map[string]string{}
		}
		wire.SecretEnv[name] = unchanged
	}
}

// digest stands for a value, and is another for the same value elsewhere.
func (e *Secrets) digest(fn *v1alpha1.Function, variable, value string) string {
	encoded, _ := json.Marshal([]string{fn.Namespace, fn.Name, variable, value}) // strings always encode
	sum := hmac.New(sha256.New, e.Key)
	sum.Write(encoded)
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// write is the hook of functions: it puts values that have changed into a new Secret, and lets next refer to it.
func (e *Secrets) write(ctx context.Context, c change[rest.Function, *v1alpha1.Function]) (settle, error) {
	if clashes := convert.Clashes(c.wire); len(clashes) > 0 {
		return nil, problem.Invalid(clashes...)
	}
	before := map[string]convert.SecretVar{}
	if !c.isNew {
		before = convert.SecretEnv(c.now)
	}
	after, values := map[string]convert.SecretVar{}, map[string][]byte{}
	made := names.Child(c.next.Name, "env-"+strings.ToLower(rand.Text()[:8]))
	size := 0
	for variable, value := range c.wire.SecretEnv {
		was, has := before[variable]
		digest := e.digest(c.next, variable, value)
		if has && (value == unchanged || was.Digest == digest) {
			after[variable] = was
			continue
		}
		after[variable] = convert.SecretVar{Secret: made, Digest: digest}
		values[variable] = []byte(value)
		size += len(variable) + len(value)
	}
	if size > maxSecretEnv {
		return nil, problem.Invalid(rest.FieldError{Location: "body.secret_env", Message: "the values together must not be larger than 512 KiB"})
	}
	convert.SetSecretEnv(c.wire, c.next, after)
	secret, note, err := e.create(ctx, c, made, values)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, written client.Object, err error) {
		ctx = context.WithoutCancel(ctx)
		fn, ok := written.(*v1alpha1.Function)
		isWritten := err == nil && ok
		if secret != nil && e.settle(ctx, secret, fn, isWritten) == nil {
			_ = e.Store.Client.Delete(ctx, note) // else the sweep does what there is to do once more
		}
		if isWritten {
			for _, name := range gone(before, after) {
				e.Later(retireAfter, func(ctx context.Context) { e.retire(ctx, fn, name) })
			}
		}
	}, nil
}

// gone are the Secrets that no variable refers to any more.
func gone(before, after map[string]convert.SecretVar) []string {
	used := map[string]bool{}
	for _, at := range after {
		used[at.Secret] = true
	}
	var all []string
	for _, at := range before {
		if !used[at.Secret] {
			used[at.Secret] = true
			all = append(all, at.Secret)
		}
	}
	return all
}

// create makes a Secret of the values, and a note of it; nil when there are none. The Function is tried first: a Secret is made only for
// one that the cluster takes.
func (e *Secrets) create(ctx context.Context, c change[rest.Function, *v1alpha1.Function], name string, values map[string][]byte) (*corev1.Secret, *coordinationv1.Lease, error) {
	if len(values) == 0 {
		return nil, nil, nil
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.next.Namespace, Name: name, Labels: names.Labels("Function", c.next.Namespace, c.next.Name, c.next.UID),
		},
		Type: EnvSecretType, Immutable: new(true), Data: values,
	}
	trial := c.next.DeepCopy()
	var err error
	if c.isNew {
		err = e.Store.Client.Create(ctx, trial, client.DryRunAll)
	} else {
		secret.OwnerReferences = ownedBy(c.now)
		err = e.Store.Client.Update(ctx, trial, client.DryRunAll)
	}
	if err != nil {
		return nil, nil, err
	}
	note, err := e.note(ctx, c.next, name)
	if err != nil {
		return nil, nil, err
	}
	if err := e.Store.Client.Create(ctx, secret); err != nil {
		if apierrors.IsInvalid(err) {
			err = problem.Invalid(rest.FieldError{Location: "body.secret_env", Message: "names must be at most 253 letters, digits and _ . -"})
			_ = e.Store.Client.Delete(ctx, note) // the sweep finds it later
		}
		return nil, nil, err
	}
	return secret, note, nil
}

func ownedBy(fn *v1alpha1.Function) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Function", Name: fn.Name, UID: fn.UID}}
}

// settle deletes the new Secret when its Function could not be written, and else makes the Function its owner.
func (e *Secrets) settle(ctx context.Context, made *corev1.Secret, fn *v1alpha1.Function, isWritten bool) error {
	var err error
	doing := "set owner of Secret"
	switch {
	case !isWritten:
		doing = "delete unused Secret"
		err = client.IgnoreNotFound(e.Store.Client.Delete(ctx, made))
	case len(made.OwnerReferences) == 0:
		err = e.own(ctx, made, fn)
	}
	if err != nil {
		request.From(ctx).Log.ErrorContext(ctx, doing, "namespace", made.Namespace, "name", made.Name, "error", err)
	}
	return err
}

// retire deletes a Secret that was replaced, unless its name is none that is given here, or its Function refers to it again. With the
// Function gone it goes by its owner reference.
func (e *Secrets) retire(ctx context.Context, fn *v1alpha1.Function, name string) {
	const example = "00000000"
	if !strings.HasPrefix(name, strings.TrimSuffix(names.Child(fn.Name, "env-"+example), example)) {
		return
	}
	now := &v1alpha1.Function{}
	if err := e.Store.Get(ctx, client.ObjectKeyFromObject(fn), now); err != nil {
		return
	}
	if refersTo(now, name) {
		return
	}
	_ = e.Store.Client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: fn.Namespace, Name: name}}) // it goes with its Function at the latest
}
