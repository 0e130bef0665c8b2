package resources

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/problem"
	"github.com/naeel/sless/apiserver/internal/request"
)

// The marks of an Idempotency-Key on what was created with it: so the key works across replicas and restarts, for as long as the
// object exists.
const (
	keyLabel          = "sless.io/idempotency-key"
	requestAnnotation = "sless.io/idempotency-request"
)

type createInput struct {
	InNamespace
	Waiting
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" doc:"For jobs: the same request with the same key again creates nothing and answers what the first one made."`
}

// createOnce creates an object unless the key has created one before.
func (o *operations[W, O]) createOnce(ctx context.Context, namespace string, wire *W, key string) (O, error) {
	name := o.header(wire).name
	if key == "" {
		if *name == "" {
			*name = generatedName(wire, strings.ToLower(rand.Text()[:8]))
		}
		return o.createNew(ctx, namespace, wire, nil)
	}
	fingerprint, err := json.Marshal(wire)
	if err != nil {
		return o.kind.create(), err
	}
	print := names.Hash(string(fingerprint))
	mark := names.Hash(request.From(ctx).Identity.Username, key)[:40]
	if *name == "" {
		*name = generatedName(wire, mark[:8])
	}
	if before, found, err := o.made(ctx, namespace, mark, print); found || err != nil {
		return before, err
	}
	object, err := o.createNew(ctx, namespace, wire, func(object O) {
		labels := map[string]string{keyLabel: mark}
		for label, value := range object.GetLabels() {
			labels[label] = value
		}
		object.SetLabels(labels)
		object.SetAnnotations(map[string]string{requestAnnotation: print})
	})
	if taken, ok := problem.From(err); err != nil && ok && taken.Code == rest.CodeAlreadyExists {
		// The same request may have come twice at once.
		if before, found, err := o.made(ctx, namespace, mark, print); found || err != nil {
			return before, err
		}
	}
	return object, err
}

// made finds what the key has created before; it must have been by the same request.
func (o *operations[W, O]) made(ctx context.Context, namespace, mark, print string) (object O, found bool, err error) {
	list := o.kind.list()
	if err := o.store.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{keyLabel: mark}); err != nil {
		return object, false, o.translate(o.kind.create(), err)
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		object, found = item.(O), true
		return nil
	})
	if err == nil && found && object.GetAnnotations()[requestAnnotation] != print {
		err = problem.New(http.StatusUnprocessableEntity, rest.CodeIdempotencyKeyReused, "the Idempotency-Key was used for another request")
	}
	return object, found, err
}

// generatedName is a name for a job that was given none.
func generatedName[W any](wire *W, suffix string) string {
	job, ok := any(wire).(*rest.Job)
	if !ok || job.Function == "" {
		return ""
	}
	return names.Child(job.Function, suffix)
}

// listError names the parameter that the cluster did not like.
func listError(in *listInput, err error) error {
	if apierrors.IsBadRequest(err) && in.Continue != "" {
		return problem.Invalid(rest.FieldError{Location: "query.continue", Message: "is not what a page before has given"})
	}
	return err
}
