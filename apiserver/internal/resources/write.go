package resources

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/problem"
	"github.com/naeel/sless/apiserver/internal/store"
)

// retryFor is how long a write is tried again while others write the same object, such as its status.
const retryFor = 5 * time.Second

// Preconditions are the headers that a write depends on.
type Preconditions struct {
	IfMatch     string `header:"If-Match" doc:"Write only when the ETag is one of these; * means that it must exist."`
	IfNoneMatch string `header:"If-None-Match" doc:"With * write only when it does not exist."`
}

func failed(format string, args ...any) error {
	return problem.New(http.StatusPreconditionFailed, rest.CodePreconditionFailed, format, args...)
}

// absent checks the Preconditions against an object that does not exist.
func (p Preconditions) absent() error {
	if p.IfMatch != "" {
		return failed("it does not exist")
	}
	return nil
}

// present checks the Preconditions against an object's ETag.
func (p Preconditions) present(etag string) error {
	if wanted := ETags(p.IfMatch); len(wanted) > 0 && !slices.Contains(wanted, "*") && !slices.Contains(wanted, etag) {
		return failed("it has changed; its ETag is another now")
	}
	if unwanted := ETags(p.IfNoneMatch); slices.Contains(unwanted, "*") || slices.Contains(unwanted, etag) {
		return failed("it exists")
	}
	return nil
}

// writer writes the resources of one kind.
type writer[W any, O client.Object] struct {
	kind[W, O]
	store   *store.Store
	decoder decoder[W]
}

// decodeNamed decodes a body whose name, if it has one, must be that of the path.
func (w *writer[W, O]) decodeNamed(text []byte, name types.NamespacedName) (*W, error) {
	wire, err := w.decoder.decode(text)
	if err != nil {
		return nil, err
	}
	header := w.header(wire)
	if *header.name != "" && name.Name != "" && *header.name != name.Name {
		return nil, problem.Invalid(rest.FieldError{Location: "body.name", Message: "is not the name in the path"})
	}
	if header.namespace != "" && header.namespace != name.Namespace {
		return nil, problem.Invalid(rest.FieldError{Location: "body.namespace", Message: "is not the namespace in the path"})
	}
	if name.Name != "" {
		*header.name = name.Name
	}
	return wire, nil
}

// create makes a new object; adorn, when set, changes it before.
func (w *writer[W, O]) createNew(ctx context.Context, namespace string, wire *W, adorn func(O)) (O, error) {
	next := w.kind.create()
	next.SetNamespace(namespace)
	next.SetName(*w.header(wire).name)
	w.apply(wire, next)
	if adorn != nil {
		adorn(next)
	}
	err := w.commit(ctx, change[W, O]{wire: wire, isNew: true, next: next})
	return next, err
}

// commit writes c.next and what lives beside it.
func (w *writer[W, O]) commit(ctx context.Context, c change[W, O]) error {
	end := settle(func(context.Context, client.Object, error) {})
	if w.beside != nil {
		finish, err := w.beside(ctx, c)
		if err != nil {
			return w.translate(c.next, err)
		}
		if finish != nil {
			end = finish
		}
	}
	var err error
	switch {
	case c.isNew:
		err = w.store.Create(ctx, c.next)
	case equality.Semantic.DeepEqual(client.Object(c.now), client.Object(c.next)):
	default:
		err = w.store.Update(ctx, c.next)
	}
	end(ctx, c.next, err)
	return w.translate(c.next, err)
}

// translate keeps conflicts as they are, for [writer.retry].
func (w *writer[W, O]) translate(object O, err error) error {
	if apierrors.IsConflict(err) {
		return err
	}
	return problem.FromKubernetes(err, w.about(client.ObjectKeyFromObject(object), object))
}

