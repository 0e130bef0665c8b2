package watch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/gateway/internal/backend"
)

func slice(family discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{AddressType: family, Endpoints: endpoints, Ports: []discoveryv1.EndpointPort{
		{Name: new("other"), Port: new(int32(1))}, {Name: new(names.PortName), Port: new(int32(8080))},
	}}
}

func endpoint(address, uid string, conditions discoveryv1.EndpointConditions) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{address}, Conditions: conditions, TargetRef: &corev1.ObjectReference{UID: types.UID(uid)}}
}

func TestTargets(t *testing.T) {
	yes, no := new(true), new(false)
	ready := discoveryv1.EndpointConditions{Ready: yes, Serving: yes, Terminating: no}
	for name, test := range map[string]struct {
		slices []*discoveryv1.EndpointSlice
		want   []backend.Target
	}{
		"none": {},
		"conditions": {
			[]*discoveryv1.EndpointSlice{slice(discoveryv1.AddressTypeIPv4,
				endpoint("10.0.0.1", "a", ready),
				endpoint("10.0.0.2", "b", discoveryv1.EndpointConditions{}),
				endpoint("10.0.0.3", "c", discoveryv1.EndpointConditions{Ready: no, Serving: no, Terminating: no}),
				endpoint("10.0.0.4", "d", discoveryv1.EndpointConditions{Ready: no, Serving: yes, Terminating: yes}),
				discoveryv1.Endpoint{},
			)},
			[]backend.Target{
				{Address: "10.0.0.1:8080", UID: "a", Ready: true, Serving: true},
				{Address: "10.0.0.2:8080", UID: "b", Ready: true, Serving: true},
				{Address: "10.0.0.3:8080", UID: "c"},
				{Address: "10.0.0.4:8080", UID: "d", Serving: true, Terminating: true},
			},
		},
		"two slices": {
			[]*discoveryv1.EndpointSlice{slice(discoveryv1.AddressTypeIPv4, endpoint("10.0.0.1", "a", ready)), slice(discoveryv1.AddressTypeIPv4, endpoint("10.0.0.2", "b", ready))},
			[]backend.Target{{Address: "10.0.0.1:8080", UID: "a", Ready: true, Serving: true}, {Address: "10.0.0.2:8080", UID: "b", Ready: true, Serving: true}},
		},
		"twice": {
			[]*discoveryv1.EndpointSlice{
				slice(discoveryv1.AddressTypeIPv4, endpoint("10.0.0.1", "a", ready)),
				slice(discoveryv1.AddressTypeIPv4, endpoint("10.0.0.1", "a", discoveryv1.EndpointConditions{Ready: no, Serving: yes, Terminating: yes})),
			},
			[]backend.Target{{Address: "10.0.0.1:8080", UID: "a", Serving: true, Terminating: true}},
		},
		"two families": {
			[]*discoveryv1.EndpointSlice{slice(discoveryv1.AddressTypeIPv6, endpoint("fd00::1", "a", ready)), slice(discoveryv1.AddressTypeIPv4, endpoint("10.0.0.1", "a", ready))},
			[]backend.Target{{Address: "10.0.0.1:8080", UID: "a", Ready: true, Serving: true}},
		},
		"IPv6 alone": {
			[]*discoveryv1.EndpointSlice{slice(discoveryv1.AddressTypeIPv6, endpoint("fd00::1", "a", ready)), slice(discoveryv1.AddressTypeIPv4)},
			[]backend.Target{{Address: "[fd00::1]:8080", UID: "a", Ready: true, Serving: true}},
		},
	} {
		if diff := cmp.Diff(test.want, targets(test.slices)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestStrip holds that nothing large or secret enters the cache, and that routing loses nothing.
func TestStrip(t *testing.T) {
	function := &v1alpha1.Function{}
	function.Name, function.Namespace, function.Generation = "f", "ns", 3
	function.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	function.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "code"}
	function.Spec.Source.Inline = map[string]v1alpha1.InlineFile{"handler.py": "code"}
	function.Spec.Env = []v1alpha1.EnvVar{{Name: "A", Value: "secret"}}
	function.Spec.TimeoutSeconds, function.Spec.Replicas, function.Spec.Concurrency = 5, new(int32(2)), new(int32(3))
	function.Status.Image, function.Status.CodeHash = "i@sha256:1", "v1"
	function.Status.Phase, function.Status.ObservedGeneration, function.Status.URL = v1alpha1.FunctionFailed, 3, "u"
	want := &v1alpha1.Function{}
	want.Name, want.Namespace, want.Generation = "f", "ns", 3
	want.Spec.TimeoutSeconds, want.Spec.Replicas, want.Spec.Concurrency = 5, new(int32(2)), new(int32(3))
	want.Status.Phase, want.Status.ObservedGeneration = v1alpha1.FunctionFailed, 3
	want.Status.Image, want.Status.CodeHash = "i@sha256:1", "v1"
	check(t, "Function", want, function)

	trigger := &v1alpha1.Trigger{}
	trigger.Name = "t"
	trigger.Spec = v1alpha1.TriggerSpec{FunctionRef: v1alpha1.FunctionRef{Name: "f"}, Enabled: new(false), Type: v1alpha1.TriggerCron, Cron: &v1alpha1.CronTrigger{EventJSON: "secret"}}
	trigger.Status.History = []v1alpha1.TriggerRun{{ID: "1"}}
	lean := trigger.DeepCopy()
	lean.Spec.Cron, lean.Status.History = nil, nil
	check(t, "Trigger", lean, trigger)

	full := slice(discoveryv1.AddressTypeIPv4, endpoint("10.0.0.1", "a", discoveryv1.EndpointConditions{}))
	full.Labels = map[string]string{names.NamespaceLabel: "ns", names.NameLabel: "f", names.RevisionLabel: "r1"}
	kept := full.DeepCopy()
	full.Labels["other"] = "x"
	full.Endpoints[0].Zone = new("z")
	check(t, "EndpointSlice", kept, full)

	if _, err := strip(&corev1.Pod{}); err == nil {
		t.Error("a Pod is let in")
	}
}

func check(t *testing.T, what string, want, full any) {
	t.Helper()
	got, err := strip(full)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestWanted(t *testing.T) {
	labelled := func(revision string) *discoveryv1.EndpointSlice {
		s := slice(discoveryv1.AddressTypeIPv4)
		s.Labels = map[string]string{names.RevisionLabel: revision}
		return s
	}
	for _, test := range []struct {
		want   string
		slices []*discoveryv1.EndpointSlice
	}{
		{"", nil},
		{"r1", []*discoveryv1.EndpointSlice{labelled("r1")}},
		{"r1", []*discoveryv1.EndpointSlice{labelled("r1"), labelled("r1")}},
		{"", []*discoveryv1.EndpointSlice{labelled("r1"), labelled("r2")}},
		{"", []*discoveryv1.EndpointSlice{labelled(""), labelled("r1")}},
		{"", []*discoveryv1.EndpointSlice{labelled(""), slice(discoveryv1.AddressTypeIPv4)}},
	} {
		if got := wanted(test.slices); got != test.want {
			t.Errorf("of %v: %q, want %q", test.slices, got, test.want)
		}
	}
}

func TestFunctionOfSlice(t *testing.T) {
	for _, test := range []struct {
		in, namespace, name string
		want                int
	}{
		{"sless-fn-ns", "ns", "f", 1},
		{"sless-fn-other", "ns", "f", 0}, // one tenant's namespace can't speak for another's
		{"ns", "ns", "f", 0},
		{"sless-fn-", "", "f", 0},
		{"sless-fn-ns", "ns", "", 0},
	} {
		s := &discoveryv1.EndpointSlice{}
		s.Namespace, s.Labels = test.in, map[string]string{names.NamespaceLabel: test.namespace, names.NameLabel: test.name}
		got, err := functionOfSlice(s)
		if err != nil || len(got) != test.want {
			t.Errorf("%+v: %v, %v", test, got, err)
		}
	}
}
