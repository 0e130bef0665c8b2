package trigger

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/naeel/sless/api/v1alpha1"
)

// Every rule of the type, with what it lets through and what it refuses, on a real API server.
func TestAdmission(t *testing.T) {
	namespace := newNamespace(t)
	cron := func(schedule string) func(*v1alpha1.Trigger) {
		return func(trigger *v1alpha1.Trigger) { trigger.Spec.Cron.Schedule = schedule }
	}
	zone := func(name string) func(*v1alpha1.Trigger) {
		return func(trigger *v1alpha1.Trigger) { trigger.Spec.Cron.TimeZone = name }
	}
	for _, test := range []struct {
		name   string
		change func(*v1alpha1.Trigger)
		refuse string // part of the message; empty for what is let through
	}{
		{"five fields", cron("0 1 * * *"), ""},
		{"the last day", cron("0 0 L * *"), "the day of month"},
		{"steps of everything", cron("*/15,7 8-18/2 1,15 JAN-jun,12 mon-FRI,0"), ""},
		{"question marks", cron("0 0 ? * ?"), ""},
		{"much space", cron("  0   0  1  1  *  "), ""},
		{"the last of everything", cron("59 23 31 12 6"), ""},
		{"macro", cron("@daily"), ""},
		{"six fields", cron("0 0 1 * * *"), "five fields"},
		{"four fields", cron("0 1 * *"), "five fields"},
		{"@every", cron("@every 5m"), "five fields"},
		{"@reboot", cron("@reboot"), "five fields"},
		{"a zone inside", cron("TZ=Asia/Tokyo 0 0 * * *"), "five fields"},
		{"step of nothing", cron("*/0 * * * *"), "a step of at least 1"},
		{"step of nothing in a list", cron("1,*/00 * * * *"), "a step of at least 1"},
		{"minute 60", cron("60 * * * *"), "the minute"},
		{"hour 24", cron("0 24 * * *"), "the hour"},
		{"day 32", cron("0 0 32 * *"), "the day of month"},
		{"day 0", cron("0 0 0 * *"), "the day of month"},
		{"month 13", cron("0 0 1 13 *"), "the month"},
		{"no such month", cron("0 0 1 FOO *"), "the month"},
		{"weekday 7", cron("0 0 * * 7"), "0 (Sunday)"},
		{"half a list", cron("1, * * * *"), "the minute"},
		{"half a range", cron("*-5 * * * *"), "the minute"},
		{"negative", cron("-1 * * * *"), "the minute"},
		{"a tab", cron("0\t0 * * *"), "five fields"},
		{"empty", cron(""), "should be at least 1 chars"},
		{"too long", cron(strings.Repeat("1,", 60) + "1 * * * *" + strings.Repeat(" ", 20)), "may not be more than 128"},

		{"zone", zone("America/Argentina/Buenos_Aires"), ""},
		{"zone with a sign", zone("Etc/GMT+5"), ""},
		{"the operator's own zone", zone("Local"), "IANA"},
		{"a path as a zone", zone("../etc/passwd"), "should match"},

		{"event at the limit", func(t *v1alpha1.Trigger) { t.Spec.Cron.EventJSON = `"` + strings.Repeat("a", 96<<10-2) + `"` }, ""},
		{"event over the limit", func(t *v1alpha1.Trigger) { t.Spec.Cron.EventJSON = strings.Repeat("a", 96<<10+1) }, "may not be more than 98304"},
		{"event over the limit in bytes", func(t *v1alpha1.Trigger) { t.Spec.Cron.EventJSON = strings.Repeat("ж", 50<<10) }, "96 KiB"},
		{"deadline 0", func(t *v1alpha1.Trigger) { t.Spec.Cron.StartingDeadlineSeconds = -1 }, "greater than or equal to 1"},
		{"no such policy", func(t *v1alpha1.Trigger) { t.Spec.Cron.ConcurrencyPolicy = "Queue" }, "Unsupported value"},

		{"cron without its block", func(t *v1alpha1.Trigger) { t.Spec.Cron = nil }, "exactly the block that type names"},
		{"cron with the other block", func(t *v1alpha1.Trigger) { t.Spec.HTTP = &v1alpha1.HTTPTrigger{} }, "exactly the block that type names"},
		{"http alone", func(t *v1alpha1.Trigger) { t.Spec.Type, t.Spec.Cron = v1alpha1.TriggerHTTP, nil }, ""},
		{"http with a schedule", func(t *v1alpha1.Trigger) { t.Spec.Type = v1alpha1.TriggerHTTP }, "exactly the block that type names"},
		{"no such method", func(t *v1alpha1.Trigger) {
			t.Spec.Type, t.Spec.Cron, t.Spec.HTTP = v1alpha1.TriggerHTTP, nil, &v1alpha1.HTTPTrigger{Methods: []string{"get"}}
		}, "Unsupported value"},
		{"no such type", func(t *v1alpha1.Trigger) { t.Spec.Type = "queue" }, "Unsupported value"},
		{"a function that can't be", func(t *v1alpha1.Trigger) { t.Spec.FunctionRef.Name = "My_Fn" }, "should match"},
		{"a name with a dot", func(t *v1alpha1.Trigger) { t.Name = "a.b" }, "must be a DNS label"},
		{"the longest name", func(t *v1alpha1.Trigger) { t.Name = strings.Repeat("a", 63) }, ""},
		{"a longer name", func(t *v1alpha1.Trigger) { t.Name = strings.Repeat("a", 64) }, "must be a DNS label"},
	} {
		t.Run(test.name, func(t *testing.T) {
			trigger := newTrigger(namespace, "t", v1alpha1.TriggerSpec{Cron: &v1alpha1.CronTrigger{Schedule: "* * * * *"}})
			test.change(trigger)
			err := kube.Create(t.Context(), trigger)
			switch {
			case test.refuse == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.refuse != "" && !apierrors.IsInvalid(err):
				t.Errorf("let through, or not refused as invalid: %v", err)
			case test.refuse != "" && !strings.Contains(err.Error(), test.refuse):
				t.Errorf("refused without %q: %v", test.refuse, err)
			}
			if err == nil {
				if err := kube.Delete(t.Context(), trigger); err != nil {
					t.Fatal(err)
				}
			}
		})
	}

	trigger := create(t, newTrigger(namespace, "t", v1alpha1.TriggerSpec{Cron: &v1alpha1.CronTrigger{Schedule: "* * * * *"}}))
	spec := trigger.Spec
	if !*spec.Enabled || spec.Cron.TimeZone != "UTC" || spec.Cron.ConcurrencyPolicy != v1alpha1.ForbidConcurrent || spec.Cron.StartingDeadlineSeconds != 60 {
		t.Errorf("the defaults are %+v of %+v", spec, spec.Cron)
	}
	trigger.Spec.Type, trigger.Spec.Cron = v1alpha1.TriggerHTTP, nil
	if err := kube.Update(t.Context(), trigger); err == nil || !strings.Contains(err.Error(), "type can't be changed") {
		t.Errorf("the type was changed: %v", err)
	}
}
