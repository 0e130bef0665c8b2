package install

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// client speaks to a real kube-apiserver; no controller and no kubelet runs, so the tests play them.
var client kubernetes.Interface

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	server := &envtest.Environment{ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	rest, err := server.Start()
	if err != nil {
		panic("start a kube-apiserver (KUBEBUILDER_ASSETS names the folder of its program; make test sets it): " + err.Error())
	}
	defer server.Stop() //nolint:errcheck // the process ends
	client = kubernetes.NewForConfigOrDie(rest)
	ctx := context.Background()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: names.BuildNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: names.BuildNamespace}}
	if _, err := client.CoreV1().ServiceAccounts(names.BuildNamespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	return m.Run()
}

const (
	pullCredentials = `{"auths":{}}`
	pushCredentials = `{"auths":{"registry.example.org":{}}}`
)

// signer answers what it was asked.
type signer struct{}

func (signer) SignParcel(_ context.Context, object string, valid time.Duration) (string, error) {
	return object + " for " + valid.String(), nil
}

func newRunner(t *testing.T) *Runner {
	t.Helper()
	cfg := plain
	folder := t.TempDir()
	cfg.Registry.PullConfigFile, cfg.Registry.PushConfigFile = filepath.Join(folder, "pull.json"), filepath.Join(folder, "push.json")
	for file, text := range map[string]string{cfg.Registry.PullConfigFile: pullCredentials, cfg.Registry.PushConfigFile: pushCredentials} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return NewRunner(client, cfg, signer{})
}

// specOf returns a Spec of its own key, whose Job is gone when the test is.
func specOf(t *testing.T, r *Runner) Spec {
	t.Helper()
	spec := testSpec
	spec.Key = names.Hash(t.Name())[:32]
	t.Cleanup(func() {
		if err := r.Delete(context.Background(), spec.Key); err != nil {
			t.Error(err)
		}
	})
	return spec
}

