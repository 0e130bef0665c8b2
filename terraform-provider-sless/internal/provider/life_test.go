package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/naeel/sless/api/rest"
)

// TestTimeouts holds that the blocks bound every wait, and that the error says what was seen last.
func TestTimeouts(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, api.URL, nil)
	limit := func(kind, what string) tftypes.Value {
		return c.object(c.kind(kind).(tftypes.Object).AttributeTypes["timeouts"], values{what: "300ms"})
	}
	building := func() {
		api.status = func(fn *rest.Function) *rest.FunctionStatus {
			return &rest.FunctionStatus{Status: rest.Status{Phase: rest.FunctionBuilding, Reason: "Installing", ObservedGeneration: fn.Generation}}
		}
	}
	with := func(text, what string) values {
		return hello(values{"inline": map[string]string{"handler.py": text}, "timeouts": limit("sless_function", what)})
	}
	function := c.instance("sless_function")
	api.set(building)
	created := function.apply(t.Context(), function.plan(with("one", "create")))
	api.set(func() { api.status = nil })
	function.must(with("one", "update"))
	api.set(building)
	updated := function.apply(t.Context(), function.plan(with("two", "update")))
	api.set(func() { api.status = nil })
	for _, failure := range []string{created, updated} {
		if !strings.Contains(failure, "no end after") || !strings.Contains(failure, "Last seen: Building Installing.") {
			t.Errorf("the failure is %s", failure)
		}
	}
	trigger, job := c.instance("sless_trigger"), c.instance("sless_job")
	function.must(with("two", "delete"))
	trigger.must(values{"name": "it", "function": "hello", "type": "http", "timeouts": limit("sless_trigger", "delete")})
	job.must(values{"name": "it", "function": "hello", "timeouts": limit("sless_job", "delete")})
	api.set(func() {
		api.before = func(w http.ResponseWriter, r *http.Request) bool { // nothing ever goes
			if r.Method == http.MethodDelete {
				answerJSON(w, http.StatusOK, nil)
			}
			return r.Method == http.MethodDelete
		}
	})
	for _, kept := range []*instance{function, trigger, job} {
		if failure := kept.destroy(); !strings.Contains(failure, "can't be deleted") || !strings.Contains(failure, "no end after") || kept.state.IsNull() {
			t.Errorf("%s: %s", kept.kind, failure)
		}
	}
	if got := (&functionModel{functionAttributes: functionAttributes{BuildTimeoutSec: types.Int64Value(300)}}).patience(); got != 7*time.Minute {
		t.Errorf("without a block a build of 300 s is waited for %s", got)
	}
}

// TestPoll holds how often is looked: soon at first, at least twice a second when the end is near, else at least every five.
func TestPoll(t *testing.T) {
	for state, longest := range map[progress]time.Duration{near: quickPause, far: 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			started := time.Now()
			var pauses []time.Duration
			last := started
			err := poll(t.Context(), 10*time.Minute, func(context.Context) (progress, error) {
				pauses = append(pauses, time.Since(last))
				last = time.Now()
				return state, nil
			})
			if !errors.As(err, &stillWaiting{}) || time.Since(started) != 10*time.Minute {
				t.Errorf("%v after %s", err, time.Since(started))
			}
			if pauses[0] != 0 || pauses[1] != firstPause || slices.Max(pauses) != longest {
				t.Errorf("pauses %s, %s … at most %s", pauses[0], pauses[1], slices.Max(pauses))
			}
		})
	}
}

// TestFailedSettings holds that a change of settings which does not come through is still to do, and heals by itself or by another apply.
func TestFailedSettings(t *testing.T) {
	api := newFakeAPI(t)
	function := newCore(t, api.URL, nil).instance("sless_function")
	with := func(value string) values {
		return hello(values{"inline": map[string]string{"handler.py": "x"}, "env": map[string]string{"A": value}})
	}
	function.must(with("good"))
	api.set(func() {
		api.status = func(fn *rest.Function) *rest.FunctionStatus {
			status := readyStatus(fn)
			status.Phase, status.Reason, status.Message = rest.FunctionFailed, "PodsFailing", "the handler ends at once"
			return status
		}
	})
	for range 2 {
		if failure := function.apply(t.Context(), function.plan(with("bad"))); !strings.Contains(failure, "PodsFailing") {
			t.Errorf("the failure is %s", failure)
		}
		if failure := function.read(); failure != "" {
			t.Fatal(failure)
		}
		if changes := function.changes(function.plan(with("bad"))); changes != "phase url" {
			t.Errorf("the next plan changes %q", changes)
		}
	}
	api.set(func() { api.status = nil })
	function.must(with("bad"))
	if changes := function.changes(function.plan(with("bad"))); changes != "" {
		t.Errorf("after it healed the plan changes %q", changes)
	}
}

