package admission

import (
	"context"
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

const apiserverAccount = "system:serviceaccount:sless-system:apiserver"

func envSecret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: in(namespace, name), Type: "sless.io/function-env", Data: map[string][]byte{"A": []byte("a")}}
}

func leaseNamed(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: in(names.SystemNamespace, name)}
}

// TestAPIServerDoesItsWork goes through what the apiserver writes, with the rights it has.
func TestAPIServerDoesItsWork(t *testing.T) {
	apiserver := as(t, apiserverAccount, "system:serviceaccounts")
	user := namespace(t, "rest-")
	function, kept := functionIn(user), envSecret(user, "f-env-12345678")
	for _, object := range []client.Object{function, kept, triggerIn(user)} {
		eventually(t, func(ctx context.Context) error { return client.IgnoreAlreadyExists(apiserver.Create(ctx, object)) })
	}
	owned := kept.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "sless.io/v1alpha1", Kind: "Function", Name: "f", UID: function.UID}}
	if err := apiserver.Patch(t.Context(), owned, client.MergeFrom(kept)); err != nil {
		t.Errorf("set the owner of a Secret: %v", err)
	}
	for _, object := range []client.Object{owned, function} {
		if err := apiserver.Delete(t.Context(), object); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	note := leaseNamed("secret-env-0123")
	eventually(t, func(ctx context.Context) error { return client.IgnoreAlreadyExists(apiserver.Create(ctx, note)) })
	if err := apiserver.Delete(t.Context(), note); err != nil {
		t.Errorf("delete a note: %v", err)
	}
	if err := apiserver.Get(t.Context(), client.ObjectKeyFromObject(kept), kept); !apierrors.IsForbidden(err) {
		t.Errorf("it may read a Secret: %v", err)
	}
}

// TestAPIServerReadsLogsWhereTheyAre asks what it may read of pods: where functions run and where builds do, and nowhere else.
func TestAPIServerReadsLogsWhereTheyAre(t *testing.T) {
	operator := asOperator(t)
	user := namespace(t, "rest-logs-")
	own := ownNamespace(t, operator, names.FunctionNamespace(user))
	eventually(t, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(operator.Create(ctx, bindingFor(own, "apiserver")))
	})
	for where, want := range map[string]bool{own: true, names.BuildNamespace: true, user: false, names.SystemNamespace: false, "kube-system": false} {
		for _, right := range [][3]string{{"list", "pods", ""}, {"get", "pods", ""}, {"get", "pods", "log"}} {
			eventually(t, func(ctx context.Context) error {
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User:               apiserverAccount,
					ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: where, Verb: right[0], Resource: right[1], Subresource: right[2]},
				}}
				err := server.client.Create(ctx, review)
				if err == nil && review.Status.Allowed != want {
					err = fmt.Errorf("%v in %s: %v, want %v", right, where, review.Status.Allowed, want)
				}
				return err
			})
		}
	}
}

// TestAPIServerIsConfined tries what the apiserver must not do even if a role let it.
func TestAPIServerIsConfined(t *testing.T) {
	apiserver := as(t, apiserverAccount, "system:masters")
	user := namespace(t, "rest-confined-")
	theirs := secret(user)
	function := functionIn(user)
	leader := leaseNamed("leader")
	for _, object := range []client.Object{theirs, function, leader} {
		if err := server.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "x", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"},
	}}
	eventually(t, func(ctx context.Context) error { return apiserver.Create(ctx, review.DeepCopy()) })
	patched := theirs.DeepCopy()
	patched.Labels = map[string]string{"a": "b"}
	function.Status.Phase = v1alpha1.FunctionReady
	other := secret(user)
	other.Name = "other"
	for about, attempt := range map[string]func(context.Context) error{
		"make another Secret": creating(apiserver, other),
		"change a Secret": func(ctx context.Context) error {
			return apiserver.Patch(ctx, patched.DeepCopy(), client.MergeFrom(theirs), client.DryRunAll)
		},
		"patch nothing in one": func(ctx context.Context) error {
			return apiserver.Patch(ctx, theirs.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte("{}")), client.DryRunAll)
		},
		"delete a Secret": deleting(apiserver, theirs),
		"write a status": func(ctx context.Context) error {
			return apiserver.Status().Update(ctx, function.DeepCopy(), client.DryRunAll)
		},
		"make a ConfigMap":       creating(apiserver, &corev1.ConfigMap{ObjectMeta: in(user, "c")}),
		"make another Lease":     creating(apiserver, leaseNamed("other")),
		"take the leader's away": deleting(apiserver, leader),
		"make a ServiceAccount":  creating(apiserver, &corev1.ServiceAccount{ObjectMeta: in(user, "a")}),
	} {
		t.Run(about, func(t *testing.T) { refused(t, attempt, "the apiserver may not write") })
	}
}
