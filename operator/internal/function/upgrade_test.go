package function

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
)

// placeFor is an upgrade that has its place, for a runtime image.
func placeFor(runtime string) *v1alpha1.UpgradeStatus {
	return &v1alpha1.UpgradeStatus{StartedAt: &metav1.Time{}, RuntimeVersion: runtime}
}

func TestUpgradeState(t *testing.T) {
	const old, next, other = "python@sha256:old", "python@sha256:new", "python@sha256:other"
	for name, test := range map[string]struct {
		held      string
		upgrade   *v1alpha1.UpgradeStatus
		catalogue string
		paused    bool
		want      v1alpha1.UpgradeState
	}{
		"on it":                              {"", nil, old, false, ""},
		"on it, and paused":                  {"", nil, old, true, ""},
		"waits":                              {"", nil, next, false, "Waiting"},
		"waits, and says so":                 {"", &v1alpha1.UpgradeStatus{State: "Waiting"}, next, false, "Waiting"},
		"paused":                             {"", nil, next, true, "Paused"},
		"has a place":                        {"", placeFor(next), next, false, "Upgrading"},
		"has a place, and is paused":         {"", placeFor(next), next, true, "Upgrading"},
		"place for its pods alone":           {"", placeFor(old), next, false, "Waiting"},
		"place for its pods alone, paused":   {"", placeFor(old), next, true, "Paused"},
		"place for what is replaced":         {"", placeFor(other), next, false, "Upgrading"},
		"place for what is replaced, pause":  {"", placeFor(other), next, true, "Paused"},
		"place, and the catalogue goes back": {"", placeFor(next), old, false, ""},
		"held":                               {next, nil, next, false, "Held"},
		"held, and paused":                   {next, nil, next, true, "Held"},
		"held, on the way back":              {next, placeFor(old), next, false, "Held"},
		"held for another":                   {other, nil, next, false, "Waiting"},
		"held, the catalogue back":           {next, nil, old, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			status := &v1alpha1.FunctionStatus{RuntimeVersion: old, RuntimeHeld: test.held, Upgrade: test.upgrade}
			if got := upgradeState(status, test.catalogue, test.paused); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func keys(names ...string) (list []client.ObjectKey) {
	for _, name := range names {
		list = append(list, client.ObjectKey{Namespace: name[:1], Name: name[1:]})
	}
	return list
}

func TestPick(t *testing.T) {
	for name, test := range map[string]struct {
		waiting []client.ObjectKey
		given   map[string]int
		places  int
		want    []client.ObjectKey
	}{
		"nobody":               {nil, nil, 3, nil},
		"no place":             {keys("a1"), nil, 0, nil},
		"fewer than none":      {keys("a1"), nil, -2, nil},
		"all":                  {keys("a2", "a1"), nil, 5, keys("a1", "a2")},
		"namespaces in turn":   {keys("a1", "a2", "a3", "b9", "c5", "c4"), nil, 4, keys("a1", "b9", "c4", "a2")},
		"who had turns waits":  {keys("a3", "a4", "b1", "b2"), map[string]int{"a": 2}, 3, keys("b1", "b2", "a3")},
		"order of asking":      {keys("c1", "b1", "a1"), nil, 2, keys("a1", "b1")},
		"turns of one, alone":  {keys("a3", "a4"), map[string]int{"a": 7}, 1, keys("a3")},
		"one place, in turn":   {keys("a2", "b1"), map[string]int{"a": 1}, 1, keys("b1")},
		"one place, and again": {keys("a2", "b2"), map[string]int{"a": 1, "b": 1}, 1, keys("a2")},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, pick(test.waiting, test.given, test.places)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A story of turns: places are those of the status, and those that the cache does not show yet.
func TestTurns(t *testing.T) {
	var functions []v1alpha1.Function
	for _, key := range keys("a1", "a2", "a3", "b1", "b2") {
		function := v1alpha1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		function.Status.Upgrade = &v1alpha1.UpgradeStatus{State: v1alpha1.UpgradeWaiting}
		functions = append(functions, function)
	}
	p := &pace{}
	turns := func(want ...string) {
		t.Helper()
		got := p.turns(functions, 2)
		slices.SortFunc(got, func(a, b client.ObjectKey) int { return slices.Compare([]byte(a.String()), []byte(b.String())) })
		if diff := cmp.Diff(keys(want...), got); diff != "" {
			t.Fatal(diff)
		}
	}
	turns("a1", "b1")
	turns("a1", "b1") // nobody has taken a place yet
	functions[0].Status.Upgrade = placeFor("x")
	turns("b1")
	if p.may(keys("a1")[0]) || !p.may(keys("b1")[0]) || p.may(keys("a2")[0]) {
		t.Error("a place is for whom it was given to, once")
	}
	p.leave(keys("b1")[0]) // it did not need it, and waits all the same
	turns("a2")
	p.leave(keys("a2")[0])
	functions[3].Status.Upgrade = nil
	turns("b2")
	functions[0].Status.Upgrade = nil
	functions[4].Status.Upgrade = placeFor("x")
	turns("a2")
	functions[1].DeletionTimestamp = &metav1.Time{Time: testScope(testFunction()).now}
	p.leave(keys("a2")[0])
	turns("a3")

	// Another process, which knows the status alone.
	functions[2].Status.Upgrade, functions[3].Status.Upgrade = placeFor("x"), &v1alpha1.UpgradeStatus{State: v1alpha1.UpgradeWaiting}
	p = &pace{}
	turns()
	functions[4].Status.Upgrade = nil
	turns("b1")
	functions[3].Status.Upgrade = &v1alpha1.UpgradeStatus{State: v1alpha1.UpgradeHeld}
	functions[3].Status.RuntimeHeld = "x"
	p.leave(keys("b1")[0])
	turns()
	functions[3].Status.RuntimeHeld = "" // taken away by hand
	turns("b1")
}
