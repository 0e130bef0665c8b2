package trigger

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
	"github.com/naeel/sless/operator/internal/kstatustest"
)

var update = flag.Bool("update", false, "write the golden files")

func httpTrigger(name, created string) *v1alpha1.Trigger {
	return &v1alpha1.Trigger{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid", Generation: 3, CreationTimestamp: metav1.NewTime(day(created))},
		Spec:       v1alpha1.TriggerSpec{FunctionRef: v1alpha1.FunctionRef{Name: "f"}, Type: v1alpha1.TriggerHTTP},
	}
}

// function says of itself that it is ready or not, and that replicas answer or none does.
func function(status metav1.ConditionStatus, reason string, answering bool) *v1alpha1.Function {
	url := ""
	if answering {
		url = "https://where.it.answers"
	}
	return &v1alpha1.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "f", Generation: 2},
		Spec:       v1alpha1.FunctionSpec{TimeoutSeconds: 60},
		Status: v1alpha1.FunctionStatus{URL: url, Conditions: []metav1.Condition{
			{Type: v1alpha1.Ready, Status: status, Reason: reason, Message: "what the Function says", ObservedGeneration: 2},
		}},
	}
}

func TestVerdict(t *testing.T) {
	ready := func() *v1alpha1.Function { return function("True", "Ready", true) }
	path := address{url: "https://functions.example.org/fn/ns/f"}
	for _, test := range []struct {
		name    string
		change  func(*scope)
		status  metav1.ConditionStatus
		reason  string
		message string
		phase   v1alpha1.TriggerPhase
		url     bool
	}{
		{"serves", func(*scope) {}, "True", "Ready", "calls reach", "Ready", true},
		{"disabled", func(s *scope) { s.trigger.Spec.Enabled = new(false) }, "True", "Disabled", "spec.enabled", "Disabled", false},
		{"disabled before everything else", func(s *scope) { s.trigger.Spec.Enabled, s.function = new(false), nil }, "True", "Disabled", "spec.enabled", "Disabled", false},
		{"no function", func(s *scope) { s.function = nil }, "False", "FunctionNotFound", "Function f does not exist in namespace ns", "Failed", false},
		{"an older trigger", func(s *scope) { s.winner = httpTrigger("older", "08:00:00") }, "False", "Conflict", "older http Trigger older", "Failed", false},
		{"no address", func(s *scope) { s.address = address{} }, "False", "NoAddress", "external URL", "Failed", false},
		{"bad schedule", func(s *scope) { s.invalid = &invalid{"InvalidSchedule", "why"} }, "False", "InvalidSchedule", "why", "Failed", true},
		{"function not seen yet", func(s *scope) { s.function = &v1alpha1.Function{} }, "Unknown", "FunctionNotReady", "waits", "Pending", false},
		{"function edited and not seen since", func(s *scope) { s.function.Generation, s.before.Status.URL = 3, path.url }, "Unknown", "FunctionNotReady", "waits", "Pending", true},
		{"function builds first", func(s *scope) { s.function = function("Unknown", "Building", false) }, "Unknown", "FunctionNotReady", "waits", "Pending", false},
		{"function rolls, the old version serves", func(s *scope) {
			s.function, s.before.Status.URL = function("Unknown", "Deploying", true), path.url
		}, "Unknown", "FunctionNotReady", "waits", "Pending", true},
		{"function starts, no gateway knows it", func(s *scope) { s.function = function("Unknown", "Routing", true) }, "Unknown", "FunctionNotReady", "waits", "Pending", false},
		{"function failed", func(s *scope) { s.function = function("False", "BuildFailed", false) }, "False", "FunctionFailed", "BuildFailed: what the Function says", "Failed", false},
		{"replicas 0", func(s *scope) {
			s.function = function("True", "ScaledToZero", false)
			s.function.Spec.Replicas = new(int32(0))
		}, "True", "ScaledToZero", "replicas 0", "Ready", false},
		{"replicas 0, pods still going", func(s *scope) { s.function.Spec.Replicas = new(int32(0)); s.function.Generation = 3 }, "Unknown", "FunctionNotReady", "waits", "Pending", false},
		{"just enabled", func(s *scope) { s.function = function("True", "Disabled", false) }, "Unknown", "FunctionNotReady", "waits", "Pending", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &scope{trigger: httpTrigger("t", "09:00:00"), before: httpTrigger("t", "09:00:00"), function: ready(), address: path}
			test.change(s)
			setStatus(s)
			got := s.trigger.Status.Conditions[0]
			if got.Status != test.status || got.Reason != test.reason || !strings.Contains(got.Message, test.message) || got.ObservedGeneration != 3 {
				t.Errorf("Ready is %s %s %q of generation %d", got.Status, got.Reason, got.Message, got.ObservedGeneration)
			}
			if got, want := kstatustest.Of(t, s.trigger), map[metav1.ConditionStatus]string{"True": "Current", "Unknown": "InProgress", "False": "Failed"}[test.status]; got != want {
				t.Errorf("kstatus says %s, want %s", got, want)
			}
			if s.trigger.Status.Phase != test.phase {
				t.Errorf("phase %s, want %s", s.trigger.Status.Phase, test.phase)
			}
			if got := s.serves(); got != test.url {
				t.Errorf("serves is %v", got)
			}
		})
	}
}

