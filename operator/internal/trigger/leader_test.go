package trigger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// A schedule runs by itself, and the outcomes of what goes on when the manager ends are recorded.
func TestAScheduleRunsByItself(t *testing.T) {
	namespace := newNamespace(t)
	newFunction(t, namespace, "f")
	clock, gateway := newFastClock(60), &recorder{}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	reconciler := &Reconciler{Gateway: gateway, Now: clock.Now, Drain: patience}
	reconciler.wait = clock.wait
	mgr, err := newManager(cluster, reconciler, ctrl.Options{GracefulShutdownTimeout: new(2 * patience)}, namespace)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	create(t, newTrigger(namespace, "t", v1alpha1.TriggerSpec{Cron: &v1alpha1.CronTrigger{Schedule: "* * * * *", StartingDeadlineSeconds: 86400}}))
	trigger := &v1alpha1.Trigger{}
	eventually(t, "three ticks have succeeded", func() error {
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "t"}, trigger); err != nil {
			return err
		}
		succeeded := 0
		for _, run := range trigger.Status.History {
			if run.Result == v1alpha1.RunSucceeded {
				succeeded++
			}
		}
		if succeeded < 3 {
			return fmt.Errorf("history %v", story(trigger.Status.History))
		}
		return nil
	})

	called, release := make(chan string, 100), make(chan struct{})
	gateway.answers(func(_ context.Context, call Call) Outcome {
		called <- call.ID
		<-release
		return Outcome{Result: v1alpha1.RunFailed, Message: "at the end"}
	})
	id := <-called
	cancel()
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, run := range get(t, namespace, "t", trigger).Status.History {
		if run.ID == id && run.Result != v1alpha1.RunFailed {
			t.Errorf("what went on when the manager ended is recorded as %s", run.Result)
		}
		if run.Result == v1alpha1.RunRunning {
			t.Errorf("a run is left as going on: %+v", run)
		}
	}
}

// operators are processes of which one leads; each is replaced when it has ended.
type operators struct {
	t         *testing.T
	namespace string
	clock     fastClock
	gateway   *recorder
	// alive are the processes that run, in the order of their start; guarded by mu.
	mu    sync.Mutex
	alive []*operator
}

// operator is one process: its API client, and the moment from which nothing it does reaches the API server.
type operator struct {
	dead   atomic.Bool
	leads  <-chan struct{}
	cancel context.CancelFunc
}

// RoundTrip makes the requests of a dead process fail.
func (o *operator) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if o.dead.Load() {
			return nil, errors.New("this process is dead")
		}
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// run keeps one place for an operator filled until ctx ends.
func (o *operators) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := o.runOne(ctx); err != nil && ctx.Err() == nil {
			o.t.Logf("an operator ended: %v", err)
		}
	}
}

func (o *operators) runOne(ctx context.Context) error {
	process := &operator{}
	config := rest.CopyConfig(cluster)
	config.Wrap(process.wrap)
	// Each process calls through a gateway of its own that falls silent with it: the dead call nobody.
	reconciler := &Reconciler{Gateway: callerFunc(func(ctx context.Context, call Call) Outcome {
		if process.dead.Load() {
			return Outcome{Result: v1alpha1.RunFailed, Message: "this process is dead"}
		}
		return o.gateway.Call(ctx, call)
	}), Now: o.clock.Now, Drain: time.Millisecond}
	reconciler.wait = o.clock.wait
	mgr, err := newManager(config, reconciler, ctrl.Options{
		LeaderElection: true, LeaderElectionID: "trigger-test", LeaderElectionNamespace: names.SystemNamespace,
		LeaseDuration: new(2 * time.Second), RenewDeadline: new(1500 * time.Millisecond), RetryPeriod: new(100 * time.Millisecond),
		GracefulShutdownTimeout: new(time.Second),
	}, o.namespace)
	if err != nil {
		return err
	}
	ctx, process.cancel = context.WithCancel(ctx)
	defer process.cancel()
	process.leads = mgr.Elected()
	o.mu.Lock()
	o.alive = append(o.alive, process)
	o.mu.Unlock()
	defer o.remove(process)
	return mgr.Start(ctx)
}

func (o *operators) remove(process *operator) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, other := range o.alive {
		if other == process {
			o.alive = append(o.alive[:i:i], o.alive[i+1:]...)
			return
		}
	}
}

// killLeader cuts the leader off, as its death would, and returns false when nobody leads.
func (o *operators) killLeader() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, process := range o.alive {
		select {
		case <-process.leads:
			if !process.dead.Swap(true) {
				process.cancel()
				return true
			}
		default:
		}
	}
	return false
}

