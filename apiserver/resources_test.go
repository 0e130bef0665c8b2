package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
)

func TestTriggerLife(t *testing.T) {
	tenant := newTenant(t)
	triggers := tenant.Triggers(tenant.namespace)
	ctx := t.Context()
	cron := rest.Trigger{Name: "nightly", Function: "hello", Type: rest.TriggerCron, Schedule: "0 3 * * *", TimeZone: "Europe/Berlin", EventJSON: `{"a":1}`}
	made := must[rest.Stored[rest.Trigger]](t)(triggers.Create(ctx, cron))
	if !*made.Object.Enabled || made.Object.ConcurrencyPolicy != "Forbid" || *made.Object.StartingDeadlineSec != 60 || made.Object.TimeZone != "Europe/Berlin" {
		t.Errorf("got %+v", made.Object)
	}
	off := must[rest.Stored[rest.Trigger]](t)(triggers.Patch(ctx, "nightly", map[string]any{"enabled": false}))
	if *off.Object.Enabled || off.Object.UID != made.Object.UID || off.Object.Schedule != cron.Schedule {
		t.Errorf("got %+v", off.Object)
	}
	// Leaving enabled out of a PUT brings the default back.
	on := must[rest.Stored[rest.Trigger]](t)(triggers.Replace(ctx, "nightly", cron))
	if !*on.Object.Enabled || on.ETag != made.ETag {
		t.Errorf("got %+v", on)
	}
	web := must[rest.Stored[rest.Trigger]](t)(triggers.Create(ctx, rest.Trigger{Name: "web", Function: "hello", Type: rest.TriggerHTTP, Methods: []string{"GET"}}))
	if web.Object.Payload != "request" || web.Object.Schedule != "" {
		t.Errorf("got %+v", web.Object)
	}
	_, err := triggers.Patch(ctx, "web", map[string]any{"type": "cron", "schedule": "* * * * *", "methods": nil, "payload": nil})
	if problem := problemOf(t, err); problem.Status != 422 || problem.Errors[0].Location != "body.type" {
		t.Errorf("the type was changed: %v", err)
	}
	if err := triggers.Delete(ctx, "web"); err != nil {
		t.Error(err)
	}
}

func TestJobsAreCreatedOnceForAKey(t *testing.T) {
	tenant := newTenant(t)
	jobs := tenant.Jobs(tenant.namespace)
	ctx := t.Context()
	job := rest.Job{Function: "hello", RunID: 9007199254740991, EventJSON: `{"n": 12345678901234567890}`}
	first := must[rest.Stored[rest.Job]](t)(jobs.Create(ctx, job, rest.IdempotencyKey("migrate-7")))
	if !strings.HasPrefix(first.Object.Name, "hello-") || first.Object.RunID != job.RunID || first.Object.EventJSON != job.EventJSON {
		t.Errorf("got %+v", first.Object)
	}
	var again sync.WaitGroup
	for range 8 {
		again.Go(func() {
			same, err := jobs.Create(ctx, job, rest.IdempotencyKey("migrate-7"))
			if err != nil || same.Object.UID != first.Object.UID {
				t.Errorf("got %+v %v", same.Object, err)
			}
		})
	}
	again.Wait()
	job.RunID = 2
	_, err := jobs.Create(ctx, job, rest.IdempotencyKey("migrate-7"))
	wantCode(t, err, 422, rest.CodeIdempotencyKeyReused)
	other := must[rest.Stored[rest.Job]](t)(jobs.Create(ctx, job, rest.IdempotencyKey("migrate-8")))
	without := must[rest.Stored[rest.Job]](t)(jobs.Create(ctx, job))
	if other.Object.Name == first.Object.Name || without.Object.Name == other.Object.Name {
		t.Errorf("names %s, %s, %s", first.Object.Name, other.Object.Name, without.Object.Name)
	}
	if all := must[[]rest.Job](t)(jobs.All(ctx, "")); len(all) != 3 {
		t.Errorf("%d jobs", len(all))
	}
}

func TestAKeyAtTheSameMomentCreatesOnce(t *testing.T) {
	tenant := newTenant(t)
	jobs := tenant.Jobs(tenant.namespace)
	uids := make([]string, 8)
	var callers sync.WaitGroup
	for i := range uids {
		callers.Go(func() {
			job, err := jobs.Create(t.Context(), rest.Job{Function: "hello"}, rest.IdempotencyKey("once"))
			if err != nil {
				t.Error(err)
			}
			uids[i] = job.Object.UID
		})
	}
	callers.Wait()
	for _, uid := range uids {
		if uid != uids[0] {
			t.Errorf("jobs %v", uids)
			break
		}
	}
}

