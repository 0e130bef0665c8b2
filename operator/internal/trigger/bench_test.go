package trigger

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/naeel/sless/api/v1alpha1"
)

// BenchmarkTenThousandSchedules runs 10,000 cron Triggers on one operator, on a real API server: at each of ten minutes 100 of them are due
// at the same moment. A clock that goes 12 times as fast makes a minute of 5 seconds. Reported are how late the calls are, the writes and
// the operator's own CPU that a firing costs, and the memory before and after. The API server and etcd run beside it: on a machine that
// is busy otherwise, it is they that make calls late.
func BenchmarkTenThousandSchedules(b *testing.B) {
	const (
		triggers, fired, due = 10000, 1000, 100
		warmUp               = 180 * time.Second // to make them, and for the first look at all of them
		speed                = 12
	)
	namespace := newNamespace(b)
	newFunction(b, namespace, "f")
	clock := newFastClock(speed)
	first := clock.start.Add(warmUp * speed).Truncate(time.Minute)
	for b.Loop() {
		late, writes := &lateness{clock: clock, ticks: createSpread(b, namespace, first, triggers, due)}, &writeCounter{}
		connection := rest.CopyConfig(cluster)
		connection.Wrap(writes.wrap)
		reconciler := &Reconciler{Gateway: &recorder{called: late.note}, Now: clock.Now}
		reconciler.wait = clock.wait
		mgr, err := newManager(connection, reconciler, ctrl.Options{}, namespace)
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- mgr.Start(ctx) }()
		time.Sleep(time.Duration(first.Sub(clock.Now()) / speed))
		if got := writes.status.Load(); got < triggers {
			b.Fatalf("only %d of %d Triggers were looked at before the first tick", got, triggers)
		}
		heap, cpu, before := heapMiB(), cpuTime(b), writes.status.Load()
		for end := time.Now().Add(10 * time.Minute); late.count() < fired; time.Sleep(time.Second) {
			if time.Now().After(end) {
				b.Fatalf("only %d of %d ticks were called", late.count(), fired)
			}
		}
		time.Sleep(2 * time.Second) // for the last outcomes
		b.ReportMetric(late.percentile(50), "ms-late-p50")
		b.ReportMetric(late.percentile(99), "ms-late-p99")
		b.ReportMetric(late.percentile(100), "ms-late-max")
		b.ReportMetric(float64(writes.status.Load()-before)/fired, "writes/firing")
		b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/1000/fired, "ms-cpu/firing")
		b.ReportMetric(heap, "MiB-before")
		b.ReportMetric(heapMiB(), "MiB-after")
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}
}

// createSpread makes schedules that tick once, due of them in each minute after first, and returns the ticks by their ids.
func createSpread(b *testing.B, namespace string, first time.Time, triggers, due int) map[string]time.Time {
	b.Helper()
	var workers sync.WaitGroup
	var mu sync.Mutex
	ticks := map[string]time.Time{}
	for worker := range 16 {
		workers.Go(func() {
			for i := worker; i < triggers; i += 16 {
				tick := first.UTC().Add(time.Duration(i/due+1) * time.Minute)
				schedule := fmt.Sprintf("%d %d %d %d *", tick.Minute(), tick.Hour(), tick.Day(), tick.Month())
				trigger := newTrigger(namespace, fmt.Sprintf("t%05d", i), v1alpha1.TriggerSpec{
					Cron: &v1alpha1.CronTrigger{Schedule: schedule, StartingDeadlineSeconds: 86400}})
				if err := kube.Create(context.Background(), trigger); err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				ticks[runID(trigger.UID, tick)] = tick
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return ticks
}

// lateness collects how late calls are, in time as it really goes.
type lateness struct {
	clock fastClock
	ticks map[string]time.Time
	mu    sync.Mutex
	late  []time.Duration
}

func (l *lateness) note(call Call) {
	late := l.clock.Now().Sub(l.ticks[call.ID]) / l.clock.speed
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = append(l.late, late)
}

func (l *lateness) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.late)
}

func (l *lateness) percentile(p int) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.late)
	return float64(l.late[(len(l.late)-1)*p/100].Microseconds()) / 1000
}

// writeCounter counts writes of status.
type writeCounter struct{ status atomic.Int64 }

func (w *writeCounter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/status") {
			w.status.Add(1)
		}
		return next.RoundTrip(request)
	})
}

// cpuTime is what this process has used: the operator, and what little the benchmark does.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func heapMiB() float64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc) / (1 << 20)
}
