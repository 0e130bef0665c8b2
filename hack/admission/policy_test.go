package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

const operatorAccount = "system:serviceaccount:sless-system:operator"

// asOperator returns a client that speaks as the operator's account, with the rights that the install gives it.
func asOperator(t *testing.T) client.Client { return as(t, operatorAccount, "system:serviceaccounts") }

// asMightyOperator returns one whose account has every right there is, as after a mistake in a role: only the policy holds it then.
func asMightyOperator(t *testing.T) client.Client { return as(t, operatorAccount, "system:masters") }

func as(t *testing.T, user string, groups ...string) client.Client {
	t.Helper()
	config := rest.CopyConfig(server.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := clientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var managed = map[string]string{names.ManagedByLabel: names.ManagedBy}

func in(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func namespaceNamed(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func tenantBinding(namespace string) *rbacv1.RoleBinding { return bindingFor(namespace, "operator") }

// bindingFor is what the operator makes for an account of the platform in a tenant's namespace.
func bindingFor(namespace, account string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: in(namespace, "sless-"+account),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "sless-" + account + "-tenant"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: names.SystemNamespace, Name: account}},
	}
}

func functionIn(namespace string) *v1alpha1.Function {
	return &v1alpha1.Function{ObjectMeta: in(namespace, "f"), Spec: v1alpha1.FunctionSpec{
		Runtime: "python3.11", Source: v1alpha1.Source{Inline: map[string]v1alpha1.InlineFile{"handler.py": "x"}},
	}}
}

func triggerIn(namespace string) *v1alpha1.Trigger {
	return &v1alpha1.Trigger{ObjectMeta: in(namespace, "t"), Spec: v1alpha1.TriggerSpec{
		FunctionRef: v1alpha1.FunctionRef{Name: "f"}, Type: v1alpha1.TriggerHTTP,
	}}
}

func secret(namespace string) *corev1.Secret { return &corev1.Secret{ObjectMeta: in(namespace, "s")} }

// ownNamespace makes a namespace as the operator does: with its label, and with the role bound in it.
func ownNamespace(t *testing.T, operator client.Client, name string) string {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		err := operator.Create(ctx, namespaceNamed(name, managed))
		return client.IgnoreAlreadyExists(err)
	})
	eventually(t, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(operator.Create(ctx, tenantBinding(name)))
	})
	return name
}

// TestOperatorDoesItsWork goes through what the operator writes, with the rights it has.
func TestOperatorDoesItsWork(t *testing.T) {
	operator := asOperator(t)
	user := namespace(t, "work-")
	own := ownNamespace(t, operator, names.FunctionNamespace(user))
	function := functionIn(user)
	if err := server.client.Create(t.Context(), function); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{
		secret(own), bindingFor(own, "apiserver"),
		&networkingv1.NetworkPolicy{ObjectMeta: in(own, "p")},
		ingress(),
		&corev1.ConfigMap{ObjectMeta: in(names.BuildNamespace, "c")},
		eventIn(user),
	} {
		eventually(t, func(ctx context.Context) error { return operator.Create(ctx, object, client.DryRunAll) })
	}
	before := function.DeepCopy()
	function.Finalizers = []string{names.Finalizer}
	eventually(t, func(ctx context.Context) error { return operator.Patch(ctx, function, client.MergeFrom(before)) })
	before = function.DeepCopy()
	function.Status.Phase = v1alpha1.FunctionPending
	if err := operator.Status().Patch(t.Context(), function, client.MergeFrom(before)); err != nil {
		t.Errorf("write a status: %v", err)
	}
	if err := operator.Delete(t.Context(), namespaceNamed(own, nil)); err != nil {
		t.Errorf("delete a namespace of its own: %v", err)
	}
}

// TestOperatorIsConfined tries what the operator must not do even if a role let it.
func TestOperatorIsConfined(t *testing.T) {
	operator := asMightyOperator(t)
	user := namespace(t, "confined-")
	own := ownNamespace(t, operator, names.FunctionNamespacePrefix+"confined")
	function := functionIn(user)
	if err := server.client.Create(t.Context(), function); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: in(user, "other")}
	if err := server.client.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	changed := function.DeepCopy()
	changed.Spec.Replicas = new(int32(3))
	otherRole, otherSubject, crossed := tenantBinding(own), tenantBinding(own), bindingFor(own, "apiserver")
	crossed.RoleRef.Name = "sless-operator-tenant"
	otherRole.Name, otherRole.RoleRef.Name = "a", "cluster-admin"
	otherSubject.Name, otherSubject.Subjects[0].Name = "b", "gateway"
	relabelled := namespaceNamed(own, map[string]string{names.ManagedByLabel: "another"})
	token := func(ctx context.Context) error {
		return operator.SubResource("token").Create(ctx, account, &authenticationv1.TokenRequest{}, client.DryRunAll)
	}
	const elsewhere = "it is not a namespace sless-fn-*"
	for about, c := range map[string]struct {
		do      func(context.Context) error
		refusal string
	}{
		"a Secret in a user's namespace":       {creating(operator, secret(user)), "may not write secrets in namespace " + user + ": " + elsewhere},
		"a Deployment in kube-system":          {creating(operator, deployment("kube-system")), "may not write deployments in namespace kube-system"},
		"a role of the cluster":                {creating(operator, &rbacv1.ClusterRole{ObjectMeta: in("", "mighty")}), "may not write clusterroles of the cluster"},
		"a node":                               {creating(operator, &corev1.Node{ObjectMeta: in("", "n")}), "may not write nodes of the cluster"},
		"an ordinary namespace":                {creating(operator, namespaceNamed("ordinary", managed)), "only namespaces named sless-fn-*"},
		"a namespace without the label":        {creating(operator, namespaceNamed("sless-fn-bare", nil)), "only namespaces named sless-fn-*"},
		"taking the label away":                {updating(operator, relabelled), "only namespaces named sless-fn-*"},
		"deleting a user's namespace":          {deleting(operator, namespaceNamed(user, nil)), "only namespaces named sless-fn-*"},
		"binding itself in a user's namespace": {creating(operator, tenantBinding(user)), "may bind only the ClusterRole sless-operator-tenant"},
		"binding itself in its home":           {creating(operator, tenantBinding(names.SystemNamespace)), "may bind only the ClusterRole sless-operator-tenant"},
		"binding another role":                 {creating(operator, otherRole), "may bind only the ClusterRole sless-operator-tenant"},
		"binding another account":              {creating(operator, otherSubject), "may bind only the ClusterRole sless-operator-tenant"},
		"binding the apiserver its own role":   {creating(operator, crossed), "may bind only the ClusterRole sless-operator-tenant"},
		"binding the apiserver elsewhere":      {creating(operator, bindingFor(user, "apiserver")), "may bind only the ClusterRole sless-operator-tenant"},
		"changing what a user wrote":           {updating(operator, changed), "only the status and the metadata of Functions"},
		"deleting what a user wrote":           {deleting(operator, function), "only the status and the metadata of Functions"},
		"making what only users make":          {creating(operator, triggerIn(user)), "only the status and the metadata of Functions"},
		"a token of another account":           {token, "may not write serviceaccounts"},
	} {
		t.Run(about, func(t *testing.T) { refused(t, c.do, c.refusal) })
	}
}

