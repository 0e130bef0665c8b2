package env

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/testcluster"
)

var cluster testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c testcluster.Cluster) { cluster = c }))
}

func newStore() *Store { return &Store{Client: cluster.Client, Reader: cluster.Client} }

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := cluster.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// newFunction is a Function, not stored, in a new namespace with some objects to refer to.
func newFunction(t *testing.T, env ...v1alpha1.EnvVar) *v1alpha1.Function {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "user-"}}
	create(t, namespace)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace.Name, Name: name} }
	create(t, &corev1.Secret{ObjectMeta: meta("db"), Data: map[string][]byte{
		"password": []byte("hunter2"), "nul": []byte("a\x00b"), "latin": {0xff}, "long": []byte(strings.Repeat("x", 200<<10)),
	}})
	create(t, &corev1.ConfigMap{ObjectMeta: meta("settings"), Data: map[string]string{"color": "blue"}, BinaryData: map[string][]byte{"shape": []byte("round")}})
	return &v1alpha1.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "hello", UID: types.UID(namespace.UID)},
		Spec:       v1alpha1.FunctionSpec{Env: env},
	}
}

func secretKey(name, key string, optional bool) *v1alpha1.EnvVarSource {
	return &v1alpha1.EnvVarSource{SecretKeyRef: &v1alpha1.KeyRef{Name: name, Key: key, Optional: optional}}
}

func mapKey(name, key string) *v1alpha1.EnvVarSource {
	return &v1alpha1.EnvVarSource{ConfigMapKeyRef: &v1alpha1.KeyRef{Name: name, Key: key}}
}

func TestEnsure(t *testing.T) {
	store := newStore()
	function := newFunction(t,
		v1alpha1.EnvVar{Name: "PLAIN", Value: "x"},
		v1alpha1.EnvVar{Name: "EMPTY"},
		v1alpha1.EnvVar{Name: "PASSWORD", ValueFrom: secretKey("db", "password", false)},
		v1alpha1.EnvVar{Name: "COLOR", ValueFrom: mapKey("settings", "color")},
		v1alpha1.EnvVar{Name: "SHAPE", ValueFrom: mapKey("settings", "shape")},
		v1alpha1.EnvVar{Name: "ABSENT", ValueFrom: secretKey("nothing", "password", true)},
		v1alpha1.EnvVar{Name: "ABSENT_KEY", ValueFrom: secretKey("db", "nothing", true)},
	)
	name, environment, err := store.Ensure(t.Context(), function, function.Namespace)
	if err != nil || !environment.Follows {
		t.Fatalf("got %v, %+v", err, environment)
	}
	secret := &corev1.Secret{}
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: function.Namespace, Name: name}, secret); err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{"PLAIN": []byte("x"), "EMPTY": {}, "PASSWORD": []byte("hunter2"), "COLOR": []byte("blue"), "SHAPE": []byte("round")}
	if diff := cmp.Diff(want, secret.Data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	if secret.Immutable == nil || !*secret.Immutable || secret.Labels[names.NameLabel] != "hello" {
		t.Errorf("secret %+v", secret)
	}
	again, _, err := store.Ensure(t.Context(), function, function.Namespace)
	if err != nil || again != name {
		t.Errorf("the same environment again: %s, %v", again, err)
	}
	function.Spec.Env[0].Value = "y"
	other, _, err := store.Ensure(t.Context(), function, function.Namespace)
	if err != nil || other == name {
		t.Errorf("another environment: %s, %v", other, err)
	}
	function.Spec.Env = nil
	if none, _, err := store.Ensure(t.Context(), function, function.Namespace); err != nil || none != "" {
		t.Errorf("no environment: %s, %v", none, err)
	}
}

func TestResolveRefuses(t *testing.T) {
	many := make([]v1alpha1.EnvVar, 64)
	for i := range many {
		many[i] = v1alpha1.EnvVar{Name: "V" + strings.Repeat("A", i), Value: strings.Repeat("x", 32<<10)}
	}
	for name, test := range map[string]struct {
		env     []v1alpha1.EnvVar
		reason  string
		message []string
	}{
		"nothing there": {[]v1alpha1.EnvVar{
			{Name: "A", ValueFrom: secretKey("gone", "k", false)}, {Name: "B", ValueFrom: mapKey("lost", "k")}, {Name: "C", ValueFrom: secretKey("db", "k", false)},
		}, v1alpha1.ReasonEnvNotFound, []string{"env A: Secret user-", "/gone does not exist", "env B: ConfigMap user-", "/lost does not exist", "env C: key k of Secret user-"}},
		"no such name": {[]v1alpha1.EnvVar{{Name: "A", ValueFrom: secretKey("Not_A_Name", "k", false)}}, v1alpha1.ReasonEnvNotFound, []string{"Not_A_Name does not exist"}},
		"NUL":          {[]v1alpha1.EnvVar{{Name: "A", ValueFrom: secretKey("db", "nul", false)}}, v1alpha1.ReasonEnvInvalid, []string{"env A", "NUL"}},
		"not UTF-8":    {[]v1alpha1.EnvVar{{Name: "A", ValueFrom: secretKey("db", "latin", false)}}, v1alpha1.ReasonEnvInvalid, []string{"env A", "UTF-8"}},
		"too long":     {[]v1alpha1.EnvVar{{Name: "A", ValueFrom: secretKey("db", "long", false)}}, v1alpha1.ReasonEnvInvalid, []string{"env A", "204800 bytes"}},
		"too much":     {many, v1alpha1.ReasonEnvInvalid, []string{"in all"}},
	} {
		t.Run(name, func(t *testing.T) {
			function := newFunction(t, test.env...)
			_, _, err := newStore().Ensure(t.Context(), function, function.Namespace)
			problem, ok := errors.AsType[*fault.Error](err)
			if !ok || problem.Reason != test.reason || !problem.Terminal {
				t.Fatalf("got %v, want a terminal %s", err, test.reason)
			}
			for _, part := range test.message {
				if !strings.Contains(problem.Message, part) {
					t.Errorf("message %q lacks %q", problem.Message, part)
				}
			}
			if strings.Contains(problem.Message, "hunter2") || strings.Contains(problem.Message, "xxx") {
				t.Errorf("message %q has a value", problem.Message)
			}
		})
	}
}