// TestTriggerInPlace changes each attribute of a trigger alone: in place, with that field alone, and back to its default when it is left
// out again. That somebody disabled it by other means is seen.
func TestTriggerInPlace(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, api.URL, nil)
	for _, test := range []struct {
		base   values
		change values
		fields []string
	}{
		{values{"type": "cron", "schedule": "@daily"}, values{"enabled": false}, []string{"enabled"}},
		{values{"type": "cron", "schedule": "@daily"}, values{"function": "other"}, []string{"function"}},
		{values{"type": "cron", "schedule": "@daily"}, values{"schedule": "@hourly"}, []string{"schedule"}},
		{values{"type": "cron", "schedule": "@daily"}, values{"time_zone": "Asia/Tokyo"}, []string{"time_zone"}},
		{values{"type": "cron", "schedule": "@daily"}, values{"event_json": "[1]"}, []string{"event_json"}},
		{values{"type": "cron", "schedule": "@daily"}, values{"concurrency_policy": "Allow"}, []string{"concurrency_policy"}},
		{values{"type": "cron", "schedule": "@daily"}, values{"starting_deadline_sec": 7}, []string{"starting_deadline_sec"}},
		{values{"type": "http"}, values{"payload": "body"}, []string{"payload"}},
		{values{"type": "http"}, values{"enabled": false}, []string{"enabled"}},
	} {
		api.set(func() { clear(api.triggers) })
		trigger := c.instance("sless_trigger")
		set := values{"name": "it", "function": "hello"}
		for name, value := range test.base {
			set[name] = value
		}
		changed := values{}
		for name, value := range set {
			changed[name] = value
		}
		for name, value := range test.change {
			changed[name] = value
		}
		trigger.must(set)
		original := encode(t, api.triggers["it"])
		for _, to := range []values{changed, set} {
			planned := trigger.plan(to)
			if len(planned.replaces) != 0 {
				t.Errorf("%v replaces %v", test.change, planned.replaces)
			}
			if failure := trigger.apply(t.Context(), planned); failure != "" {
				t.Fatal(failure)
			}
			patch := api.patches[len(api.patches)-1]
			for _, field := range test.fields {
				if _, ok := patch[field]; !ok || len(patch) != len(test.fields) {
					t.Errorf("%v: wrote %v", test.change, patch)
				}
			}
		}
		restored := encode(t, api.triggers["it"])
		delete(original, "generation")
		delete(restored, "generation")
		if fmt.Sprint(restored) != fmt.Sprint(original) {
			t.Errorf("%v and back: the API has %v, had %v", test.change, restored, original)
		}
		api.set(func() { api.triggers["it"].Enabled = new(false) })
		if failure := trigger.read(); failure != "" {
			t.Fatal(failure)
		}
		if changes := trigger.changes(trigger.plan(set)); !strings.Contains(changes, "enabled") {
			t.Errorf("disabled by others: the plan changes %q", changes)
		}
	}
	trigger := c.instance("sless_trigger")
	trigger.must(values{"name": "other", "function": "hello", "type": "http"})
	for _, set := range []values{{"name": "new", "function": "hello", "type": "http"}, {"name": "other", "function": "hello", "type": "cron", "schedule": "@daily"}} {
		if planned := trigger.plan(set); len(planned.replaces) != 1 {
			t.Errorf("%v replaces %v", set, planned.replaces)
		}
	}
}