// retry calls attempt until it is not a conflict, for at most retryFor.
func (w *writer[W, O]) retry(ctx context.Context, name types.NamespacedName, attempt func() error) error {
	deadline := time.Now().Add(retryFor)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 400*time.Millisecond) {
		err := attempt()
		if !apierrors.IsConflict(err) {
			return err
		}
		if time.Now().After(deadline) {
			return problem.FromKubernetes(err, w.about(name, w.kind.create()))
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// get reads the object as it is in the cluster now.
func (w *writer[W, O]) get(ctx context.Context, name types.NamespacedName) (O, error) {
	object := w.kind.create()
	return object, w.store.Get(ctx, name, object)
}

// replace makes the object what the body says, or creates it; mayCreate is asked in that case.
func (w *writer[W, O]) replace(ctx context.Context, name types.NamespacedName, text []byte, conditions Preconditions, mayCreate func() error) (object O, created bool, err error) {
	err = w.retry(ctx, name, func() error {
		wire, err := w.decodeNamed(text, name) // anew, because the attempt before has filled it
		if err != nil {
			return err
		}
		now, err := w.get(ctx, name)
		switch {
		case apierrors.IsNotFound(err):
			if err := conditions.absent(); err != nil {
				return err
			}
			if err := mayCreate(); err != nil {
				return err
			}
			created = true
			object, err = w.createNew(ctx, name.Namespace, wire, nil)
			return err
		case err != nil:
			return w.translate(now, err)
		}
		if err := conditions.present(w.etag(now)); err != nil {
			return err
		}
		created = false
		shown := w.wire(now)
		if w.fill != nil {
			w.fill(now, &shown)
		}
		w.keep(&shown, wire)
		object, err = w.change(ctx, now, wire)
		return err
	})
	return object, created, err
}

// patch applies a merge patch.
func (w *writer[W, O]) patch(ctx context.Context, name types.NamespacedName, text []byte, conditions Preconditions) (object O, err error) {
	if _, err := mergePatch([]byte("{}"), text); err != nil {
		return object, err // what is no patch fails as that, whatever it depends on
	}
	err = w.retry(ctx, name, func() error {
		now, err := w.get(ctx, name)
		if err != nil {
			return w.translate(w.named(name), err)
		}
		if err := conditions.present(w.etag(now)); err != nil {
			return err
		}
		wire, err := w.merged(now, text)
		if err != nil {
			return err
		}
		object, err = w.change(ctx, now, wire)
		return err
	})
	return object, err
}

// merged is what can be written of an object, after a merge patch.
func (w *writer[W, O]) merged(now O, patch []byte) (*W, error) {
	base := w.wire(now)
	w.writable(&base)
	if w.fill != nil {
		w.fill(now, &base)
	}
	document, err := json.Marshal(base)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", w.word, err)
	}
	if document, err = mergePatch(document, patch); err != nil {
		return nil, err
	}
	return w.decodeNamed(document, client.ObjectKeyFromObject(now))
}

func (w *writer[W, O]) change(ctx context.Context, now O, wire *W) (O, error) {
	next := now.DeepCopyObject().(O)
	w.apply(wire, next)
	err := w.commit(ctx, change[W, O]{wire: wire, now: now, next: next})
	return next, err
}

// named is an empty object with a name, for messages.
func (w *writer[W, O]) named(name types.NamespacedName) O {
	object := w.kind.create()
	object.SetNamespace(name.Namespace)
	object.SetName(name.Name)
	return object
}

// remove deletes the object if the Preconditions hold.
func (w *writer[W, O]) remove(ctx context.Context, name types.NamespacedName, conditions Preconditions) (object O, err error) {
	err = w.retry(ctx, name, func() error {
		object, err = w.get(ctx, name)
		if err != nil {
			return w.translate(w.named(name), err)
		}
		if err := conditions.present(w.etag(object)); err != nil {
			return err
		}
		only := client.Preconditions{UID: new(object.GetUID())}
		if conditions.IfMatch != "" {
			only.ResourceVersion = new(object.GetResourceVersion())
		}
		err := w.store.Delete(ctx, object, only, client.PropagationPolicy(metav1.DeletePropagationBackground))
		return w.translate(object, err)
	})
	return object, err
}
