package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
	"github.com/naeel/sless/operator/internal/testcluster"
)

var cluster testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c testcluster.Cluster) { cluster = c }))
}

// newTenants returns Tenants without a cache, and the file of their pull credentials.
func newTenants(t *testing.T) (*Tenants, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	write(t, file, `{"auths":{"registry.example.org":{}}}`)
	return &Tenants{Client: cluster.Client, PullConfigFile: file, Network: config.Network{AllowedCIDRs: []string{"10.1.2.0/24"}, DeniedCIDRs: []string{"10.1.2.128/25", "203.0.113.0/24", "2001:db8::/32"}}}, file
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newUser makes a user's namespace with a Function in it.
func newUser(t *testing.T) *corev1.Namespace {
	t.Helper()
	user := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "user-"}}
	create(t, user)
	create(t, &v1alpha1.Function{
		ObjectMeta: metav1.ObjectMeta{Name: "hello", Namespace: user.Name},
		Spec:       v1alpha1.FunctionSpec{Runtime: "python3.11", Source: v1alpha1.Source{Inline: map[string]v1alpha1.InlineFile{"handler.py": ""}}},
	})
	return user
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := cluster.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func get[T client.Object](t *testing.T, namespace, name string, into T) T {
	t.Helper()
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func ensure(t *testing.T, tenants *Tenants, user string) string {
	t.Helper()
	name, err := tenants.Ensure(t.Context(), user)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestEnsure(t *testing.T) {
	tenants, _ := newTenants(t)
	user := newUser(t)
	name := ensure(t, tenants, user.Name)
	if name != "sless-fn-"+user.Name {
		t.Errorf("name %s", name)
	}
	labels := get(t, "", name, &corev1.Namespace{}).Labels
	for label, want := range map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted",
		names.ManagedByLabel:                 names.ManagedBy,
		names.NamespaceLabel:                 user.Name,
		names.UIDLabel:                       string(user.UID),
	} {
		if labels[label] != want {
			t.Errorf("label %s is %q, want %q", label, labels[label], want)
		}
	}
	for _, want := range [][3]string{{roleBinding, Role, Account}, {logsBinding, APIServerRole, APIServerAccount}} {
		binding := get(t, name, want[0], &rbacv1.RoleBinding{})
		if binding.RoleRef.Name != want[1] || binding.Subjects[0].Name != want[2] || binding.Subjects[0].Namespace != names.SystemNamespace {
			t.Errorf("binding %+v", binding)
		}
	}
	secret := get(t, name, PullSecret, &corev1.Secret{})
	if secret.Type != corev1.SecretTypeDockerConfigJson || string(secret.Data[corev1.DockerConfigJsonKey]) != `{"auths":{"registry.example.org":{}}}` {
		t.Errorf("secret %+v", secret)
	}
	policy := get(t, name, networkPolicy, &networkingv1.NetworkPolicy{})
	got, err := json.MarshalIndent(policy.Spec, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "networkpolicy.json", strings.NewReplacer(name, "${made}", user.Name, "${user}").Replace(string(got)))
}

// A new version of the operator brings the namespaces that an older one has made up to what it knows.
func TestASweepBringsOldNamespacesUpToDate(t *testing.T) {
	old, file := newTenants(t)
	user := newUser(t)
	name := ensure(t, old, user.Name)
	if err := cluster.Client.Delete(t.Context(), get(t, name, logsBinding, &rbacv1.RoleBinding{})); err != nil {
		t.Fatal(err)
	}
	updated := &Tenants{Client: old.Client, PullConfigFile: file, Network: config.Network{AllowedCIDRs: []string{"10.1.3.0/24"}}}
	if err := updated.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	get(t, name, logsBinding, &rbacv1.RoleBinding{})
}

// The next process of the same version writes nothing, unless the credentials are others, and looks after what nobody may have changed
// within the hour all the same.
func TestANewProcessWritesNothing(t *testing.T) {
	before, file := newTenants(t)
	user := newUser(t)
	name := ensure(t, before, user.Name)
	changes := 0
	direct, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: testcluster.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	next := func() *Tenants {
		counting := interceptor.NewClient(direct, interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
				changes++
				return c.Apply(ctx, object, options...)
			},
		})
		return &Tenants{Client: counting, PullConfigFile: file, Network: before.Network}
	}
	after := next()
	ensure(t, after, user.Name)
	if changes != 0 {
		t.Errorf("%d objects are written again", changes)
	}
	if at := after.applied[user.Name].at; time.Since(at) > renewAfter || time.Since(at) < 0 {
		t.Errorf("it is taken to have been written at %s", at)
	}
	write(t, file, `{"auths":{"other.example.org":{}}}`)
	ensure(t, next(), user.Name)
	if got := string(get(t, name, PullSecret, &corev1.Secret{}).Data[corev1.DockerConfigJsonKey]); got != `{"auths":{"other.example.org":{}}}` {
		t.Errorf("pull credentials %s", got)
	}
	if err := cluster.Client.Delete(t.Context(), get(t, name, PullSecret, &corev1.Secret{})); err != nil {
		t.Fatal(err)
	}
	ensure(t, next(), user.Name)
	get(t, name, PullSecret, &corev1.Secret{})
}