func getJob(t *testing.T, key string) *batchv1.Job {
	t.Helper()
	job, err := client.BatchV1().Jobs(names.BuildNamespace).Get(t.Context(), JobName(key), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// checkStarted says whether the Job runs and what its pod mounts belongs to it.
func checkStarted(t *testing.T, spec Spec) *batchv1.Job {
	t.Helper()
	job := getJob(t, spec.Key)
	if *job.Spec.Suspend {
		t.Error("the Job is suspended")
	}
	recipe, err := client.CoreV1().ConfigMaps(names.BuildNamespace).Get(t.Context(), job.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(buildRecipe(spec, trust{}), recipe.Data); diff != "" {
		t.Error(diff)
	}
	pull, err := client.CoreV1().Secrets(names.BuildNamespace).Get(t.Context(), job.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if string(pull.Data[corev1.DockerConfigJsonKey]) != pullCredentials {
		t.Errorf("pull credentials %q", pull.Data)
	}
	if string(pull.Data[pushFile]) != pushCredentials {
		t.Errorf("push credentials %q", pull.Data)
	}
	for _, owners := range [][]metav1.OwnerReference{recipe.OwnerReferences, pull.OwnerReferences} {
		if len(owners) != 1 || owners[0].UID != job.UID {
			t.Errorf("owners %v, want the Job %s", owners, job.UID)
		}
	}
	return job
}

func TestEnsureStartsOneJob(t *testing.T) {
	r := newRunner(t)
	spec := specOf(t, r)
	if err := r.Ensure(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	first := checkStarted(t, spec)
	if err := r.Ensure(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if again := getJob(t, spec.Key); again.UID != first.UID || again.ResourceVersion != first.ResourceVersion {
		t.Error("the second time changed the Job")
	}
}

// The address of a parcel is in a Secret that goes with the Job, and is signed when the Job starts, for as long as it may run.
func TestAddressOfTheParcel(t *testing.T) {
	r := newRunner(t)
	spec := specOf(t, r)
	spec.Installer, spec.Parcel = "", codeSpec.Parcel
	if err := r.Ensure(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	job := checkStarted(t, spec)
	secret, err := client.CoreV1().Secrets(names.BuildNamespace).Get(t.Context(), job.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(secret.Data[addressFile]), spec.Parcel.Object+" for 6m0s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEnsureGoesOnWhereAnotherStopped(t *testing.T) {
	r := newRunner(t)
	spec := specOf(t, r)
	if _, err := client.BatchV1().Jobs(names.BuildNamespace).Create(t.Context(), buildJob(spec, r.config), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.Ensure(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	checkStarted(t, spec)
}

func TestDeleteLeavesNothing(t *testing.T) {
	r := newRunner(t)
	spec := specOf(t, r)
	for range 2 { // the name is free again at once
		if err := r.Ensure(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		checkStarted(t, spec)
		if err := r.Delete(t.Context(), spec.Key); err != nil {
			t.Fatal(err)
		}
	}
	name := JobName(spec.Key)
	_, job := client.BatchV1().Jobs(names.BuildNamespace).Get(t.Context(), name, metav1.GetOptions{})
	_, recipe := client.CoreV1().ConfigMaps(names.BuildNamespace).Get(t.Context(), name, metav1.GetOptions{})
	_, pull := client.CoreV1().Secrets(names.BuildNamespace).Get(t.Context(), name, metav1.GetOptions{})
	for _, err := range []error{job, recipe, pull} {
		if !apierrors.IsNotFound(err) {
			t.Errorf("left behind: %v", err)
		}
	}
	if err := r.Delete(t.Context(), spec.Key); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

func TestListFindsJobsOfAnybody(t *testing.T) {
	r := newRunner(t)
	spec := specOf(t, r)
	if err := r.Ensure(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	left, err := NewRunner(client, r.config, signer{}).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Left{{Key: spec.Key, Namespace: spec.Namespace}}, left); diff != "" {
		t.Error(diff)
	}
}

// startPod makes the Job's pod, as the Job controller would, and gives it a status, as the kubelet would.
func startPod(t *testing.T, job *batchv1.Job, status corev1.PodStatus) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: job.Name, Namespace: job.Namespace, Labels: map[string]string{batchv1.JobNameLabel: job.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: job.Spec.Template.Spec,
	}
	pods := client.CoreV1().Pods(job.Namespace)
	pod, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("the namespace's Pod Security level refuses the pod: %v", err)
	}
	t.Cleanup(func() {
		if err := pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
			t.Error(err)
		}
	})
	pod.Status = status
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestObserve(t *testing.T) {
	r := newRunner(t)
	spec := specOf(t, r)
	observe := func(later time.Duration) Progress {
		t.Helper()
		progress, err := r.Observe(t.Context(), spec.Key, time.Now().Add(later))
		if err != nil {
			t.Fatal(err)
		}
		return progress
	}
	if progress := observe(0); !progress.Done || progress.Err == nil || progress.Err.Terminal {
		t.Errorf("no Job: %+v", progress)
	}
	if err := r.Ensure(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	job := getJob(t, spec.Key)
	if progress := observe(time.Minute); progress.Done || progress.Err != nil {
		t.Errorf("no pod and nobody says why: %+v", progress)
	}
	refuse(t, job, "pods is forbidden: exceeded quota")
	if progress := observe(time.Minute); progress.Done || progress.Err == nil || progress.Err.Reason != v1alpha1.ReasonQuotaExceeded || !strings.Contains(progress.Err.Message, "exceeded quota") {
		t.Errorf("refused: %+v", progress)
	}
	startPod(t, job, corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{ended(installStep, 1, "Error")}})
	if progress := observe(time.Minute); !progress.Done || progress.Err == nil || progress.Err.Reason != v1alpha1.ReasonDependenciesFailed {
		t.Errorf("failed: %+v", progress)
	}
	complete(t, job)
	if progress := observe(time.Minute); !progress.Done || progress.Err != nil {
		t.Errorf("complete: %+v", progress)
	}
}

// refuse says what the Job controller says when it can't make a pod.
func refuse(t *testing.T, job *batchv1.Job, message string) {
	t.Helper()
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: job.Name, Namespace: job.Namespace},
		InvolvedObject: corev1.ObjectReference{Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: job.UID},
		Reason:         "FailedCreate", Message: message, Type: corev1.EventTypeWarning, LastTimestamp: metav1.Now(),
	}
	if _, err := client.CoreV1().Events(job.Namespace).Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func complete(t *testing.T, job *batchv1.Job) {
	t.Helper()
	job = job.DeepCopy()
	now := metav1.Now()
	job.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, Conditions: []batchv1.JobCondition{
		{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: batchv1.JobComplete, Status: corev1.ConditionTrue},
	}}
	if _, err := client.BatchV1().Jobs(job.Namespace).UpdateStatus(t.Context(), job, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestQuotaRefusesTheJob(t *testing.T) {
	r := newRunner(t)
	spec := specOf(t, r)
	none := corev1.ResourceList{"count/jobs.batch": resource.MustParse("0")}
	quotas := client.CoreV1().ResourceQuotas(names.BuildNamespace)
	quota, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	removed := false
	remove := func() {
		if err := quotas.Delete(context.Background(), quota.Name, metav1.DeleteOptions{}); err != nil && !removed {
			t.Error(err)
		}
		removed = true
	}
	defer remove()
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
	if _, err := quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The API server's view of quotas is a cache: wait until it refuses.
	refused := func() bool {
		err := r.Ensure(t.Context(), spec)
		if err == nil {
			if err := r.Delete(t.Context(), spec.Key); err != nil {
				t.Fatal(err)
			}
			return false
		}
		known, ok := errors.AsType[*fault.Error](err)
		if !ok || known.Reason != v1alpha1.ReasonQuotaExceeded || known.Terminal {
			t.Fatalf("got %v", err)
		}
		return true
	}
	eventually(t, "the quota is felt", refused)
	remove()
	eventually(t, "the end of the quota is felt", func() bool { return r.Ensure(t.Context(), spec) == nil })
	checkStarted(t, spec)
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("not in time: %s", what)
}
