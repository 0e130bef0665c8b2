package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/hack/internal/measure"
)

const (
	// namespaces is how many the Functions are spread over.
	namespaces = 50
	// writers is how many Functions are made at a time.
	writers = 8
)

// step is what was measured with one number of Functions.
type step struct {
	Functions, Made int
	// Making is from the first Function made in this step to the last thing that the operator did for them.
	Making cost
	// GatewayCPU is what the gateway needed meanwhile.
	GatewayCPU time.Duration
	// Rest is what the operator needed when nothing happened, in the time it says.
	Rest cost
	// Restart is from the start of another operator until it has looked at everything.
	Restart cost
	// OneMore is how long one Function more took to be Ready, each one of those that were made.
	OneMore []time.Duration
	weights
}

// cost is what the operator needed for something.
type cost struct {
	Took, CPU time.Duration
	// Writes are requests to change something, by verb and resource; Reads are those to read, lists and watches included.
	Writes map[string]int
	Reads  int
}

// weights are what the two programs weigh.
type weights struct{ Operator, Gateway measure.Weight }

// step makes Functions until there are so many, and measures.
func (w *world) step(ctx context.Context, o *options, size int) (s step, err error) {
	s = step{Functions: size, Made: size - w.functions}
	var profiling sync.WaitGroup
	defer profiling.Wait()
	if o.profiles != "" {
		for _, p := range []*measure.Process{w.operator, w.gateway} {
			profiling.Go(func() { keepProfile(ctx, p, o.profiles, fmt.Sprintf("%s-%d-cpu", p.Name, size), "profile?seconds=30") })
		}
	}
	gateway, err := w.gateway.CPU()
	if err != nil {
		return s, err
	}
	if s.Making, err = w.costOf(ctx, func() error { return w.grow(ctx, size) }); err != nil {
		return s, fmt.Errorf("make them: %w", err)
	}
	profiling.Wait()
	if s.GatewayCPU, err = w.gateway.CPU(); err != nil {
		return s, err
	}
	s.GatewayCPU -= gateway
	if s.Rest, err = w.costOf(ctx, func() error { return sleep(ctx, o.rest) }); err != nil {
		return s, err
	}
	if s.weights, err = w.weigh(ctx); err != nil {
		return s, err
	}
	if o.profiles != "" {
		for _, p := range []*measure.Process{w.operator, w.gateway} {
			keepProfile(ctx, p, o.profiles, fmt.Sprintf("%s-%d-heap", p.Name, size), "heap")
		}
	}
	if s.Restart, err = w.restart(ctx, size); err != nil {
		return s, fmt.Errorf("start the operator again: %w", err)
	}
	s.OneMore, err = w.oneMore(ctx, o.more)
	return s, err
}

// grow makes Functions until there are so many, and waits until all are Ready and nothing is left to do.
func (w *world) grow(ctx context.Context, size int) error {
	if err := w.makeNamespaces(ctx); err != nil {
		return err
	}
	first := w.functions
	w.functions = max(first, size)
	err := w.plane.CreateEach(ctx, first, size, writers, func(i int) []client.Object { return objects(i%namespaces, fmt.Sprintf("function-%d", i)) })
	if err != nil {
		return err
	}
	if err := w.watched.wait(ctx, size); err != nil {
		return err
	}
	return w.quiet(ctx, 0)
}

// restart ends the operator as a crash does, and measures the next one.
func (w *world) restart(ctx context.Context, size int) (cost, error) {
	if _, err := w.audit.writes(); err != nil {
		return cost{}, err
	}
	begin := time.Now()
	if err := w.startOperator(ctx); err != nil {
		return cost{}, err
	}
	if err := w.quiet(ctx, 2*size); err != nil {
		return cost{}, err
	}
	c := cost{Took: time.Since(begin)}
	var err error
	if c.CPU, err = w.operator.CPU(); err != nil {
		return c, err
	}
	if c.Writes, err = w.audit.writes(); err != nil {
		return c, err
	}
	metrics, err := w.operator.Metrics(ctx)
	c.Reads = reads(metrics)
	return c, err
}

