package function

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

// runtimeHeld is the reason of the Event about a Function that could not be brought to a new runtime image.
const runtimeHeld = "RuntimeHeld"

// longestNote is how much of a message an Event takes.
const longestNote = 1000

// record makes an Event when the Ready condition has come to another end than before. Steps on the way are no news.
func (r *Reconciler) record(now, before *v1alpha1.Function) {
	if held := now.Status.RuntimeHeld; held != "" && held != before.Status.RuntimeHeld {
		r.Recorder.Eventf(now, nil, corev1.EventTypeWarning, runtimeHeld, "Reconcile", "%s",
			cut(fmt.Sprintf("the function stays on runtime image %s, because it could not be brought to %s: %s", now.Status.RuntimeVersion, held, now.Status.Upgrade.Message)))
	}
	ready := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.Ready)
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.Ready)
	if ready == nil || ready.Status == metav1.ConditionUnknown || (was != nil && was.Status == ready.Status && was.Reason == ready.Reason) {
		return
	}
	kind := corev1.EventTypeNormal
	if ready.Status == metav1.ConditionFalse {
		kind = corev1.EventTypeWarning
	}
	r.Recorder.Eventf(now, nil, kind, ready.Reason, "Reconcile", "%s", cut(ready.Message))
}