// Collect deletes old environments that nothing uses, and no others.
func TestCollect(t *testing.T) {
	store := newStore()
	function := newFunction(t)
	secret := func(value string) string {
		function.Spec.Env = []v1alpha1.EnvVar{{Name: "A", Value: value}}
		name, _, err := store.Ensure(t.Context(), function, function.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	unused, ofSet, ofOldSet, ofJob, ofEndedJob, current := secret("1"), secret("2"), secret("3"), secret("4"), secret("5"), secret("6")
	labels := names.Labels("Function", function.Namespace, "hello", function.UID)
	template := func(secret string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "function", Image: "i", EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}},
			}}},
		}}
	}
	for name, replicas := range map[string]int32{ofSet: 1, ofOldSet: 0} {
		set := template(name)
		set.Spec.RestartPolicy = corev1.RestartPolicyAlways
		create(t, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: function.Namespace, Labels: labels},
			Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: set},
		})
	}
	for _, name := range []string{ofJob, ofEndedJob} {
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: function.Namespace, Labels: map[string]string{names.ManagedByLabel: names.ManagedBy}},
			Spec:       batchv1.JobSpec{Template: template(name)},
		}
		create(t, job)
		if name == ofEndedJob {
			end(t, job)
		}
	}
	if again := collect(t, store, function, current); again == 0 {
		t.Error("young environments are not come back for")
	}
	if got := environments(t, function); len(got) != 6 {
		t.Errorf("young environments are deleted: left %v", got)
	}
	store.now = func() time.Time { return time.Now().Add(2 * keepFor) }
	if again := collect(t, store, function, current); again == 0 {
		t.Error("environments in use are not come back for")
	}
	want := map[string]bool{ofSet: true, ofJob: true, current: true}
	if diff := cmp.Diff(want, environments(t, function)); diff != "" {
		t.Errorf("left (-want +got), unused was %s:\n%s", unused, diff)
	}
}

// Collect does not look again when it has found nothing, until another environment is made.
func TestCollectLooksOnce(t *testing.T) {
	store := newStore()
	lists := 0
	direct, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: testcluster.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	store.Reader = interceptor.NewClient(direct, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			lists++
			return c.List(ctx, list, options...)
		},
	})
	function := newFunction(t, v1alpha1.EnvVar{Name: "A", Value: "1"})
	ensure := func() string {
		name, _, err := store.Ensure(t.Context(), function, function.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	looks := func(what string, want int) {
		t.Helper()
		if lists != want {
			t.Errorf("%s: it has looked %d times, want %d", what, lists, want)
		}
	}
	first := ensure()
	for range 3 {
		collect(t, store, function, first)
	}
	looks("nothing else there", 1)
	function.Spec.Env[0].Value = "2"
	second := ensure()
	collect(t, store, function, first)
	looks("another was made, as for a Job", 4) // Secrets, and who uses them: ReplicaSets and Jobs
	store.now = func() time.Time { return time.Now().Add(2 * keepFor) }
	collect(t, store, function, second)
	if left := environments(t, function); !left[second] || len(left) != 1 {
		t.Errorf("left %v", left)
	}
	before := lists
	for range 3 {
		collect(t, store, function, second)
	}
	looks("alone again", before+1)
	store.Forget(client.ObjectKeyFromObject(function))
	collect(t, store, function, second)
	looks("forgotten", before+2)
}

func collect(t *testing.T, store *Store, function *v1alpha1.Function, current string) time.Duration {
	t.Helper()
	again, err := store.Collect(t.Context(), function, function.Namespace, current)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// end plays the controller of Jobs.
func end(t *testing.T, job *batchv1.Job) {
	t.Helper()
	now := metav1.Now()
	job.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, Conditions: []batchv1.JobCondition{
		{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
	}}
	if err := cluster.Client.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
}

// environments returns the names of the Secrets that a Function has.
func environments(t *testing.T, function *v1alpha1.Function) map[string]bool {
	t.Helper()
	var list corev1.SecretList
	if err := cluster.Client.List(t.Context(), &list, client.InNamespace(function.Namespace), client.MatchingLabels(names.Selector("Function", function.Namespace, function.Name))); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, secret := range list.Items {
		found[secret.Name] = true
	}
	return found
}