// Whoever calls twice writes once; changed credentials are written; a changed object is written again when it is old.
func TestEnsureWritesWhatChanged(t *testing.T) {
	tenants, file := newTenants(t)
	user := newUser(t)
	name := ensure(t, tenants, user.Name)
	version := func() string { return get(t, name, PullSecret, &corev1.Secret{}).ResourceVersion }
	before := version()
	ensure(t, tenants, user.Name)
	if version() != before {
		t.Error("the second call wrote")
	}
	write(t, file, `{"auths":{"other.example.org":{}}}`)
	if err := tenants.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := string(get(t, name, PullSecret, &corev1.Secret{}).Data[corev1.DockerConfigJsonKey]); got != `{"auths":{"other.example.org":{}}}` {
		t.Errorf("pull credentials %s", got)
	}
	policy := get(t, name, networkPolicy, &networkingv1.NetworkPolicy{})
	if err := cluster.Client.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	last := tenants.applied[user.Name]
	last.at = time.Now().Add(-2 * renewAfter)
	tenants.applied[user.Name] = last
	ensure(t, tenants, user.Name)
	get(t, name, networkPolicy, &networkingv1.NetworkPolicy{})
}

func TestEnsureRefuses(t *testing.T) {
	tenants, file := newTenants(t)
	for _, namespace := range []string{"kube-system", "sless-system", "sless-fn-shop"} {
		if _, err := tenants.Ensure(t.Context(), namespace); !errors.Is(err, ErrNotAllowed) {
			t.Errorf("%s: got %v", namespace, err)
		}
	}
	user := newUser(t)
	foreign := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: names.FunctionNamespace(user.Name)}}
	create(t, foreign)
	if _, err := tenants.Ensure(t.Context(), user.Name); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("a namespace of somebody else: got %v", err)
	}
	if err := tenants.Release(t.Context(), user.Name); err != nil {
		t.Fatal(err)
	}
	if !get(t, "", foreign.Name, &corev1.Namespace{}).DeletionTimestamp.IsZero() {
		t.Error("a namespace of somebody else is deleted")
	}
	write(t, file, "no JSON")
	if _, err := tenants.Ensure(t.Context(), newUser(t).Name); err == nil {
		t.Error("bad pull credentials are taken")
	}
}

// A namespace that is left from an earlier one of the user's name goes, and nothing is made before.
func TestEnsureInheritsNothing(t *testing.T) {
	tenants, _ := newTenants(t)
	user := newUser(t)
	earlier := newNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: user.Name, UID: "earlier"}})
	create(t, earlier)
	for range 2 { // it is told to go, and then is going
		if _, err := tenants.Ensure(t.Context(), user.Name); !errors.Is(err, ErrTerminating) {
			t.Errorf("got %v", err)
		}
	}
	if get(t, "", earlier.Name, &corev1.Namespace{}).DeletionTimestamp.IsZero() {
		t.Error("the earlier namespace stays")
	}
}

