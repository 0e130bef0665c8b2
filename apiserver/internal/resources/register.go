package resources

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/authz"
	"github.com/naeel/sless/apiserver/internal/problem"
	"github.com/naeel/sless/apiserver/internal/request"
	"github.com/naeel/sless/apiserver/internal/store"
)

// Authorize says, as a problem, that the caller may not do it.
type Authorize func(context.Context, authz.Action) error

// Register adds the operations of all three kinds to api.
func Register(api huma.API, store *store.Store, authorize Authorize, upload Upload, secrets *Secrets) {
	functions := register(api, store, authorize, functions(secrets))
	registerCode(api, functions, upload)
	register(api, store, authorize, triggers())
	register(api, store, authorize, jobs())
}

// operations are the handlers of one kind.
type operations[W any, O client.Object] struct {
	writer[W, O]
	authorize Authorize
}

// InNamespace is the parameter of every path.
type InNamespace struct {
	Namespace string `path:"namespace" doc:"The namespace." example:"default"`
}

// Named is the parameters of one resource's path.
type Named struct {
	InNamespace
	Name string `path:"name" doc:"The name." example:"hello"`
}

// Key is the resource's name.
func (n Named) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: n.Namespace, Name: n.Name}
}

// Waiting is the parameters that let a write answer later.
type Waiting struct {
	Wait   string `query:"wait" doc:"ready: answer when the change serves or has failed, at the latest after 300 seconds."`
	Prefer string `header:"Prefer" doc:"wait=N: the same, for at most N seconds." example:"wait=60"`
}

// one is an answer with one resource.
type one[W any] struct {
	Status            int
	ETag              string `header:"ETag" doc:"Stands for what can be written; the status does not change it."`
	Location          string `header:"Location" doc:"The path of a new resource."`
	PreferenceApplied string `header:"Preference-Applied" doc:"The wait that was granted."`
	Body              W
}

type page[W any] struct {
	Body rest.List[W]
}

func register[W any, O client.Object](api huma.API, store *store.Store, authorize Authorize, k kind[W, O]) *operations[W, O] {
	decoder := newDecoder[W](api.OpenAPI().Components.Schemas)
	o := &operations[W, O]{writer[W, O]{k, store, decoder}, authorize}
	collection := "/v1/namespaces/{namespace}/" + k.plural
	item := collection + "/{name}"
	operation := func(verb, method, path, summary string, statuses ...int) huma.Operation {
		id := verb + "-" + k.word
		if verb == "list" {
			id += "s"
		}
		return huma.Operation{
			OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{k.plural}, DefaultStatus: statuses[0],
			Metadata: Rights(verb, k.resource, ""), Errors: append(CommonErrors(), statuses[1:]...),
		}
	}
	huma.Register(api, operation("list", http.MethodGet, collection, "List "+k.plural, 200, 410), o.handleList)
	huma.Register(api, operation("create", http.MethodPost, collection, "Create a "+k.word, 201, 408, 409, 413, 415, 422), o.handleCreate)
	huma.Register(api, operation("get", http.MethodGet, item, "Read a "+k.word, 200), o.handleGet)
	huma.Register(api, operation("update", http.MethodPut, item, "Replace a "+k.word+", or create it", 200, 408, 409, 412, 413, 415, 422), o.handleReplace)
	huma.Register(api, operation("patch", http.MethodPatch, item, "Change a "+k.word, 200, 408, 409, 412, 413, 415, 422), o.handlePatch)
	huma.Register(api, operation("delete", http.MethodDelete, item, "Delete a "+k.word, 204, 409, 412), o.handleDelete)
	paths := api.OpenAPI().Paths
	documentBody(paths[collection].Post, decoder.schema, "application/json")
	documentBody(paths[item].Put, decoder.schema, "application/json")
	paths[item].Put.Responses["201"] = created(paths[item].Put.Responses["200"])
	documentBody(paths[item].Patch, &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: true, Description: "RFC 7396: fields of " + k.word + " to change; null clears one.",
	}, "application/merge-patch+json")
	return o
}

func created(ok *huma.Response) *huma.Response {
	response := *ok
	response.Description = "Created"
	return &response
}

// documentBody says what the body is that the handler reads by itself.
func documentBody(operation *huma.Operation, schema *huma.Schema, media string) {
	operation.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{media: {Schema: schema}}}
}

// CommonErrors are the statuses that every operation may answer.
func CommonErrors() []int {
	return []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests, http.StatusServiceUnavailable}
}

// Rights is the metadata of an operation by which the server asks RBAC before the handler runs.
func Rights(verb, resource, subresource string) map[string]any {
	return map[string]any{"action": authz.Action{Verb: verb, Resource: resource, Subresource: subresource}}
}

type getInput struct {
	Named
	CacheControl string `header:"Cache-Control" doc:"no-cache: read from the cluster, not from memory, so that writes of others are seen at once."`
}

func (o *operations[W, O]) handleGet(ctx context.Context, in *getInput) (*one[W], error) {
	object := o.kind.create()
	read := o.store.Read
	if strings.Contains(in.CacheControl, "no-cache") {
		read = func(ctx context.Context, name types.NamespacedName, into client.Object) error {
			return o.store.Get(ctx, name, into)
		}
	}
	if err := read(ctx, in.Key(), object); err != nil {
		return nil, o.translate(o.named(in.Key()), err)
	}
	return o.answer(http.StatusOK, object), nil
}