// TestTriggerWaits holds that a trigger whose function or address another part of the same apply is about to mend is waited for, and that
// another failure ends the apply at once, with the trigger in the state and still to be mended.
func TestTriggerWaits(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, api.URL, nil)
	looks := 0
	fails := func(reason string, times int) {
		looks = 0
		api.set(func() {
			api.fire = func(trigger *rest.Trigger) *rest.TriggerStatus {
				status := &rest.TriggerStatus{Status: rest.Status{Phase: rest.TriggerFailed, Reason: reason, Message: "said by the test", ObservedGeneration: trigger.Generation}}
				if looks++; looks > times {
					status.Phase, status.Reason, status.URL = rest.TriggerReady, serving, "https://example.org/fn/hello"
				}
				return status
			}
		})
	}
	set := values{"name": "it", "function": "hello", "type": "http"}
	for reason := range othersMend {
		api.set(func() { clear(api.triggers) })
		fails(reason, 2)
		trigger := c.instance("sless_trigger")
		if trigger.must(set); trigger.text("url") == "" || looks < 3 {
			t.Errorf("%s: url %q after %d looks", reason, trigger.text("url"), looks)
		}
	}
	api.set(func() { clear(api.triggers) })
	fails("ScheduleInvalid", 100)
	trigger := c.instance("sless_trigger")
	if failure := trigger.apply(t.Context(), trigger.plan(set)); !strings.Contains(failure, "ScheduleInvalid") || !strings.Contains(failure, "said by the test") || looks != 1 || trigger.state.IsNull() {
		t.Errorf("after %d looks: %s", looks, failure)
	}
	fails("", 0)
	if changes := trigger.changes(trigger.plan(set)); changes != "phase url" {
		t.Errorf("the next plan changes %q", changes)
	}
	trigger.must(set)
}

// TestDataSources holds what each data source and list reads.
func TestDataSources(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, api.URL, nil)
	c.instance("sless_function").must(hello(values{"inline": map[string]string{"handler.py": "x"}, "memory_mb": 64, "secret_env": map[string]string{"KEY": "s3cr3t"}}))
	c.instance("sless_trigger").must(values{"name": "it", "function": "hello", "type": "http"})
	c.instance("sless_job").must(values{"name": "it", "function": "hello", "run_id": 1})
	for kind, want := range map[string]map[string]string{
		"function": {"id": "ns/hello", "runtime": "python3.11", "phase": "Ready", "image": "registry/it@"},
		"trigger":  {"id": "ns/it", "function": "hello", "phase": "Ready", "url": "https://example.org/fn/hello", "message": "fires"},
		"job":      {"id": "ns/it", "function": "hello", "phase": "Succeeded", "result": `{"done":true}`},
	} {
		one, failure := c.data("sless_"+kind, values{"name": strings.TrimPrefix(want["id"], "ns/")})
		if failure != "" {
			t.Fatal(failure)
		}
		list, failure := c.data("sless_"+kind+"s", values{"label_selector": "team=a"})
		if failure != "" {
			t.Fatal(failure)
		}
		var all []tftypes.Value
		if err := attributeOf(t, list, kind+"s").As(&all); err != nil || len(all) != 1 {
			t.Fatalf("%ss: %v, %v", kind, all, err)
		}
		for name, text := range want {
			for _, object := range []tftypes.Value{one, all[0]} {
				if got := attributeOf(t, object, name); !got.Equal(tftypes.NewValue(tftypes.String, text)) {
					t.Errorf("%s of %s is %s, want %s", name, kind, got, text)
				}
			}
		}
		if strings.Contains(one.String(), "s3cr3t") {
			t.Error("a data source shows a secret")
		}
		if _, failure := c.data("sless_"+kind, values{"name": "nowhere"}); !strings.Contains(failure, rest.CodeNotFound) {
			t.Errorf("an absent %s: %s", kind, failure)
		}
	}
	if !slices.Equal(api.selectors, []string{"team=a", "team=a", "team=a"}) {
		t.Errorf("the selectors are %q", api.selectors)
	}
}

