package route

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

// trigger makes an enabled http Trigger that is minutes old.
func trigger(name string, minutes int, change ...func(*v1alpha1.Trigger)) *v1alpha1.Trigger {
	t := &v1alpha1.Trigger{}
	t.Name = name
	t.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, -minutes, 0, 0, time.UTC))
	t.Spec.Type = v1alpha1.TriggerHTTP
	for _, c := range change {
		c(t)
	}
	return t
}

func disabled(t *v1alpha1.Trigger) { t.Spec.Enabled = new(false) }

func cron(t *v1alpha1.Trigger) { t.Spec.Type = v1alpha1.TriggerCron }

func deleting(t *v1alpha1.Trigger) { t.DeletionTimestamp = new(metav1.Now()) }

func methods(names ...string) func(*v1alpha1.Trigger) {
	return func(t *v1alpha1.Trigger) { t.Spec.HTTP = &v1alpha1.HTTPTrigger{Methods: names} }
}

func body(t *v1alpha1.Trigger) {
	t.Spec.HTTP = &v1alpha1.HTTPTrigger{Payload: v1alpha1.PayloadBody}
}

func TestCompileTriggers(t *testing.T) {
	for name, test := range map[string]struct {
		triggers []*v1alpha1.Trigger
		want     Spec
	}{
		"none":                        {nil, Spec{Access: Closed}},
		"one":                         {[]*v1alpha1.Trigger{trigger("a", 1)}, Spec{Access: Open, Trigger: "a"}},
		"one disabled":                {[]*v1alpha1.Trigger{trigger("a", 1, disabled)}, Spec{Access: Disabled, Trigger: "a", Off: true}},
		"one being deleted":           {[]*v1alpha1.Trigger{trigger("a", 1, deleting)}, Spec{Access: Disabled, Trigger: "a", Off: true}},
		"one disabled, one not":       {[]*v1alpha1.Trigger{trigger("a", 1, disabled), trigger("b", 0)}, Spec{Access: Open, Trigger: "b"}},
		"only cron":                   {[]*v1alpha1.Trigger{trigger("a", 1, cron)}, Spec{Access: Closed}},
		"only cron, disabled":         {[]*v1alpha1.Trigger{trigger("a", 1, cron, disabled)}, Spec{Access: Closed, Off: true}},
		"http disabled, cron not":     {[]*v1alpha1.Trigger{trigger("a", 1, disabled), trigger("b", 1, cron)}, Spec{Access: Disabled, Trigger: "a"}},
		"http, cron disabled":         {[]*v1alpha1.Trigger{trigger("a", 1), trigger("b", 1, cron, disabled)}, Spec{Access: Open, Trigger: "a"}},
		"methods":                     {[]*v1alpha1.Trigger{trigger("a", 1, methods("GET", "PUT"))}, Spec{Access: Open, Trigger: "a", Methods: []string{"GET", "PUT"}, Allow: "GET, PUT"}},
		"payload":                     {[]*v1alpha1.Trigger{trigger("a", 1, body)}, Spec{Access: Open, Trigger: "a", PayloadBody: true}},
		"the older decides":           {[]*v1alpha1.Trigger{trigger("a", 1), trigger("b", 2, body)}, Spec{Access: Open, Trigger: "b", PayloadBody: true}},
		"the older enabled decides":   {[]*v1alpha1.Trigger{trigger("a", 1), trigger("b", 2, body, disabled)}, Spec{Access: Open, Trigger: "a"}},
		"of one age the name decides": {[]*v1alpha1.Trigger{trigger("b", 1), trigger("a", 1, body)}, Spec{Access: Open, Trigger: "a", PayloadBody: true}},
		"the older cron does not":     {[]*v1alpha1.Trigger{trigger("a", 1, body), trigger("b", 2, cron)}, Spec{Access: Open, Trigger: "a", PayloadBody: true}},
	} {
		test.want.Timeout = defaultTimeout
		got := Compile(&v1alpha1.Function{}, test.triggers)
		if diff := cmp.Diff(&test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCompileFunction(t *testing.T) {
	function := func(change func(*v1alpha1.Function)) *v1alpha1.Function {
		f := &v1alpha1.Function{}
		f.Generation = 2
		change(f)
		return f
	}
	for name, test := range map[string]struct {
		function *v1alpha1.Function
		want     Spec
	}{
		"timeout":     {function(func(f *v1alpha1.Function) { f.Spec.TimeoutSeconds = 5 }), Spec{Timeout: 5 * time.Second}},
		"concurrency": {function(func(f *v1alpha1.Function) { f.Spec.Concurrency = new(int32(3)) }), Spec{Timeout: defaultTimeout, Concurrency: 3}},
		"image": {function(func(f *v1alpha1.Function) { f.Status.Image, f.Status.CodeHash = "host/repository@sha256:12", "v1" }),
			Spec{Timeout: defaultTimeout, Image: "sha256:12", CodeHash: "v1"}},
		"no replicas":     {function(func(f *v1alpha1.Function) { f.Spec.Replicas = new(int32(0)) }), Spec{Timeout: defaultTimeout, ScaledToZero: true}},
		"some replicas":   {function(func(f *v1alpha1.Function) { f.Spec.Replicas = new(int32(2)) }), Spec{Timeout: defaultTimeout}},
		"failed before":   {function(func(f *v1alpha1.Function) { f.Status.Phase = v1alpha1.FunctionFailed; f.Status.ObservedGeneration = 1 }), Spec{Timeout: defaultTimeout}},
		"failed as it is": {function(func(f *v1alpha1.Function) { f.Status.Phase = v1alpha1.FunctionFailed; f.Status.ObservedGeneration = 2 }), Spec{Timeout: defaultTimeout, Hopeless: true}},
	} {
		if diff := cmp.Diff(&test.want, Compile(test.function, nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAllows(t *testing.T) {
	all, some := &Spec{}, &Spec{Methods: []string{"GET"}}
	if !all.Allows("ANY") || !some.Allows("GET") || some.Allows("get") || some.Allows("HEAD") {
		t.Error("wrong")
	}
}