func (o *operations[W, O]) answer(status int, object O) *one[W] {
	return &one[W]{Status: status, ETag: o.etag(object), Body: o.wire(object)}
}

type listInput struct {
	InNamespace
	LabelSelector string `query:"label_selector" doc:"Only those with these labels." example:"team=shop,stage!=test"`
	Limit         int64  `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"At most so many in one page."`
	Continue      string `query:"continue" doc:"continue of the page before."`
}

func (o *operations[W, O]) handleList(ctx context.Context, in *listInput) (*page[W], error) {
	selector, err := labels.Parse(in.LabelSelector)
	if err != nil {
		return nil, problem.Invalid(rest.FieldError{Location: "query.label_selector", Message: "is not a label selector such as a=b,c!=d,e in (f, g),!h"})
	}
	list := o.kind.list()
	limit := in.Limit
	if limit == 0 {
		limit = 100
	}
	err = o.store.List(ctx, list, &client.ListOptions{Namespace: in.Namespace, LabelSelector: selector, Limit: limit, Continue: in.Continue})
	if err != nil {
		return nil, listError(in, o.translate(o.named(types.NamespacedName{Namespace: in.Namespace}), err))
	}
	out := &page[W]{}
	out.Body.Items = []W{}
	out.Body.Continue = list.GetContinue()
	err = meta.EachListItem(list, func(item runtime.Object) error {
		out.Body.Items = append(out.Body.Items, o.wire(item.(O)))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", o.plural, err)
	}
	if len(out.Body.Items) == 0 && in.Continue == "" {
		_, err = o.store.Tenant(ctx, in.Namespace) // the cluster lists what no namespace has
		return out, err
	}
	return out, nil
}

func (o *operations[W, O]) handleCreate(ctx context.Context, in *createInput) (*one[W], error) {
	body, err := readJSON(ctx, false)
	if err != nil {
		return nil, err
	}
	wire, err := o.decodeNamed(body, types.NamespacedName{Namespace: in.Namespace})
	if err != nil {
		return nil, err
	}
	var object O
	if o.idempotent {
		object, err = o.createOnce(ctx, in.Namespace, wire, in.IdempotencyKey)
	} else {
		object, err = o.createNew(ctx, in.Namespace, wire, nil)
	}
	request.From(ctx).Name = *o.header(wire).name
	if err != nil {
		return nil, err
	}
	return o.answerWritten(ctx, http.StatusCreated, object, in.Waiting)
}

type replaceInput struct {
	Named
	Waiting
	Preconditions
}

func (o *operations[W, O]) handleReplace(ctx context.Context, in *replaceInput) (*one[W], error) {
	body, err := readJSON(ctx, false)
	if err != nil {
		return nil, err
	}
	object, created, err := o.replace(ctx, in.Key(), body, in.Preconditions, func() error {
		return o.authorize(ctx, authz.Action{Verb: "create", Namespace: in.Namespace, Resource: o.resource})
	})
	if err != nil {
		return nil, err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return o.answerWritten(ctx, status, object, in.Waiting)
}

func (o *operations[W, O]) handlePatch(ctx context.Context, in *replaceInput) (*one[W], error) {
	body, err := readJSON(ctx, true)
	if err != nil {
		return nil, err
	}
	object, err := o.patch(ctx, in.Key(), body, in.Preconditions)
	if err != nil {
		return nil, err
	}
	return o.answerWritten(ctx, http.StatusOK, object, in.Waiting)
}

type deleteInput struct {
	Named
	Preconditions
	Wait   string `query:"wait" doc:"gone: answer when it is gone, at the latest after 300 seconds."`
	Prefer string `header:"Prefer" doc:"wait=N: the same, for at most N seconds."`
}

func (o *operations[W, O]) handleDelete(ctx context.Context, in *deleteInput) (*struct{}, error) {
	patience, err := Waiting{in.Wait, in.Prefer}.patience("gone")
	if err != nil {
		return nil, err
	}
	object, err := o.remove(ctx, in.Key(), in.Preconditions)
	if err != nil || patience == 0 {
		return nil, err
	}
	uid := object.GetUID()
	o.wait(ctx, object, patience, func(now client.Object) bool { return now == nil || now.GetUID() != uid })
	return nil, nil
}

// answerWritten answers a write, after the wait that the caller wants.
func (o *operations[W, O]) answerWritten(ctx context.Context, status int, object O, in Waiting) (*one[W], error) {
	patience, err := in.patience("ready")
	if err != nil {
		return nil, err
	}
	if patience > 0 {
		// The wait reads into a copy: if the object is deleted meanwhile, the answer is what was written.
		seen := object.DeepCopyObject().(O)
		if o.wait(ctx, seen, patience, settled) == nil {
			object = seen
		}
	}
	answer := o.answer(status, object)
	if status == http.StatusCreated {
		answer.Location = request.From(ctx).Request.URL.Path
		if name := object.GetName(); !strings.HasSuffix(answer.Location, "/"+name) {
			answer.Location += "/" + name
		}
	}
	if patience > 0 && in.Prefer != "" {
		answer.PreferenceApplied = "wait=" + strconv.Itoa(int(patience/time.Second))
	}
	return answer, nil
}