// TestInvocationsDataSource holds what the data source asks for, reads, and says when it can't.
func TestInvocationsDataSource(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, api.URL, nil)
	var asked url.Values
	status, code := 0, ""
	api.before = func(w http.ResponseWriter, r *http.Request) bool {
		asked = r.URL.Query()
		switch {
		case status == http.StatusUnprocessableEntity:
			problem(w, status, code, rest.FieldError{Location: "query.kind", Message: "said of kind"})
		case status != 0:
			problem(w, status, code)
		default:
			answerJSON(w, http.StatusOK, rest.Invocations{Items: []rest.Invocation{{ID: "a", Kind: "cron", StartedAt: time.Date(2026, 1, 1, 0, 0, 0, 5000, time.UTC), Status: 504, DurationMS: 1.5}}, Continue: "x"})
		}
		return true
	}
	read, failure := c.data("sless_invocations", values{"function": "f", "trigger": "t", "job": "j", "kind": "cron", "status": "5xx", "from": "2026-01-01T01:00:00+01:00", "to": "2026-01-02T00:00:00Z", "limit": 7})
	if failure != "" {
		t.Fatal(failure)
	}
	if want := (url.Values{
		"function": {"f"}, "trigger": {"t"}, "job": {"j"}, "kind": {"cron"}, "status": {"5xx"}, "from": {"2026-01-01T00:00:00Z"}, "to": {"2026-01-02T00:00:00Z"}, "limit": {"7"},
	}); asked.Encode() != want.Encode() {
		t.Errorf("asked for %v", asked)
	}
	var all []tftypes.Value
	if err := attributeOf(t, read, "invocations").As(&all); err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	for name, want := range map[string]tftypes.Value{
		"id": tftypes.NewValue(tftypes.String, "a"), "started_at": tftypes.NewValue(tftypes.String, "2026-01-01T00:00:00.000005Z"),
		"status": tftypes.NewValue(tftypes.Number, 504), "duration_ms": tftypes.NewValue(tftypes.Number, 1.5),
	} {
		if got := attributeOf(t, all[0], name); !got.Equal(want) {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	for name, set := range map[string]values{"no time": {"from": "yesterday"}, "limit is 0": {"limit": 0}} {
		if _, failure := c.data("sless_invocations", set); !strings.Contains(failure, name) {
			t.Errorf("%v: %s", set, failure)
		}
	}
	status, code = http.StatusServiceUnavailable, rest.CodeLedgerOff
	if _, failure := c.data("sless_invocations", values{}); !strings.Contains(failure, rest.CodeLedgerOff) {
		t.Errorf("without a ledger: %s", failure)
	}
	status, code = http.StatusUnprocessableEntity, rest.CodeInvalid
	if _, failure := c.data("sless_invocations", values{"kind": "mail"}); !strings.Contains(failure, "said of kind") {
		t.Errorf("a bad filter: %s", failure)
	}
}

// TestStateOfAnOlderVersion holds that attributes which a state does not have yet change nothing.
func TestStateOfAnOlderVersion(t *testing.T) {
	api := newFakeAPI(t)
	c := newCore(t, api.URL, nil)
	for kind, test := range map[string]struct {
		set   values
		fresh []string
	}{
		"sless_function": {hello(values{"inline": map[string]string{"handler.py": "x"}}), []string{"http", "git", "build_secret_name", "source_revision", "timeouts"}},
		"sless_job":      {values{"name": "it", "function": "hello", "run_id": 1}, []string{"timeouts", "result_truncated"}},
		"sless_trigger":  {values{"name": "it", "function": "hello", "type": "http"}, []string{"timeouts"}},
	} {
		object := c.instance(kind)
		object.must(test.set)
		state := map[string]any{}
		for _, attribute := range c.schema.ResourceSchemas[kind].Block.Attributes {
			if !slices.Contains(test.fresh, attribute.Name) {
				state[attribute.Name] = plain(t, object.attribute(attribute.Name))
			}
		}
		text, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.server.UpgradeResourceState(t.Context(), &tfprotov6.UpgradeResourceStateRequest{TypeName: kind, RawState: &tfprotov6.RawState{JSON: text}})
		if err != nil {
			t.Fatal(err)
		}
		c.fine("upgrade", answer.Diagnostics)
		if object.state, err = answer.UpgradedState.Unmarshal(c.kind(kind)); err != nil {
			t.Fatal(err)
		}
		if failure := object.read(); failure != "" {
			t.Fatal(failure)
		}
		if planned := object.plan(test.set); object.changes(planned) != "" || len(planned.replaces) != 0 {
			t.Errorf("%s: the plan changes %s and replaces %v", kind, object.changes(planned), planned.replaces)
		}
	}
}

// plain is a value as JSON has it.
func plain(t *testing.T, value tftypes.Value) any {
	t.Helper()
	switch {
	case value.IsNull():
		return nil
	case value.Type().Is(tftypes.String):
		var text string
		if err := value.As(&text); err != nil {
			t.Fatal(err)
		}
		return text
	case value.Type().Is(tftypes.Bool):
		var yes bool
		if err := value.As(&yes); err != nil {
			t.Fatal(err)
		}
		return yes
	case value.Type().Is(tftypes.Map{}):
		all, plainly := map[string]tftypes.Value{}, map[string]any{}
		if err := value.As(&all); err != nil {
			t.Fatal(err)
		}
		for name, element := range all {
			plainly[name] = plain(t, element)
		}
		return plainly
	}
	return json.Number(strings.Trim(strings.TrimPrefix(value.String(), "tftypes.Number"), `<">`))
}