// oneMore makes Functions one after the other, in a namespace that has some, and returns how long each took to be Ready.
func (w *world) oneMore(ctx context.Context, n int) ([]time.Duration, error) {
	if err := w.makeNamespaces(ctx); err != nil {
		return nil, err
	}
	var took []time.Duration
	for i := range n + 1 {
		made := objects(0, fmt.Sprintf("more-%d", w.functions))
		begin := time.Now()
		if err := w.plane.Create(ctx, made...); err != nil {
			return nil, err
		}
		w.functions++
		if err := w.watched.waitFor(ctx, made[0]); err != nil {
			return nil, err
		}
		if i > 0 { // the first may be the first of its namespace
			took = append(took, time.Since(begin))
		}
		if err := w.watched.waitFor(ctx, made[1]); err != nil {
			return nil, err
		}
	}
	return took, w.quiet(ctx, 0)
}

// objects are a Function and its Trigger.
func objects(namespace int, name string) []client.Object {
	meta := metav1.ObjectMeta{Namespace: fmt.Sprintf("bench-%d", namespace), Name: name}
	function := &v1alpha1.Function{ObjectMeta: meta}
	function.Spec.Runtime = runtimeName
	function.Spec.Replicas = new(int32(0))
	function.Spec.Env = []v1alpha1.EnvVar{{Name: "GREETING", Value: "hello"}}
	function.Spec.Source.Inline = map[string]v1alpha1.InlineFile{"handler.py": v1alpha1.InlineFile(fmt.Sprintf("def handle(event):\n    return %q\n", name))}
	trigger := &v1alpha1.Trigger{ObjectMeta: meta}
	trigger.Spec = v1alpha1.TriggerSpec{FunctionRef: v1alpha1.FunctionRef{Name: meta.Name}, Type: v1alpha1.TriggerHTTP}
	return []client.Object{function, trigger}
}

func (w *world) makeNamespaces(ctx context.Context) error {
	if w.functions > 0 {
		return nil
	}
	for i := range namespaces {
		if err := w.plane.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("bench-%d", i)}}); err != nil {
			return err
		}
	}
	return nil
}

// costOf measures what the operator needs while something is done.
func (w *world) costOf(ctx context.Context, do func() error) (c cost, err error) {
	if _, err := w.audit.writes(); err != nil {
		return c, err
	}
	before, err := w.operator.Metrics(ctx)
	if err != nil {
		return c, err
	}
	cpu, err := w.operator.CPU()
	if err != nil {
		return c, err
	}
	begin := time.Now()
	if err := do(); err != nil {
		return c, err
	}
	c.Took = time.Since(begin)
	if c.CPU, err = w.operator.CPU(); err != nil {
		return c, err
	}
	c.CPU -= cpu
	if c.Writes, err = w.audit.writes(); err != nil {
		return c, err
	}
	after, err := w.operator.Metrics(ctx)
	c.Reads = reads(after) - reads(before)
	return c, err
}

// quiet waits until the operator has made so many passes over Functions and Triggers and has had nothing to do for a second.
func (w *world) quiet(ctx context.Context, passes int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	last, since := -1.0, time.Now()
	for {
		metrics, err := w.operator.Metrics(ctx)
		if err != nil {
			return err
		}
		done := metrics.Sum("controller_runtime_reconcile_total", "", "")
		busy := metrics.Sum("workqueue_depth", "", "") + metrics.Sum("controller_runtime_active_workers", "", "")
		if done != last || busy > 0 || int(done) < passes {
			last, since = done, time.Now()
		}
		if time.Since(since) > time.Second {
			return nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// weigh asks the two programs for their memory.
func (w *world) weigh(ctx context.Context) (all weights, err error) {
	if all.Operator, err = w.operator.Weigh(ctx); err != nil {
		return all, err
	}
	all.Gateway, err = w.gateway.Weigh(ctx)
	return all, err
}

// reads are a program's requests to the API server to read something.
func reads(metrics measure.Metrics) int {
	return int(metrics.Sum("rest_client_requests_total", "method", "GET"))
}

// keepProfile writes a profile into a folder. A profile that can't be had is told of, and is no reason to end.
func keepProfile(ctx context.Context, p *measure.Process, folder, name, what string) {
	profile, err := p.Get(ctx, "/debug/pprof/"+what)
	if err == nil {
		err = errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, name), profile, 0o644))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "profile", name+":", err)
	}
}

func sleep(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// median returns the median of some durations.
func median(of []time.Duration) time.Duration {
	return time.Duration(measure.Median(of, func(d time.Duration) float64 { return float64(d) }))
}
