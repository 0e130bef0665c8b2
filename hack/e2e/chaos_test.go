package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// programs are the Deployments of the platform.
var programs = []string{"operator", "gateway", "apiserver"}

// With two of each program, any one is told to go, or killed, under load and while something is built. It does not run beside other tests, whose
// connections a gateway that is killed would break.
//
// What counts as lost: an answer other than 200; a request without an answer although its gateway or apiserver was told to go and had its time;
// a GET without an answer after it was repeated. A POST that was on its way through a gateway that was killed may have run, so nobody repeats it:
// such ones are counted apart, and there may be none through anything that was not killed.
func TestKillingAnyOneLosesNothing(t *testing.T) {
	namespace := newNamespace(t)
	token := programToken(t, namespace, "sless-viewer")
	waitForRights(t, namespace, token)
	apply(t, namespace, python("steady", "def handle(event):\n    return event['body'] or 'fine'\n", "concurrency: 40", "replicas: 2")+httpTrigger("steady"))
	waitFunction(t, namespace, "steady", "True", v1alpha1.ReasonReady)
	replicate(t, 2)

	steady := gateway + names.FunctionPath(namespace, "steady")
	loads := loads{
		startRequests(t, &requests{name: "GET of a function", through: "gateway", method: http.MethodGet, url: steady}, 20),
		startRequests(t, &requests{name: "POST to a function", through: "gateway", method: http.MethodPost, url: steady}, 20),
		startRequests(t, &requests{name: "GET of the API", through: "apiserver", method: http.MethodGet, url: apiserver() + "/v1/namespaces/" + namespace + "/functions/steady", token: token}, 5),
	}
	builds := watchBuilds(t, namespace)
	for i, round := range []struct {
		name  string
		grace []client.DeleteOption
	}{{"told", nil}, {"killed", []client.DeleteOption{client.GracePeriodSeconds(0)}}} {
		apply(t, namespace, needy(round.name, namespace+round.name))
		eventually(t, "its build has begun", func() error { return builds.began(i + 1) })
		for _, program := range programs {
			began := time.Now()
			if round.name == "killed" {
				loads.mayBreak(program)
			}
			killOne(t, program, round.grace...)
			t.Logf("%s %s: two run again after %s", program, round.name, time.Since(began).Round(100*time.Millisecond))
		}
		waitFunction(t, namespace, round.name, "True", v1alpha1.ReasonReady)
	}
	for _, load := range loads {
		load.judge(t)
	}
	builds.judge(t, 2)
}

// replicate has so many of each program until the test ends.
func replicate(t *testing.T, replicas int32) {
	t.Helper()
	for _, program := range programs {
		deployment := &appsv1.Deployment{}
		if err := get(t, names.SystemNamespace, program, deployment); err != nil {
			t.Fatal(err)
		}
		before := *deployment.Spec.Replicas
		scale := func(ctx context.Context, replicas int32) error {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
			return kube.Patch(ctx, deployment, patch)
		}
		if err := scale(t.Context(), replicas); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := scale(context.Background(), before); err != nil {
				t.Errorf("scale %s back: %v", program, err)
			}
		})
	}
	for _, program := range programs {
		eventually(t, "there are two of "+program, func() error { return running(t, program, replicas, "") })
	}
}

// running complains unless so many pods of a program are ready, none of them the one that was killed.
func running(t *testing.T, program string, replicas int32, killed types.UID) error {
	pods := &corev1.PodList{}
	if err := kube.List(t.Context(), pods, client.InNamespace(names.SystemNamespace), client.MatchingLabels{"app.kubernetes.io/name": program}); err != nil {
		return err
	}
	ready := int32(0)
	for _, pod := range pods.Items {
		if pod.UID == killed {
			return fmt.Errorf("%s is still there", pod.Name)
		}
		if pod.DeletionTimestamp.IsZero() && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			ready++
		}
	}
	if ready != replicas {
		return fmt.Errorf("%d of %s are ready", ready, program)
	}
	return nil
}

// killOne deletes a pod of a program, of the operator the one that works, and waits until there are two without it.
func killOne(t *testing.T, program string, options ...client.DeleteOption) {
	t.Helper()
	pods := &corev1.PodList{}
	if err := kube.List(t.Context(), pods, client.InNamespace(names.SystemNamespace), client.MatchingLabels{"app.kubernetes.io/name": program}); err != nil {
		t.Fatal(err)
	}
	pod := pods.Items[0]
	if program == "operator" {
		lease := &coordinationv1.Lease{}
		if err := get(t, names.SystemNamespace, "sless-operator", lease); err != nil {
			t.Fatal(err)
		}
		holder, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
		i := slices.IndexFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Name == holder })
		if i < 0 {
			t.Fatalf("the lease is held by %s, which is no pod", holder)
		}
		pod = pods.Items[i]
	}
	if err := kube.Delete(t.Context(), &pod, options...); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there are two of "+program+" again", func() error { return running(t, program, 2, pod.UID) })
}

