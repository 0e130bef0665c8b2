// Package resources is the part of the API that creates, reads, changes and deletes functions, triggers and jobs.
package resources

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/apiserver/internal/convert"
	"github.com/naeel/sless/apiserver/internal/problem"
)

// kind is all that differs between functions, triggers and jobs. W is the wire type, O the custom resource.
type kind[W any, O client.Object] struct {
	word     string // function
	plural   string // functions: the path
	resource string // functions: the resource of RBAC
	create   func() O
	list     func() client.ObjectList
	wire     func(O) W
	apply    func(*W, O)
	location func(O) func(string) string
	// header returns the wire's fields that all kinds have.
	header func(*W) header
	// keep fills what a PUT left out and must not change, from the resource's present state.
	keep func(now, to *W)
	// writable clears what the server writes.
	writable func(*W)
	// fill, when set, adds to the wire what can be written but is not shown, as the base of a PATCH.
	fill func(O, *W)
	// beside, when set, writes what lives beside the resource.
	beside func(context.Context, change[W, O]) (settle, error)
	// mark is more that the ETag covers.
	mark func(O) string
	// idempotent says that a POST may have an Idempotency-Key and no name.
	idempotent bool
}

// header points at the fields that all wire types have.
type header struct {
	name      *string
	labels    *map[string]string
	namespace string
}

// change is one write of a resource.
type change[W any, O client.Object] struct {
	wire  *W
	now   O // what is in the cluster; a zero value when it is new
	isNew bool
	next  O // what will be written
}

// settle ends what beside has begun, once the write of the resource has succeeded or failed.
type settle func(ctx context.Context, written client.Object, err error)

func functions(secrets *Secrets) kind[rest.Function, *v1alpha1.Function] {
	return kind[rest.Function, *v1alpha1.Function]{
		word: "function", plural: "functions", resource: "functions",
		create: func() *v1alpha1.Function { return &v1alpha1.Function{} }, list: func() client.ObjectList { return &v1alpha1.FunctionList{} },
		wire: convert.Function, apply: convert.ApplyFunction, location: convert.FunctionLocation,
		header: func(w *rest.Function) header { return header{&w.Name, &w.Labels, w.Namespace} },
		keep: func(now, to *rest.Function) {
			if to.Labels == nil {
				to.Labels = now.Labels
			}
			if to.Replicas == nil {
				to.Replicas = now.Replicas
			}
			if to.RestartedAt == "" {
				to.RestartedAt = now.RestartedAt
			}
			if to.SecretEnv == nil {
				to.SecretEnv = now.SecretEnv
			}
		},
		writable: func(w *rest.Function) {
			w.Namespace, w.UID, w.Generation, w.CreatedAt, w.SecretKeys, w.Status = "", "", 0, nil, nil, nil
		},
		fill:   secrets.fill,
		beside: secrets.write,
		mark:   func(fn *v1alpha1.Function) string { return fn.Annotations[convert.SecretEnvAnnotation] },
	}
}

func triggers() kind[rest.Trigger, *v1alpha1.Trigger] {
	return kind[rest.Trigger, *v1alpha1.Trigger]{
		word: "trigger", plural: "triggers", resource: "triggers",
		create: func() *v1alpha1.Trigger { return &v1alpha1.Trigger{} }, list: func() client.ObjectList { return &v1alpha1.TriggerList{} },
		wire: convert.Trigger, apply: convert.ApplyTrigger, location: anyLocation[*v1alpha1.Trigger],
		header: func(w *rest.Trigger) header { return header{&w.Name, &w.Labels, w.Namespace} },
		keep: func(now, to *rest.Trigger) {
			if to.Labels == nil {
				to.Labels = now.Labels
			}
		},
		writable: func(w *rest.Trigger) {
			w.Namespace, w.UID, w.Generation, w.CreatedAt, w.Status = "", "", 0, nil, nil
		},
	}
}

func jobs() kind[rest.Job, *v1alpha1.FunctionJob] {
	return kind[rest.Job, *v1alpha1.FunctionJob]{
		word: "job", plural: "jobs", resource: "functionjobs",
		create: func() *v1alpha1.FunctionJob { return &v1alpha1.FunctionJob{} }, list: func() client.ObjectList { return &v1alpha1.FunctionJobList{} },
		wire: convert.Job, apply: convert.ApplyJob, location: anyLocation[*v1alpha1.FunctionJob],
		header: func(w *rest.Job) header { return header{&w.Name, &w.Labels, w.Namespace} },
		keep: func(now, to *rest.Job) {
			if to.Labels == nil {
				to.Labels = now.Labels
			}
		},
		writable: func(w *rest.Job) {
			w.Namespace, w.UID, w.Generation, w.CreatedAt, w.Status = "", "", 0, nil, nil
		},
		idempotent: true,
	}
}

func anyLocation[O any](O) func(string) string { return convert.Location }

// etag stands for what can be written of an object: a write of its status leaves it as it is.
func (k *kind[W, O]) etag(object O) string {
	wire := k.wire(object)
	k.writable(&wire)
	mark := ""
	if k.mark != nil {
		mark = k.mark(object)
	}
	encoded, _ := json.Marshal([]any{wire, mark, object.GetUID()}) // wire types always encode
	sum := sha256.Sum256(encoded)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// about is the object for error messages.
func (k *kind[W, O]) about(name types.NamespacedName, object O) problem.Object {
	return problem.Object{Kind: k.word, Namespace: name.Namespace, Name: name.Name, Location: k.location(object)}
}

// settled says whether the last change of an object serves or has failed.
func settled(object client.Object) bool {
	var conditions []metav1.Condition
	address := "none is needed"
	switch object := object.(type) {
	case *v1alpha1.Function:
		conditions = object.Status.Conditions
	case *v1alpha1.Trigger:
		conditions = object.Status.Conditions
		if object.Spec.Type == v1alpha1.TriggerHTTP {
			address = object.Status.URL
		}
	case *v1alpha1.FunctionJob:
		conditions = object.Status.Conditions
	case nil:
		return false
	}
	ready := meta.FindStatusCondition(conditions, v1alpha1.Ready)
	if ready == nil || ready.Status == metav1.ConditionUnknown || ready.ObservedGeneration < object.GetGeneration() {
		return false
	}
	return ready.Reason != v1alpha1.ReasonReady || address != "" // the address is given when a call of it arrives
}
