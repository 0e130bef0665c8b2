package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/apiserver/internal/convert"
	"github.com/naeel/sless/apiserver/internal/resources"
)

// hello is the smallest function.
func hello(name string) rest.Function {
	return rest.Function{Name: name, Runtime: "python3.11", Source: &rest.Source{Inline: map[string]string{"handler.py": "def handle(event): return 1"}}}
}

// problemOf returns the problem that err is.
func problemOf(t *testing.T, err error) *rest.Problem {
	t.Helper()
	problem, ok := errors.AsType[*rest.Problem](err)
	if !ok {
		t.Fatalf("got %v, want a problem", err)
	}
	return problem
}

func wantCode(t *testing.T, err error, status int, code string) {
	t.Helper()
	if problem := problemOf(t, err); problem.Status != status || problem.Code != code || problem.RequestID == "" {
		t.Errorf("got %v, want %d %s", problem, status, code)
	}
}

func must[T any](t testing.TB) func(T, error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestFunctionLife(t *testing.T) {
	tenant := newTenant(t)
	functions := tenant.Functions(tenant.namespace)
	ctx := t.Context()
	made := must[rest.Stored[rest.Function]](t)(functions.Create(ctx, hello("hello")))
	if made.ETag == "" || made.Object.UID == "" || *made.Object.TimeoutSec != 60 || made.Object.Entrypoint != "handler.handle" {
		t.Errorf("got %+v", made)
	}
	if _, err := functions.Create(ctx, hello("hello")); !rest.IsAlreadyExists(err) {
		t.Errorf("again: got %v", err)
	}
	got := must[rest.Stored[rest.Function]](t)(functions.Get(ctx, "hello"))
	if diff := cmp.Diff(made, got); diff != "" {
		t.Errorf("read is not what was made:\n%s", diff)
	}
	// What was read can be written back: read-only fields are passed over.
	back := must[rest.Stored[rest.Function]](t)(functions.Replace(ctx, "hello", got.Object))
	if back.ETag != got.ETag || back.Object.Generation != got.Object.Generation {
		t.Errorf("writing back what was read has changed something: %+v", back)
	}
	changed := must[rest.Stored[rest.Function]](t)(functions.Patch(ctx, "hello", map[string]any{"env": map[string]any{"A": "b"}, "memory_mb": 128, "cpu": 0.5}))
	if changed.Object.Env["A"] != "b" || *changed.Object.MemoryMB != 128 || *changed.Object.CPU != 0.5 || changed.ETag == got.ETag {
		t.Errorf("patched: %+v", changed)
	}
	cleared := must[rest.Stored[rest.Function]](t)(functions.Patch(ctx, "hello", map[string]any{"env": map[string]any{"A": nil}, "memory_mb": nil}))
	if len(cleared.Object.Env) != 0 || cleared.Object.MemoryMB != nil || *cleared.Object.CPU != 0.5 {
		t.Errorf("cleared: %+v", cleared)
	}
	if err := functions.Delete(ctx, "hello", rest.WaitGone(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := functions.Get(ctx, "hello"); !rest.IsNotFound(err) {
		t.Errorf("deleted: got %v", err)
	}
	if err := functions.Delete(ctx, "hello"); !rest.IsNotFound(err) {
		t.Errorf("deleted twice: got %v", err)
	}
}

func TestReplaceLeavesAloneWhatOthersSet(t *testing.T) {
	tenant := newTenant(t)
	functions := tenant.Functions(tenant.namespace)
	ctx := t.Context()
	first := hello("hello")
	first.Replicas, first.Labels, first.SecretEnv = new(int32(3)), map[string]string{"team": "shop"}, map[string]string{"TOKEN": "s3cr3t"}
	first.RestartedAt, first.Env = "now", map[string]string{"A": "b"}
	must[rest.Stored[rest.Function]](t)(functions.Replace(ctx, "hello", first))
	fn := &v1alpha1.Function{}
	if err := cluster.client.Get(ctx, tenant.key("hello"), fn); err != nil {
		t.Fatal(err)
	}
	fn.Annotations["example.org/by"] = "somebody"
	fn.Finalizers = append(fn.Finalizers, "example.org/keep")
	if err := cluster.client.Update(ctx, fn); err != nil {
		t.Fatal(err)
	}
	got := must[rest.Stored[rest.Function]](t)(functions.Replace(ctx, "hello", hello("")))
	if *got.Object.Replicas != 3 || got.Object.Labels["team"] != "shop" || got.Object.RestartedAt != "now" || len(got.Object.Env) != 0 {
		t.Errorf("got %+v", got.Object)
	}
	if diff := cmp.Diff([]string{"TOKEN"}, got.Object.SecretKeys); diff != "" {
		t.Error(diff)
	}
	if err := cluster.client.Get(ctx, tenant.key("hello"), fn); err != nil {
		t.Fatal(err)
	}
	if fn.Annotations["example.org/by"] != "somebody" || len(fn.Finalizers) != 1 {
		t.Errorf("annotations %v, finalizers %v", fn.Annotations, fn.Finalizers)
	}
	fn.Finalizers = nil
	if err := cluster.client.Update(ctx, fn); err != nil {
		t.Fatal(err)
	}
	empty := hello("")
	empty.Labels, empty.SecretEnv = map[string]string{}, map[string]string{}
	got = must[rest.Stored[rest.Function]](t)(functions.Replace(ctx, "hello", empty))
	if len(got.Object.Labels) != 0 || len(got.Object.SecretKeys) != 0 || *got.Object.Replicas != 3 {
		t.Errorf("emptied: %+v", got.Object)
	}
}

func TestPreconditions(t *testing.T) {
	tenant := newTenant(t)
	functions := tenant.Functions(tenant.namespace)
	ctx := t.Context()
	_, err := functions.Replace(ctx, "hello", hello(""), rest.IfMatch("*"))
	wantCode(t, err, 412, rest.CodePreconditionFailed)
	first := must[rest.Stored[rest.Function]](t)(functions.Replace(ctx, "hello", hello(""), rest.IfAbsent()))
	_, err = functions.Replace(ctx, "hello", hello(""), rest.IfAbsent())
	wantCode(t, err, 412, rest.CodePreconditionFailed)

	setReady(t, tenant.key("hello"), metav1.ConditionTrue)
	second := must[rest.Stored[rest.Function]](t)(functions.Patch(ctx, "hello", map[string]any{"code_hash": "2"}, rest.IfMatch(first.ETag)))
	if second.ETag == first.ETag {
		t.Error("a change has not changed the ETag")
	}
	_, err = functions.Patch(ctx, "hello", map[string]any{"code_hash": "3"}, rest.IfMatch(first.ETag))
	wantCode(t, err, 412, rest.CodePreconditionFailed)
	wantCode(t, functions.Delete(ctx, "hello", rest.IfMatch(first.ETag)), 412, rest.CodePreconditionFailed)
	if err := functions.Delete(ctx, "hello", rest.IfMatch(second.ETag)); err != nil {
		t.Error(err)
	}
}

// setReady writes the status that the operator would write for the present generation.
func setReady(t *testing.T, name types.NamespacedName, status metav1.ConditionStatus) {
	t.Helper()
	err := eventually(func() error {
		fn := &v1alpha1.Function{}
		if err := cluster.client.Get(t.Context(), name, fn); err != nil {
			return err
		}
		fn.Status.Phase, fn.Status.ObservedGeneration = v1alpha1.FunctionReady, fn.Generation
		if status != metav1.ConditionTrue {
			fn.Status.Phase = v1alpha1.FunctionFailed
		}
		fn.Status.CodeHash = fn.Spec.CodeHash
		fn.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.Ready, Status: status, Reason: "Test", Message: "written by a test", ObservedGeneration: fn.Generation, LastTransitionTime: metav1.Now(),
		}}
		return cluster.client.Status().Update(t.Context(), fn)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWaitReady(t *testing.T) {
	tenant := newTenant(t)
	functions := tenant.Functions(tenant.namespace)
	for name, status := range map[string]metav1.ConditionStatus{"good": metav1.ConditionTrue, "bad": metav1.ConditionFalse} {
		answered := make(chan rest.Stored[rest.Function], 1)
		go func() {
			stored, err := functions.Replace(t.Context(), name, hello(""), rest.WaitReady(patience))
			if err != nil {
				t.Error(err)
			}
			answered <- stored
		}()
		setReady(t, tenant.key(name), status)
		if stored := <-answered; stored.Object.Status.Ready != string(status) {
			t.Errorf("%s: answered %+v", name, stored.Object.Status)
		}
	}
	// Nobody makes this one ready: what there is is answered when the time is up, and a wait that is not known is refused.
	began := time.Now()
	stored := must[rest.Stored[rest.Function]](t)(functions.Patch(t.Context(), "good", map[string]any{"code_hash": "x"}, rest.WaitReady(time.Second)))
	if stored.Object.CodeHash != "x" || time.Since(began) < time.Second {
		t.Errorf("after %s: %+v", time.Since(began), stored.Object)
	}
}

func TestSecretEnvIsKeptInSecretsOfItsOwn(t *testing.T) {
	tenant := newTenant(t)
	functions := tenant.Functions(tenant.namespace)
	ctx := t.Context()
	fn := hello("hello")
	fn.SecretEnv = map[string]string{"TOKEN": "s3cr3t", "OTHER": "value"}
	made := must[rest.Stored[rest.Function]](t)(functions.Create(ctx, fn))
	if made.Object.SecretEnv != nil {
		t.Error("the values came back")
	}
	first := secretOf(t, tenant, "TOKEN")
	if first.Type != resources.EnvSecretType || first.Immutable == nil || !*first.Immutable || string(first.Data["TOKEN"]) != "s3cr3t" ||
		len(first.OwnerReferences) != 1 || string(first.OwnerReferences[0].UID) != made.Object.UID {
		t.Errorf("Secret %+v", first)
	}
	same := must[rest.Stored[rest.Function]](t)(functions.Replace(ctx, "hello", fn))
	if again := secretOf(t, tenant, "TOKEN"); again.Name != first.Name || same.ETag != made.ETag {
		t.Error("the same values made another Secret")
	}
	patched := must[rest.Stored[rest.Function]](t)(functions.Patch(ctx, "hello", map[string]any{"secret_env": map[string]any{"TOKEN": "n3w"}}))
	second := secretOf(t, tenant, "TOKEN")
	if second.Name == first.Name || string(second.Data["TOKEN"]) != "n3w" || patched.ETag == made.ETag {
		t.Errorf("patched: Secret %s %v, was %s", second.Name, second.Data, first.Name)
	}
	if other := secretOf(t, tenant, "OTHER"); string(other.Data["OTHER"]) != "value" {
		t.Errorf("the variable that has not changed: %v", other.Data)
	}
	less := must[rest.Stored[rest.Function]](t)(functions.Patch(ctx, "hello", map[string]any{"secret_env": map[string]any{"OTHER": nil}}))
	if diff := cmp.Diff([]string{"TOKEN"}, less.Object.SecretKeys); diff != "" {
		t.Error(diff)
	}
	cleared := must[rest.Stored[rest.Function]](t)(functions.Patch(ctx, "hello", map[string]any{"secret_env": nil}))
	if len(cleared.Object.SecretKeys) != 0 {
		t.Errorf("cleared: %v", cleared.Object.SecretKeys)
	}
}

// secretOf returns the Secret that the function hello takes a variable from.
func secretOf(t *testing.T, tenant *tenant, variable string) *corev1.Secret {
	t.Helper()
	fn := &v1alpha1.Function{}
	secret := &corev1.Secret{}
	if err := cluster.client.Get(t.Context(), tenant.key("hello"), fn); err != nil {
		t.Fatal(err)
	}
	for _, env := range fn.Spec.Env {
		if env.Name == variable {
			if err := cluster.client.Get(t.Context(), tenant.key(env.ValueFrom.SecretKeyRef.Name), secret); err != nil {
				t.Fatal(err)
			}
		}
	}
	return secret
}

func TestASecretThatWasReplacedIsDeletedAndNoOther(t *testing.T) {
	own, end := startOwn(t, "")
	tenant := newTenant(t)
	ctx := t.Context()
	functions := clientOf(t, own, rest.Config{Token: tenant.token}).Functions(tenant.namespace)
	fn := hello("hello")
	fn.SecretEnv = map[string]string{"TOKEN": "s3cr3t"}
	must[rest.Stored[rest.Function]](t)(functions.Create(ctx, fn))
	old := secretOf(t, tenant, "TOKEN")
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.namespace, Name: "theirs"}, StringData: map[string]string{"A": "theirs"}}
	if err := cluster.client.Create(ctx, theirs); err != nil {
		t.Fatal(err)
	}
	// Somebody claims that a Secret of their own is one of sless.
	forged := &v1alpha1.Function{}
	if err := cluster.client.Get(ctx, tenant.key("hello"), forged); err != nil {
		t.Fatal(err)
	}
	forged.Annotations[convert.SecretEnvAnnotation] = `{"A":"x","TOKEN":"x"}`
	forged.Spec.Env = append(forged.Spec.Env, v1alpha1.EnvVar{Name: "A", ValueFrom: &v1alpha1.EnvVarSource{SecretKeyRef: &v1alpha1.KeyRef{Name: "theirs", Key: "A"}}})
	if err := cluster.client.Update(ctx, forged); err != nil {
		t.Fatal(err)
	}
	must[rest.Stored[rest.Function]](t)(functions.Patch(ctx, "hello", map[string]any{"secret_env": map[string]any{"A": "mine", "TOKEN": "n3w"}}))
	now := secretOf(t, tenant, "TOKEN")
	if now.Name == "theirs" || now.Name == old.Name || string(now.Data["A"]) != "mine" {
		t.Errorf("Secret %s %v", now.Name, now.Data)
	}
	end() // what was to be done later is done now
	if err := <-own.ended; err != nil {
		t.Error(err)
	}
	if err := cluster.client.Get(ctx, tenant.key(old.Name), old); !apierrors.IsNotFound(err) {
		t.Errorf("the old Secret: %v", err)
	}
	for _, name := range []string{"theirs", now.Name} {
		if err := cluster.client.Get(ctx, tenant.key(name), &corev1.Secret{}); err != nil {
			t.Errorf("Secret %s: %v", name, err)
		}
	}
}

func TestAFunctionThatIsRefusedLeavesNoSecret(t *testing.T) {
	tenant := newTenant(t)
	fn := hello("hello")
	fn.SecretEnv, fn.TimeoutSec = map[string]string{"TOKEN": "s3cr3t"}, new(int32(4000))
	_, err := tenant.Functions(tenant.namespace).Create(t.Context(), fn)
	problem := problemOf(t, err)
	if problem.Status != 422 || len(problem.Errors) != 1 || problem.Errors[0].Location != "body.timeout_sec" || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("got %v", err)
	}
	secrets := &corev1.SecretList{}
	if err := cluster.client.List(context.Background(), secrets); err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets.Items {
		if secret.Namespace == tenant.namespace {
			t.Errorf("there is a Secret %s", secret.Name)
		}
	}
	if err := cluster.client.Get(t.Context(), tenant.key("hello"), &v1alpha1.Function{}); !apierrors.IsNotFound(err) {
		t.Errorf("the function: %v", err)
	}
}