// requests is a steady load of one kind of request through one program.
type requests struct {
	name, through      string
	method, url, token string
	caller             *http.Client
	stop               context.CancelFunc
	done               chan struct{}

	mu sync.Mutex // guards what follows
	// breakable says that a pod that it goes through was killed.
	breakable                  bool
	answered, repeated, broken int
	lost                       []string
	slowest                    time.Duration
}

type loads []*requests

// mayBreak says that a pod of the program is going to be killed.
func (l loads) mayBreak(program string) {
	for _, r := range l {
		r.mu.Lock()
		r.breakable = r.breakable || r.through == program
		r.mu.Unlock()
	}
}

// startRequests sends so many requests a second, whether or not those before are answered, until judge.
func startRequests(t *testing.T, r *requests, perSecond int) *requests {
	ctx, stop := context.WithCancel(context.Background())
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 100
	r.caller, r.stop, r.done = &http.Client{Transport: transport, Timeout: time.Minute}, stop, make(chan struct{})
	go func() {
		defer close(r.done)
		defer transport.CloseIdleConnections()
		ticker := time.NewTicker(time.Second / time.Duration(perSecond))
		defer ticker.Stop()
		var all sync.WaitGroup
		defer all.Wait()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				all.Go(r.one)
			}
		}
	}()
	t.Cleanup(func() { stop(); <-r.done })
	return r
}

// attempts is how often a GET is sent at most: for some ten seconds, in which the network hears that a pod was killed, on a slow machine too.
const attempts = 10

// one sends a request; a GET whose connection breaks is sent again, each time after a longer pause, as a client does.
func (r *requests) one() {
	began := time.Now()
	var err error
	var refused bool
	sent := 0
	for retry := true; retry; {
		sent++
		refused, err = r.send()
		retry = err != nil && !refused && r.method == http.MethodGet && sent < attempts
		if retry {
			time.Sleep(time.Duration(sent) * 200 * time.Millisecond)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slowest = max(r.slowest, time.Since(began))
	switch {
	case err == nil && (sent == 1 || r.breakable):
		r.answered++
		if sent > 1 {
			r.repeated++
		}
	case err == nil:
		r.lost = append(r.lost, fmt.Sprintf("sent at %s: answered, but only the %d. time", began.Format("15:04:05.000"), sent))
	case !refused && r.breakable && r.method != http.MethodGet:
		r.broken++
	default:
		r.lost = append(r.lost, fmt.Sprintf("sent at %s: %v", began.Format("15:04:05.000"), err))
	}
}

// send sends it once. It is refused when there is an answer other than 200.
func (r *requests) send() (refused bool, err error) {
	var body io.Reader
	if r.method == http.MethodPost {
		body = strings.NewReader("a body")
	}
	request, err := http.NewRequest(r.method, r.url, body)
	if err != nil {
		return false, err
	}
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	response, err := r.caller.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		return true, fmt.Errorf("%d %.300q", response.StatusCode, text)
	}
	return false, err
}

func (r *requests) judge(t *testing.T) {
	t.Helper()
	r.stop()
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Logf("%s: %d answered, %d of them when repeated on another connection, %d broken off by a kill, %d lost, the slowest after %s",
		r.name, r.answered, r.repeated, r.broken, len(r.lost), r.slowest.Round(time.Millisecond))
	if len(r.lost) > 0 {
		t.Errorf("%s: lost:\n%s", r.name, strings.Join(r.lost[:min(20, len(r.lost))], "\n"))
	}
	if r.answered == 0 {
		t.Errorf("%s: nothing was answered", r.name)
	}
}

// builds are the Jobs and pods that were seen in the build namespace for one tenant.
type builds struct {
	mu         sync.Mutex // guards what follows
	jobs, pods map[types.UID]string
}

// watchBuilds looks for them until the test ends, far more often than a build takes.
func watchBuilds(t *testing.T, tenant string) *builds {
	b := &builds{jobs: map[types.UID]string{}, pods: map[types.UID]string{}}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			b.look(ctx, tenant)
			time.Sleep(100 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	return b
}

func (b *builds) look(ctx context.Context, tenant string) {
	jobs, pods := &batchv1.JobList{}, &corev1.PodList{}
	of := []client.ListOption{client.InNamespace(names.BuildNamespace), client.MatchingLabels{names.NamespaceLabel: tenant}}
	if errors.Join(kube.List(ctx, jobs, of...), kube.List(ctx, pods, of...)) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, job := range jobs.Items {
		b.jobs[job.UID] = job.Name
	}
	for _, pod := range pods.Items {
		b.pods[pod.UID] = pod.Name
	}
}

// began complains unless so many pods have begun.
func (b *builds) began(want int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pods) < want {
		return fmt.Errorf("%d pods have", len(b.pods))
	}
	return nil
}

// judge holds that every build ran once: one Job, one pod.
func (b *builds) judge(t *testing.T, want int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	t.Logf("%d builds in %d Jobs and %d pods", want, len(b.jobs), len(b.pods))
	if len(b.jobs) != want || len(b.pods) != want {
		t.Errorf("Jobs %v and pods %v", slices.Sorted(maps.Values(b.jobs)), slices.Sorted(maps.Values(b.pods)))
	}
}
