package rest

import (
	"context"
	"net/http"
	"strconv"
)

// Resource is the functions, triggers or jobs of one namespace.
type Resource[T any] struct {
	client    *Client
	namespace string
	plural    string
}

// Stored is an object as the server has it.
type Stored[T any] struct {
	Object T
	// ETag stands for what can be written of it, for IfMatch.
	ETag string
}

// Functions returns the functions of a namespace.
func (c *Client) Functions(namespace string) Resource[Function] {
	return Resource[Function]{c, namespace, "functions"}
}

// Triggers returns the triggers of a namespace.
func (c *Client) Triggers(namespace string) Resource[Trigger] {
	return Resource[Trigger]{c, namespace, "triggers"}
}

// Jobs returns the jobs of a namespace.
func (c *Client) Jobs(namespace string) Resource[Job] {
	return Resource[Job]{c, namespace, "jobs"}
}

func (r Resource[T]) call(method string, name ...string) *call {
	return newCall(method, append([]string{"namespaces", r.namespace, r.plural}, name...)...)
}

func (r Resource[T]) object(ctx context.Context, call *call, options []Option) (Stored[T], error) {
	for _, option := range options {
		option(call)
	}
	var stored Stored[T]
	response, err := r.client.do(ctx, call)
	if err != nil {
		return stored, err
	}
	stored.ETag = response.Header.Get("ETag")
	return stored, answer(response, &stored.Object)
}

// Create makes a new object.
func (r Resource[T]) Create(ctx context.Context, object T, options ...Option) (Stored[T], error) {
	call := r.call(http.MethodPost)
	if err := call.setJSON("application/json", object); err != nil {
		return Stored[T]{}, err
	}
	return r.object(ctx, call, options)
}

// Get reads an object.
func (r Resource[T]) Get(ctx context.Context, name string, options ...Option) (Stored[T], error) {
	return r.object(ctx, r.call(http.MethodGet, name), options)
}

// Replace makes the object what is given, or creates it.
func (r Resource[T]) Replace(ctx context.Context, name string, object T, options ...Option) (Stored[T], error) {
	call := r.call(http.MethodPut, name)
	if err := call.setJSON("application/json", object); err != nil {
		return Stored[T]{}, err
	}
	return r.object(ctx, call, options)
}

// Patch changes the fields in patch, a JSON merge patch; a null clears one.
func (r Resource[T]) Patch(ctx context.Context, name string, patch any, options ...Option) (Stored[T], error) {
	call := r.call(http.MethodPatch, name)
	if err := call.setJSON("application/merge-patch+json", patch); err != nil {
		return Stored[T]{}, err
	}
	return r.object(ctx, call, options)
}

// Delete deletes an object; see IsNotFound for one that does not exist.
func (r Resource[T]) Delete(ctx context.Context, name string, options ...Option) error {
	call := r.call(http.MethodDelete, name)
	for _, option := range options {
		option(call)
	}
	response, err := r.client.do(ctx, call)
	if err != nil {
		return err
	}
	return answer(response, nil)
}

// ListOptions choose what a list has.
type ListOptions struct {
	// LabelSelector is in the syntax of kubectl.
	LabelSelector string
	// Limit is the most in one page; 0 is the server's default.
	Limit int
	// Continue is that of the page before.
	Continue string
}

// List reads one page.
func (r Resource[T]) List(ctx context.Context, options ListOptions) (List[T], error) {
	call := r.call(http.MethodGet)
	if options.LabelSelector != "" {
		call.query.Set("label_selector", options.LabelSelector)
	}
	if options.Limit > 0 {
		call.query.Set("limit", strconv.Itoa(options.Limit))
	}
	if options.Continue != "" {
		call.query.Set("continue", options.Continue)
	}
	var page List[T]
	response, err := r.client.do(ctx, call)
	if err != nil {
		return page, err
	}
	return page, answer(response, &page)
}

// All reads all pages.
func (r Resource[T]) All(ctx context.Context, labelSelector string) ([]T, error) {
	var all []T
	options := ListOptions{LabelSelector: labelSelector}
	for {
		page, err := r.List(ctx, options)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Continue == "" {
			return all, nil
		}
		options.Continue = page.Continue
	}
}