func TestListsComeInPages(t *testing.T) {
	tenant := newTenant(t)
	jobs := tenant.Jobs(tenant.namespace)
	ctx := t.Context()
	var want []string
	for i := range 7 {
		job := rest.Job{Name: fmt.Sprintf("job-%d", i), Function: "hello", Labels: map[string]string{"parity": fmt.Sprint(i % 2)}}
		must[rest.Stored[rest.Job]](t)(jobs.Create(ctx, job))
		want = append(want, job.Name)
	}
	namesOf := func(items []rest.Job) (names []string) {
		for _, job := range items {
			names = append(names, job.Name)
		}
		return names
	}
	var got []string
	options := rest.ListOptions{Limit: 3}
	for {
		page := must[rest.List[rest.Job]](t)(jobs.List(ctx, options))
		if len(page.Items) > 3 {
			t.Errorf("a page of %d", len(page.Items))
		}
		got = append(got, namesOf(page.Items)...)
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"job-1", "job-3", "job-5"}, namesOf(must[[]rest.Job](t)(jobs.All(ctx, "parity=1")))); diff != "" {
		t.Error(diff)
	}
}

func TestManyWritersAtOnceAllSucceed(t *testing.T) {
	tenant := newTenant(t)
	functions := tenant.Functions(tenant.namespace)
	must[rest.Stored[rest.Function]](t)(functions.Create(t.Context(), hello("hello")))
	ctx, cancel := context.WithCancel(t.Context())
	var status sync.WaitGroup
	status.Go(func() { // what an operator does, far more often, but not all the time: nobody could write besides it
		for pause := time.Duration(0); ctx.Err() == nil; time.Sleep(max(pause, 20*time.Millisecond)) {
			began := time.Now()
			fn := &v1alpha1.Function{}
			if cluster.client.Get(ctx, tenant.key("hello"), fn) == nil {
				fn.Status.Replicas++
				_ = cluster.client.Status().Update(ctx, fn) // a conflict is the point
			}
			pause = 3 * time.Since(began)
		}
	})
	var writers sync.WaitGroup
	for i := range 10 {
		writers.Go(func() {
			if _, err := functions.Patch(ctx, "hello", map[string]any{"env": map[string]any{fmt.Sprintf("V%d", i): "x"}}); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	cancel()
	status.Wait()
	if got := must[rest.Stored[rest.Function]](t)(functions.Get(t.Context(), "hello")); len(got.Object.Env) != 10 {
		t.Errorf("variables %v", got.Object.Env)
	}
}

func TestReadsSeeWhatWasWritten(t *testing.T) {
	tenant := newTenant(t)
	functions := tenant.Functions(tenant.namespace)
	ctx := t.Context()
	must[rest.Stored[rest.Function]](t)(functions.Create(ctx, hello("hello")))
	for i := range 50 {
		wrote := must[rest.Stored[rest.Function]](t)(functions.Patch(ctx, "hello", map[string]any{"code_hash": fmt.Sprint(i)}))
		if read := must[rest.Stored[rest.Function]](t)(functions.Get(ctx, "hello")); read.ETag != wrote.ETag {
			t.Fatalf("wrote %s, read %s", wrote.Object.CodeHash, read.Object.CodeHash)
		}
	}
	fn := &v1alpha1.Function{}
	if err := cluster.client.Get(ctx, tenant.key("hello"), fn); err != nil {
		t.Fatal(err)
	}
	fn.Spec.CodeHash = "by another"
	if err := cluster.client.Update(ctx, fn); err != nil {
		t.Fatal(err)
	}
	if read := must[rest.Stored[rest.Function]](t)(functions.Get(ctx, "hello", rest.Fresh())); read.Object.CodeHash != "by another" {
		t.Errorf("read %s", read.Object.CodeHash)
	}
}

func TestWhatCameByGitLooksTheSame(t *testing.T) {
	tenant := newTenant(t)
	ctx := t.Context()
	fn := &v1alpha1.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.namespace, Name: "hello"},
		Spec: v1alpha1.FunctionSpec{
			Runtime: "nodejs20", Source: v1alpha1.Source{Image: "registry/image:v1"},
			Env: []v1alpha1.EnvVar{{Name: "B", Value: "2"}, {Name: "A", ValueFrom: &v1alpha1.EnvVarSource{ConfigMapKeyRef: &v1alpha1.KeyRef{Name: "c", Key: "k", Optional: true}}}},
		},
	}
	if err := cluster.client.Create(ctx, fn); err != nil {
		t.Fatal(err)
	}
	functions := tenant.Functions(tenant.namespace)
	got := must[rest.Stored[rest.Function]](t)(functions.Get(ctx, "hello"))
	if got.Object.Env["B"] != "2" || got.Object.EnvFrom["A"] != (rest.EnvRef{ConfigMapName: "c", Key: "k", Optional: true}) || got.Object.Source.Image != "registry/image:v1" {
		t.Errorf("got %+v", got.Object)
	}
	must[rest.Stored[rest.Function]](t)(functions.Replace(ctx, "hello", got.Object))
	after := &v1alpha1.Function{}
	if err := cluster.client.Get(ctx, tenant.key("hello"), after); err != nil {
		t.Fatal(err)
	}
	if len(after.Spec.Env) != 2 || after.Spec.Env[0].Name != "A" {
		t.Errorf("variables %+v", after.Spec.Env)
	}
}