func TestWinner(t *testing.T) {
	oldest, sameSecond, newest := httpTrigger("b", "09:00:00"), httpTrigger("c", "09:00:00"), httpTrigger("a", "10:00:00")
	oldest.UID, sameSecond.UID, newest.UID = "1", "2", "3"
	all := []v1alpha1.Trigger{*newest, *sameSecond, *oldest}
	for trigger, want := range map[*v1alpha1.Trigger]string{oldest: "", sameSecond: "b", newest: "b"} {
		got := ""
		if first := winner(trigger, all); first != nil {
			got = first.Name
		}
		if got != want {
			t.Errorf("%s loses to %q, want %q", trigger.Name, got, want)
		}
	}
	off := *oldest
	off.Spec.Enabled = new(false)
	if first := winner(sameSecond, []v1alpha1.Trigger{off, *sameSecond, *newest}); first != nil {
		t.Errorf("a disabled Trigger wins: %s", first.Name)
	}
	cron := *oldest
	cron.Spec.Type = v1alpha1.TriggerCron
	if first := winner(sameSecond, []v1alpha1.Trigger{cron, *sameSecond}); first != nil {
		t.Errorf("a cron Trigger wins: %s", first.Name)
	}
	going := *oldest
	going.DeletionTimestamp = new(metav1.Now())
	if first := winner(sameSecond, []v1alpha1.Trigger{going, *sameSecond}); first != nil {
		t.Errorf("a Trigger that is being deleted wins: %s", first.Name)
	}
}

func TestAddress(t *testing.T) {
	trigger := httpTrigger("t", "09:00:00")
	for _, test := range []struct {
		platform  config.Config
		url, host string
	}{
		{config.Config{}, "", ""},
		{config.Config{ExternalURL: "https://functions.example.org"}, "https://functions.example.org/fn/ns/f", ""},
		{config.Config{ExternalURL: "https://functions.example.org", Domain: "example.org"}, "https://functions.example.org/fn/ns/f", "f-ns-"},
		{config.Config{Domain: "example.org"}, "http://f-ns-", "f-ns-"},
		{config.Config{Domain: "example.org", Ingress: config.Ingress{TLSSecretName: "wild"}}, "https://f-ns-", "f-ns-"},
	} {
		got := addressOf(&test.platform, trigger)
		if !strings.HasPrefix(got.url, test.url) || !strings.HasPrefix(got.host, test.host) || (test.host == "") != (got.host == "") {
			t.Errorf("address %+v, want %s… and host %s…", got, test.url, test.host)
		}
	}
}

func TestIngressIsGolden(t *testing.T) {
	trigger := httpTrigger("t", "09:00:00")
	for name, shape := range map[string]config.Ingress{"plain": {}, "tls": {ClassName: "nginx", TLSSecretName: "wildcard"}} {
		built := buildIngress(shape, trigger, addressOf(&config.Config{Domain: "example.org"}, trigger).host)
		got, err := yaml.Marshal(built)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", "ingress-"+name+".yaml")
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}

		stored := &networkingv1.Ingress{}
		text, err := json.Marshal(built)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, stored); err != nil {
			t.Fatal(err)
		}
		if shape.ClassName == "" {
			stored.Spec.IngressClassName = new("the cluster's default")
		}
		if !isApplied(stored, built) {
			t.Errorf("%s: what was written is not what is wanted", name)
		}
		stored.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name = "another"
		if isApplied(stored, built) {
			t.Errorf("%s: a changed backend is not noticed", name)
		}
	}
}