// TestReservedNames holds that nobody else makes what sless trusts, or puts functions beside what must be kept from them.
func TestReservedNames(t *testing.T) {
	operator := asMightyOperator(t)
	own := ownNamespace(t, operator, names.FunctionNamespacePrefix+"reserved")
	anybody := server.client
	job := &v1alpha1.FunctionJob{ObjectMeta: in("sless-build", "j"), Spec: v1alpha1.FunctionJobSpec{FunctionRef: v1alpha1.FunctionRef{Name: "f"}}}
	stolen := namespaceNamed(own, nil)
	for about, c := range map[string]struct {
		do      func(context.Context) error
		refusal string
	}{
		"a namespace of the prefix":    {creating(anybody, namespaceNamed("sless-fn-mine", nil)), "names beginning with sless-fn- are reserved"},
		"one with the label":           {creating(anybody, namespaceNamed("sless-fn-mine", managed)), "names beginning with sless-fn- are reserved"},
		"taking the label":             {updating(anybody, stolen), "the label app.kubernetes.io/managed-by of a namespace sless-fn-*"},
		"a Trigger in kube-system":     {creating(anybody, triggerIn("kube-system")), "no Trigger may be made in namespace kube-system"},
		"a FunctionJob in sless-build": {creating(anybody, job), "no FunctionJob may be made in namespace sless-build"},
		"a Function in a sless-fn-*":   {creating(anybody, functionIn(own)), "no Function may be made in namespace " + own},
	} {
		t.Run(about, func(t *testing.T) { refused(t, c.do, c.refusal) })
	}
	if err := anybody.Create(t.Context(), namespaceNamed("slessons", managed), client.DryRunAll); err != nil {
		t.Errorf("a namespace that only resembles sless's: %v", err)
	}
	annotated := namespaceNamed(own, managed)
	annotated.Annotations = map[string]string{"example.org/note": "seen"}
	if err := anybody.Update(t.Context(), annotated, client.DryRunAll); err != nil {
		t.Errorf("annotating a namespace of sless's: %v", err)
	}
	if err := anybody.Create(t.Context(), triggerIn(namespace(t, "slessons-")), client.DryRunAll); err != nil {
		t.Errorf("a Trigger in a namespace that only resembles sless's: %v", err)
	}
}

func creating(c client.Client, object client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		return c.Create(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll)
	}
}

func updating(c client.Client, object client.Object) func(context.Context) error {
	return func(ctx context.Context) error { return c.Update(ctx, object, client.DryRunAll) }
}

func deleting(c client.Client, object client.Object) func(context.Context) error {
	return func(ctx context.Context) error { return c.Delete(ctx, object, client.DryRunAll) }
}

// refused waits until a policy refuses: the API server begins to apply one a moment after it has it. All is done as a dry run.
func refused(t *testing.T, do func(context.Context) error, refusal string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		err := do(ctx)
		switch {
		case err == nil:
			return errors.New("let in")
		case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), refusal):
			return fmt.Errorf("want Forbidden with %q, got: %w", refusal, err)
		}
		return nil
	})
}

func eventIn(namespace string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: in(namespace, "e"), EventTime: metav1.NowMicro(), Type: "Normal", Action: "Build", Reason: "Built",
		Regarding:           corev1.ObjectReference{APIVersion: "sless.io/v1alpha1", Kind: "Function", Namespace: namespace, Name: "f"},
		ReportingController: "sless.io/operator", ReportingInstance: "operator-0",
	}
}

func ingress() *networkingv1.Ingress {
	backend := &networkingv1.IngressServiceBackend{Name: "gateway", Port: networkingv1.ServiceBackendPort{Name: "public"}}
	return &networkingv1.Ingress{ObjectMeta: in(names.SystemNamespace, "i"), Spec: networkingv1.IngressSpec{
		DefaultBackend: &networkingv1.IngressBackend{Service: backend},
	}}
}

func deployment(namespace string) *appsv1.Deployment {
	labels := map[string]string{"a": "b"}
	return &appsv1.Deployment{ObjectMeta: in(namespace, "d"), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}}}
}