func TestReleaseAndSweep(t *testing.T) {
	tenants, _ := newTenants(t)
	user := newUser(t)
	name := ensure(t, tenants, user.Name)
	goes := func() bool { return !get(t, "", name, &corev1.Namespace{}).DeletionTimestamp.IsZero() }
	job := &v1alpha1.FunctionJob{
		ObjectMeta: metav1.ObjectMeta{Name: "once", Namespace: user.Name},
		Spec:       v1alpha1.FunctionJobSpec{FunctionRef: v1alpha1.FunctionRef{Name: "hello"}},
	}
	create(t, job)
	for _, object := range []client.Object{&v1alpha1.Function{ObjectMeta: metav1.ObjectMeta{Name: "hello", Namespace: user.Name}}, job} {
		if err := tenants.Release(t.Context(), user.Name); err != nil {
			t.Fatal(err)
		}
		if goes() {
			t.Fatalf("the namespace goes before %T has", object)
		}
		if err := cluster.Client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if err := tenants.Sweep(t.Context()); err != nil { // a crash has kept Release from being called
		t.Fatal(err)
	}
	if !goes() {
		t.Error("the namespace stays")
	}
	if _, err := tenants.Ensure(t.Context(), user.Name); !errors.Is(err, ErrTerminating) {
		t.Errorf("while it goes: got %v", err)
	}
	if err := tenants.Release(t.Context(), "never-seen"); err != nil {
		t.Error(err)
	}
}

// What bounds the pods of a user's namespace bounds those of its functions, and follows it; without it the configuration does.
func TestLimits(t *testing.T) {
	tenants, _ := newTenants(t)
	quantity := resource.MustParse
	tenants.Limits = config.Tenants{
		ResourceQuota: &corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: quantity("20")}},
		LimitRange:    &corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: quantity("2")}}}},
	}
	user := newUser(t)
	made := ensure(t, tenants, user.Name)
	want := func(what string, quotas, ranges map[string]string) {
		t.Helper()
		if err := tenants.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		gotQuotas, gotRanges := map[string]string{}, map[string]string{}
		var quotaList corev1.ResourceQuotaList
		var rangeList corev1.LimitRangeList
		for _, list := range []client.ObjectList{&quotaList, &rangeList} {
			if err := cluster.Client.List(t.Context(), list, client.InNamespace(made)); err != nil {
				t.Fatal(err)
			}
		}
		for _, quota := range quotaList.Items {
			gotQuotas[quota.Name] = encode(t, quota.Spec)
		}
		for _, limitRange := range rangeList.Items {
			gotRanges[limitRange.Name] = encode(t, limitRange.Spec.Limits[0].Max)
		}
		if diff := cmp.Diff([]any{quotas, ranges}, []any{gotQuotas, gotRanges}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	configured := map[string]string{"sless-default": `{"hard":{"pods":"20"}}`}
	configuredRange := map[string]string{"sless-default": `{"cpu":"2"}`}
	want("no quota of its own", configured, configuredRange)

	counted := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: user.Name, Name: "counted"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"count/functions.sless.io": quantity("3"), corev1.ResourceSecrets: quantity("1")},
	}}
	scoped := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: user.Name, Name: "scoped"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourcePods: quantity("1")}, Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort},
	}}
	create(t, counted)
	create(t, scoped)
	scopedCopy := `{"hard":{"pods":"1"},"scopes":["BestEffort"]}`
	want("none that bounds all pods", map[string]string{"sless-default": configured["sless-default"], "scoped-user": scopedCopy}, configuredRange)

	team := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: user.Name, Name: "team"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"limits.cpu": quantity("4"), corev1.ResourceServices: quantity("1")},
	}}
	small := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: user.Name, Name: "small"}, Spec: corev1.LimitRangeSpec{
		Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: quantity("1")}}},
	}}
	create(t, team)
	create(t, small)
	want("its own", map[string]string{"team-user": `{"hard":{"limits.cpu":"4"}}`, "scoped-user": scopedCopy}, map[string]string{"small-user": `{"cpu":"1"}`})

	team.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: quantity("7")}
	if err := cluster.Client.Update(t.Context(), team); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{scoped, small} {
		if err := cluster.Client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	want("changed", map[string]string{"team-user": `{"hard":{"pods":"7"}}`}, configuredRange)
}

func encode(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		write(t, path, got+"\n")
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got+"\n"); diff != "" {
		t.Errorf("%s differs (-want +got); run with -update when that is meant:\n%s", name, diff)
	}
}
