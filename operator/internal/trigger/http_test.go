package trigger

import (
	"fmt"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
)

// A Trigger may come before its Function and outlive it; its URL is there only while it works.
func TestURLIsThereWhileItWorks(t *testing.T) {
	namespace := newNamespace(t)
	startManager(t, &Reconciler{Gateway: &recorder{}}, namespace)
	create(t, newTrigger(namespace, "t", v1alpha1.TriggerSpec{}))
	trigger := waitReady(t, namespace, "t", "False", v1alpha1.ReasonFunctionNotFound)
	if !strings.Contains(condition(trigger), "Function f ") || trigger.Status.URL != "" || trigger.Status.Phase != v1alpha1.TriggerFailed {
		t.Errorf("without a Function: %+v", trigger.Status)
	}

	f := newFunction(t, namespace, "f", func(f *v1alpha1.Function) { f.Status = function("Unknown", v1alpha1.ReasonBuilding, false).Status })
	if trigger = waitReady(t, namespace, "t", "Unknown", v1alpha1.ReasonFunctionNotReady); trigger.Status.URL != "" {
		t.Errorf("a URL before anything serves: %s", trigger.Status.URL)
	}
	setFunction(t, f, serving)
	trigger = waitReady(t, namespace, "t", "True", v1alpha1.ReasonReady)
	url := "https://functions.example.org/fn/" + namespace + "/f"
	if trigger.Status.URL != url || trigger.Status.Phase != v1alpha1.TriggerReady {
		t.Errorf("status %+v, want URL %s", trigger.Status, url)
	}
	if len(trigger.Finalizers) > 0 {
		t.Errorf("a Trigger with nothing to clean up has finalizers %v", trigger.Finalizers)
	}

	patch(t, trigger, `{"enabled": false}`)
	if trigger = waitReady(t, namespace, "t", "True", v1alpha1.ReasonDisabled); trigger.Status.URL != "" || trigger.Status.Phase != v1alpha1.TriggerDisabled {
		t.Errorf("disabled: %+v", trigger.Status)
	}
	patch(t, trigger, `{"enabled": null}`)
	if trigger = waitReady(t, namespace, "t", "True", v1alpha1.ReasonReady); trigger.Status.URL != url {
		t.Errorf("enabled again: %+v", trigger.Status)
	}

	f.Spec.Replicas = new(int32(0))
	if err := kube.Update(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	setFunction(t, f, func(f *v1alpha1.Function) { f.Status = function("True", v1alpha1.ReasonScaledToZero, false).Status })
	if trigger = waitReady(t, namespace, "t", "True", v1alpha1.ReasonScaledToZero); trigger.Status.URL != "" {
		t.Errorf("replicas 0: %+v", trigger.Status)
	}

	if err := kube.Delete(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	waitReady(t, namespace, "t", "False", v1alpha1.ReasonFunctionNotFound)
}

// The same object applied again and again is written once; another Function is an update like any other.
func TestApplyingAgainChangesNothing(t *testing.T) {
	namespace := newNamespace(t)
	startManager(t, &Reconciler{Gateway: &recorder{}}, namespace)
	newFunction(t, namespace, "f")
	newFunction(t, namespace, "g")
	create(t, newTrigger(namespace, "t", v1alpha1.TriggerSpec{}))
	before := waitReady(t, namespace, "t", "True", v1alpha1.ReasonReady)
	for range 3 {
		same := before.DeepCopy()
		same.ResourceVersion = ""
		if err := kube.Patch(t.Context(), same, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"functionRef":{"name":"f"}}}`))); err != nil {
			t.Fatal(err)
		}
	}
	// A Trigger made now is dealt with after whatever those three gave rise to.
	create(t, newTrigger(namespace, "z", v1alpha1.TriggerSpec{FunctionRef: v1alpha1.FunctionRef{Name: "g"}}))
	waitReady(t, namespace, "z", "True", v1alpha1.ReasonReady)
	if after := get(t, namespace, "t", &v1alpha1.Trigger{}); !equality.Semantic.DeepEqual(before, after) {
		t.Errorf("it was written: %s then, %s now", before.ResourceVersion, after.ResourceVersion)
	}

	patch(t, before, `{"functionRef": {"name": "g"}}`)
	waitReady(t, namespace, "z", "False", v1alpha1.ReasonConflict)
	waitReady(t, namespace, "t", "True", v1alpha1.ReasonReady)
}

// Of two http Triggers on one Function the older serves; the other names it and takes over when it goes. The same names in another
// namespace have nothing to do with it.
func TestTheOlderTriggerServes(t *testing.T) {
	one, two := newNamespace(t), newNamespace(t)
	startManager(t, &Reconciler{Gateway: &recorder{}}, one, two)
	for _, namespace := range []string{one, two} {
		newFunction(t, namespace, "f")
		create(t, newTrigger(namespace, "a", v1alpha1.TriggerSpec{}))
		waitReady(t, namespace, "a", "True", v1alpha1.ReasonReady)
	}
	// Of the same second the first name serves, so b loses whenever it is made.
	b := create(t, newTrigger(one, "b", v1alpha1.TriggerSpec{}))
	trigger := waitReady(t, one, "b", "False", v1alpha1.ReasonConflict)
	if !strings.Contains(condition(trigger), "http Trigger a;") || trigger.Status.URL != "" {
		t.Errorf("the loser's status is %+v", trigger.Status)
	}
	waitReady(t, one, "a", "True", v1alpha1.ReasonReady)

	a := get(t, one, "a", &v1alpha1.Trigger{})
	patch(t, a, `{"enabled": false}`)
	waitReady(t, one, "b", "True", v1alpha1.ReasonReady)
	patch(t, a, `{"enabled": true}`)
	waitReady(t, one, "b", "False", v1alpha1.ReasonConflict)
	if err := kube.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	waitReady(t, one, "b", "True", v1alpha1.ReasonReady)
	waitReady(t, two, "a", "True", v1alpha1.ReasonReady)
	patch(t, b, `{"functionRef": {"name": "elsewhere"}}`)
	waitReady(t, one, "b", "False", v1alpha1.ReasonFunctionNotFound)
}

// With a domain a Function has a host, for as long as a Trigger serves it.
func TestIngressLivesAsLongAsItsTrigger(t *testing.T) {
	short, long := newNamespace(t), newNamespaceOf(t, 63)
	startManager(t, &Reconciler{Gateway: &recorder{}, Config: &config.Config{Domain: "example.org", Ingress: config.Ingress{ClassName: "edge", TLSSecretName: "wildcard"}}}, short, long)
	for _, test := range []struct{ namespace, function, trigger string }{
		{short, "f", "t"},
		{long, strings.Repeat("f", 63), strings.Repeat("t", 63)},
	} {
		newFunction(t, test.namespace, test.function)
		trigger := create(t, newTrigger(test.namespace, test.trigger, v1alpha1.TriggerSpec{FunctionRef: v1alpha1.FunctionRef{Name: test.function}}))
		trigger = waitReady(t, test.namespace, test.trigger, "True", v1alpha1.ReasonReady)
		host := names.IngressHost(test.namespace, test.function, "example.org")
		if trigger.Status.URL != "https://"+host {
			t.Errorf("URL %s, want host %s", trigger.Status.URL, host)
		}
		ingress := &networkingv1.Ingress{}
		key := client.ObjectKey{Namespace: names.SystemNamespace, Name: ingressName(trigger)}
		if err := kube.Get(t.Context(), key, ingress); err != nil {
			t.Fatal(err)
		}
		if ingress.Spec.Rules[0].Host != host || *ingress.Spec.IngressClassName != "edge" || ingress.Spec.TLS[0].SecretName != "wildcard" {
			t.Errorf("the Ingress is %+v", ingress.Spec)
		}

		// What others do to it is undone.
		broken := ingress.DeepCopy()
		broken.Spec.Rules[0].Host = "elsewhere.example.org"
		if err := kube.Update(t.Context(), broken); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the host is back", func() error {
			if err := kube.Get(t.Context(), key, ingress); err != nil {
				return err
			}
			if ingress.Spec.Rules[0].Host != host {
				return fmt.Errorf("host %s", ingress.Spec.Rules[0].Host)
			}
			return nil
		})

		patch(t, trigger, `{"enabled": false}`)
		waitReady(t, test.namespace, test.trigger, "True", v1alpha1.ReasonDisabled)
		goneIngress(t, key)
		patch(t, trigger, `{"enabled": true}`)
		waitReady(t, test.namespace, test.trigger, "True", v1alpha1.ReasonReady)
		// As long as the controller's cache has the one before, there is nothing to make.
		eventually(t, "the Ingress is back", func() error { return kube.Get(t.Context(), key, ingress) })
		if err := kube.Delete(t.Context(), trigger); err != nil {
			t.Fatal(err)
		}
		goneIngress(t, key)
		eventually(t, "the Trigger is gone", func() error {
			if err := kube.Get(t.Context(), client.ObjectKeyFromObject(trigger), trigger); !apierrors.IsNotFound(err) {
				return fmt.Errorf("finalizers %v, %v", trigger.Finalizers, err)
			}
			return nil
		})
	}
}

func goneIngress(t *testing.T, key client.ObjectKey) {
	t.Helper()
	eventually(t, "the Ingress is gone", func() error {
		if err := kube.Get(t.Context(), key, &networkingv1.Ingress{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
}

func TestNoAddress(t *testing.T) {
	namespace := newNamespace(t)
	startManager(t, &Reconciler{Gateway: &recorder{}, Config: &config.Config{}}, namespace)
	newFunction(t, namespace, "f")
	create(t, newTrigger(namespace, "t", v1alpha1.TriggerSpec{}))
	create(t, newTrigger(namespace, "c", v1alpha1.TriggerSpec{Cron: &v1alpha1.CronTrigger{Schedule: "@yearly"}}))
	waitReady(t, namespace, "t", "False", v1alpha1.ReasonNoAddress)
	waitReady(t, namespace, "c", "True", v1alpha1.ReasonReady)
}