type callerFunc func(context.Context, Call) Outcome

func (f callerFunc) Call(ctx context.Context, call Call) Outcome { return f(ctx, call) }

// Two operators run, and the leader is killed around the tick, many times: no tick runs twice, and each is accounted for.
func TestKillingTheLeaderOnTheMinute(t *testing.T) {
	namespace := newNamespace(t)
	newFunction(t, namespace, "f")
	all := &operators{t: t, namespace: namespace, clock: newFastClock(60), gateway: &recorder{}}
	trigger := create(t, newTrigger(namespace, "t", v1alpha1.TriggerSpec{Cron: &v1alpha1.CronTrigger{
		Schedule: "* * * * *", StartingDeadlineSeconds: 86400, ConcurrencyPolicy: v1alpha1.AllowConcurrent}}))
	seen := newLedger(t, trigger)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() { all.run(ctx) })
	}
	defer running.Wait()
	defer cancel()

	for kill := range 8 {
		before := seen.size()
		eventually(t, fmt.Sprintf("ticks are dealt with before kill %d", kill), func() error {
			if seen.size() < before+2 {
				return fmt.Errorf("%d ticks", seen.size()-before)
			}
			return nil
		})
		// Around the tick: from a little before it, over the write of its record and the call, to a little after.
		now := all.clock.Now()
		next := now.Truncate(time.Minute).Add(time.Minute)
		time.Sleep(all.clock.wait(next.Sub(now)) + time.Duration(kill-1)*2*time.Millisecond)
		all.killLeader()
	}
	before := seen.size()
	eventually(t, "the last leader works", func() error {
		if seen.size() == before {
			return errors.New("no tick since")
		}
		return nil
	})
	cancel()
	running.Wait()
	seen.check(t, all.gateway.counts())
}

// ledger collects what a Trigger's history has ever said, from every version of it.
type ledger struct {
	watch watch.Interface
	ended chan struct{}
	mu    sync.Mutex
	runs  map[string]v1alpha1.TriggerRun // the newest word on each; guarded by mu
}

func newLedger(t *testing.T, trigger *v1alpha1.Trigger) *ledger {
	t.Helper()
	versions, err := kube.Watch(t.Context(), &v1alpha1.TriggerList{}, client.InNamespace(trigger.Namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: trigger.ResourceVersion}})
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{watch: versions, ended: make(chan struct{}), runs: map[string]v1alpha1.TriggerRun{}}
	go func() {
		defer close(l.ended)
		for event := range versions.ResultChan() {
			if version, ok := event.Object.(*v1alpha1.Trigger); ok {
				l.read(version)
			}
		}
	}()
	return l
}

func (l *ledger) read(version *v1alpha1.Trigger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, run := range version.Status.History {
		l.runs[run.ID] = run
	}
}

func (l *ledger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs)
}

// check compares the history with the calls that were made.
func (l *ledger) check(t *testing.T, calls map[string]int) {
	t.Helper()
	l.watch.Stop()
	<-l.ended
	results := map[v1alpha1.RunResult]int{}
	ticks := map[int64]bool{}
	first := time.Now().Add(100 * 24 * time.Hour)
	for _, run := range l.runs {
		ticks[run.ScheduledAt.Unix()] = true
		if run.ScheduledAt.Time.Before(first) {
			first = run.ScheduledAt.Time
		}
	}
	for id, run := range l.runs {
		// An entry of missed ticks stands for all since the tick before it; every other follows the one of a minute ago.
		if run.Result != v1alpha1.RunMissed && run.ScheduledAt.After(first) && !ticks[run.ScheduledAt.Unix()-60] {
			t.Errorf("of the tick before that of %s nothing is said", run.ScheduledAt)
		}
		results[run.Result]++
		switch run.Result {
		case v1alpha1.RunSucceeded:
			if calls[id] != 1 {
				t.Errorf("the run of %s succeeded and was called %d times", run.ScheduledAt, calls[id])
			}
		case v1alpha1.RunUnknown, v1alpha1.RunRunning: // called or not
		case v1alpha1.RunMissed:
			if calls[id] != 0 {
				t.Errorf("the run of %s is called missed and was called", run.ScheduledAt)
			}
		default:
			t.Errorf("the run of %s is %s: %s", run.ScheduledAt, run.Result, run.Message)
		}
	}
	for id, count := range calls {
		if count > 1 {
			t.Errorf("%s was called %d times", id, count)
		}
	}
	if results[v1alpha1.RunSucceeded] == 0 {
		t.Error("nothing succeeded")
	}
	t.Logf("%d calls, %v", len(calls), results)
}
