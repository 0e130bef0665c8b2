package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/naeel/sless/api/rest"
)

// kind is one kind of object of the platform.
type kind[T any] struct {
	name  string // as in sless_name
	list  func(*rest.Client, string) rest.Resource[T]
	about func(*T) about
	// labels are an object's.
	labels func(*T) *map[string]string
	// verb is what an object does that works.
	verb string
}

// about is what an object of any kind says of itself.
type about struct {
	namespace, name, uid string
	generation           int64
	status               *rest.Status // nil while there is none
}

var functions = kind[rest.Function]{
	name: "function", verb: "serve", list: (*rest.Client).Functions, labels: func(fn *rest.Function) *map[string]string { return &fn.Labels },
	about: func(fn *rest.Function) about {
		known := about{fn.Namespace, fn.Name, fn.UID, fn.Generation, nil}
		if fn.Status != nil {
			known.status = &fn.Status.Status
		}
		return known
	},
}

var triggers = kind[rest.Trigger]{
	name: "trigger", verb: "fire", list: (*rest.Client).Triggers, labels: func(trigger *rest.Trigger) *map[string]string { return &trigger.Labels },
	about: func(trigger *rest.Trigger) about {
		known := about{trigger.Namespace, trigger.Name, trigger.UID, trigger.Generation, nil}
		if trigger.Status != nil {
			known.status = &trigger.Status.Status
		}
		return known
	},
}

var jobs = kind[rest.Job]{
	name: "job", verb: "end", list: (*rest.Client).Jobs, labels: func(job *rest.Job) *map[string]string { return &job.Labels },
	about: func(job *rest.Job) about {
		known := about{job.Namespace, job.Name, job.UID, job.Generation, nil}
		if job.Status != nil {
			known.status = &job.Status.Status
		}
		return known
	},
}

// what names an object in messages.
func (k *kind[T]) what(namespace, name string) string {
	return strings.ToUpper(k.name[:1]) + k.name[1:] + " " + namespace + "/" + name
}

// follow looks at an object until look says that it is done, and returns what it saw last. look gets only what the platform says of the
// generation that was written or of a later one.
func (k *kind[T]) follow(ctx context.Context, client *rest.Client, written *T, atMost time.Duration, look func(*T) progress) (*T, error) {
	made := k.about(written)
	objects := k.list(client, made.namespace)
	seen, started := written, time.Now()
	err := poll(ctx, atMost, func(ctx context.Context) (progress, error) {
		stored, err := objects.Get(ctx, made.name, rest.Fresh())
		switch {
		case rest.IsNotFound(err) && seen == written && time.Since(started) < absentFor:
			return near, nil
		case rest.IsNotFound(err):
			return far, errDeleted
		case err != nil:
			return far, err
		}
		now := k.about(&stored.Object)
		if now.uid != made.uid {
			return far, errDeleted
		}
		seen = &stored.Object
		if now.status == nil || now.status.ObservedGeneration < max(made.generation, now.generation) {
			return near, nil
		}
		return look(seen), nil
	})
	return seen, err
}

// unended is the error of a wait that came to no end, with what was seen last.
func (k *kind[T]) unended(err error, seen *T) (summary, detail string) {
	if errors.Is(err, errDeleted) || errors.As(err, &stillWaiting{}) {
		detail = err.Error() + "."
	} else {
		detail = explained(err)
	}
	last := k.about(seen)
	if status := last.status; status != nil {
		detail += " Last seen: " + strings.Trim(fmt.Sprintf("%s %s %s", status.Phase, status.Reason, status.Message), " .") + "."
	}
	return k.what(last.namespace, last.name) + " does not " + k.verb + " yet", detail + " It goes on without terraform; another apply looks again."
}

// remove deletes an object and waits until it is gone.
func (k *kind[T]) remove(ctx context.Context, client *rest.Client, of identity, wait time.Duration, diags *diag.Diagnostics) {
	namespace, name := of.Namespace.ValueString(), of.Name.ValueString()
	objects := k.list(client, namespace)
	err := objects.Delete(ctx, name)
	if err == nil {
		err = poll(ctx, wait, func(ctx context.Context) (progress, error) {
			_, err := objects.Get(ctx, name, rest.Fresh())
			if rest.IsNotFound(err) {
				return done, nil
			}
			return near, err
		})
	}
	if err != nil && !rest.IsNotFound(err) {
		addError(diags, k.what(namespace, name)+" can't be deleted", err, nil)
	}
}
