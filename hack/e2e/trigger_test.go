package e2e

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// replicas waits until a function's Deployment asks for, and has, this many pods, and returns it.
func replicas(t *testing.T, namespace, name string, want int32) *appsv1.Deployment {
	t.Helper()
	deployment := &appsv1.Deployment{}
	eventually(t, fmt.Sprintf("%s has %d pods", name, want), func() error {
		if err := get(t, names.FunctionNamespace(namespace), name, deployment); err != nil {
			return err
		}
		if *deployment.Spec.Replicas != want || deployment.Status.Replicas != want {
			return fmt.Errorf("it asks for %d and has %d", *deployment.Spec.Replicas, deployment.Status.Replicas)
		}
		return nil
	})
	return deployment
}

// All triggers off: no pod, no route, no tick. On again: the same replicas and the same URL, and nothing was made anew.
func TestDisableAndEnable(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	apply(t, namespace, python("f", "def handle(event):\n    return 'here'\n", "replicas: 2")+httpTrigger("f")+
		cronTrigger("yearly", "f", `{schedule: "@yearly"}`))
	waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
	url := waitTrigger(t, namespace, "f", "True", v1alpha1.ReasonReady).Status.URL
	uid := replicas(t, namespace, "f", 2).UID
	mustCall(t, "GET", namespace, "f", "", "", 200)

	// One of two is off: the other keeps the pods, the route is gone.
	patch(t, namespace, "trigger", "f", `{"enabled": false}`)
	waitTrigger(t, namespace, "f", "True", v1alpha1.ReasonDisabled)
	eventually(t, "calls are answered disabled", func() error { return answers(t, "GET", namespace, "f", 404, "disabled") })
	replicas(t, namespace, "f", 2)

	patch(t, namespace, "trigger", "yearly", `{"enabled": false}`)
	waitFunction(t, namespace, "f", "True", v1alpha1.ReasonDisabled)
	replicas(t, namespace, "f", 0)
	if next := waitTrigger(t, namespace, "yearly", "True", v1alpha1.ReasonDisabled).Status.NextScheduleTime; next != nil {
		t.Errorf("a disabled schedule has a next time: %s", next)
	}

	patch(t, namespace, "trigger", "f", `{"enabled": true}`)
	waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
	if again := waitTrigger(t, namespace, "f", "True", v1alpha1.ReasonReady).Status.URL; again != url || url == "" {
		t.Errorf("the URL was %q and is %q", url, again)
	}
	if got := replicas(t, namespace, "f", 2); got.UID != uid {
		t.Error("the Deployment was made anew")
	}
	mustCall(t, "GET", namespace, "f", "", "", 200)

	// replicas 0 beats enabled triggers.
	patch(t, namespace, "function", "f", `{"replicas": 0}`)
	waitFunction(t, namespace, "f", "True", v1alpha1.ReasonScaledToZero)
	eventually(t, "calls are answered scaled_to_zero", func() error { return answers(t, "GET", namespace, "f", 503, "scaled_to_zero") })
}

// answers complains unless a call is answered with this status and a body that has this text.
func answers(t *testing.T, method, namespace, function string, status int, text string) error {
	got, err := call(t, method, namespace, function, "", "")
	if err != nil {
		return err
	}
	if got.status != status || !strings.Contains(got.body, text) {
		return fmt.Errorf("answered %d: %s", got.status, got.body)
	}
	return nil
}

// A Trigger may come before its Function and outlive it; of two http Triggers the older serves and the other names it; the same
// names in two namespaces have nothing to do with each other.
func TestTriggersAndFunctionsComeAndGo(t *testing.T) {
	t.Parallel()
	namespace, other := newNamespace(t), newNamespace(t)
	apply(t, namespace, httpTriggerFor("first", "f", "http: {methods: [GET]}"))
	waitTrigger(t, namespace, "first", "False", v1alpha1.ReasonFunctionNotFound)
	apply(t, namespace, python("f", "def handle(event):\n    return 'one'\n"))
	apply(t, other, python("f", "def handle(event):\n    return 'two'\n")+httpTriggerFor("first", "f", "enabled: true"))
	waitTrigger(t, namespace, "first", "True", v1alpha1.ReasonReady)
	waitTrigger(t, other, "first", "True", v1alpha1.ReasonReady)
	if one, two := mustCall(t, "GET", namespace, "f", "", "", 200), mustCall(t, "GET", other, "f", "", "", 200); one.body != "one" || two.body != "two" {
		t.Errorf("got %q and %q", one.body, two.body)
	}
	if got := mustCall(t, "POST", namespace, "f", "", "x", 405); got.header.Get("Allow") != "GET" {
		t.Errorf("405 with Allow: %q", got.header.Get("Allow"))
	}

	apply(t, namespace, httpTriggerFor("second", "f", "enabled: true"))
	second := waitTrigger(t, namespace, "second", "False", v1alpha1.ReasonConflict)
	if ready, _ := condition(second.Status.Conditions, second.Generation); !strings.Contains(ready.Message, "first") {
		t.Errorf("the conflict does not name the winner: %q", ready.Message)
	}
	kubectl(t, "", "delete", "trigger", "first", "-n", namespace)
	waitTrigger(t, namespace, "second", "True", v1alpha1.ReasonReady)
	eventually(t, "calls are let through by the second", func() error { return answers(t, "POST", namespace, "f", 200, "one") })

	kubectl(t, "", "delete", "function", "f", "-n", namespace)
	waitTrigger(t, namespace, "second", "False", v1alpha1.ReasonFunctionNotFound)
	if got := mustCall(t, "GET", other, "f", "", "", 200); got.body != "two" {
		t.Errorf("the other namespace answers %q", got.body)
	}
}

// One handler serves HTTP bodies, schedules and jobs alike.
func TestPayloadBody(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	apply(t, namespace, python("f", "def handle(event):\n    return {'twice': event['n'] * 2}\n")+httpTriggerFor("f", "f", "http: {payload: body}"))
	waitFunction(t, namespace, "f", "True", v1alpha1.ReasonReady)
	if got := mustCall(t, "POST", namespace, "f", "", `{"n": 21}`, 200); strings.ReplaceAll(got.body, " ", "") != `{"twice":42}` {
		t.Errorf("got %q", got.body)
	}
}
