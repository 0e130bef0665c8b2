// Package invocations answers what ran, when and how it ended, from the ledger: to each tenant for its own namespace.
package invocations

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/problem"
	"github.com/naeel/sless/apiserver/internal/request"
	"github.com/naeel/sless/apiserver/internal/resources"
	"github.com/naeel/sless/ledger"
)

// Handlers serve the records of namespaces.
type Handlers struct {
	Ledger *ledger.Reader
	// Tenant returns the UID of a namespace: one that was made again has none of the records of the one before it.
	Tenant func(ctx context.Context, namespace string) (string, error)
}

// Register adds the operations to api.
func (h *Handlers) Register(api huma.API) {
	operation := huma.Operation{
		OperationID: "list-invocations", Method: http.MethodGet, Path: "/v1/namespaces/{namespace}/invocations", Summary: "List what ran", Tags: []string{"invocations"},
		Description: "One record for each request, cron run, job run and call of the namespace's functions, refused ones too, the newest first. " +
			"503 ledger_off when the installation keeps none.",
		Metadata: resources.Rights("list", "functions", ""), Errors: append(resources.CommonErrors(), 422),
	}
	huma.Register(api, operation, h.list)
	operation.OperationID, operation.Path, operation.Summary = "summarize-invocations", operation.Path+"/summary", "Sum up what ran"
	operation.Description = "How often each function ran, failed, and how long it took. 503 ledger_off when the installation keeps no records."
	huma.Register(api, operation, h.summarize)
}

type listInput struct {
	resources.InNamespace
	Function string    `query:"function" maxLength:"253" doc:"Only those of this function."`
	Trigger  string    `query:"trigger" maxLength:"253" doc:"Only those by this trigger."`
	Job      string    `query:"job" maxLength:"253" doc:"Only those of this job."`
	Kind     string    `query:"kind" enum:"http,cron,job,invoke" doc:"Only those that ran for this."`
	Status   string    `query:"status" pattern:"^([2-5]xx|[0-9]{1,3})$" doc:"Only those with this status: a number, or a class such as 5xx." example:"5xx"`
	From     time.Time `query:"from" doc:"Only those that began then or later." example:"2026-01-02T15:04:05Z"`
	To       time.Time `query:"to" doc:"Only those that began before."`
	Limit    int       `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"At most so many in one page."`
	Continue string    `query:"continue" maxLength:"2000" doc:"continue of the page before; the other parameters must be the same."`
}

type listOutput struct{ Body rest.Invocations }

func (h *Handlers) list(ctx context.Context, in *listInput) (*listOutput, error) {
	query := ledger.Query{
		Function: in.Function, Trigger: in.Trigger, Job: in.Job, Kind: ledger.Kind(in.Kind), Status: in.Status,
		From: in.From, To: in.To, Limit: in.Limit, Continue: in.Continue,
	}
	if err := query.Validate(); err != nil {
		return nil, explain(ctx, err)
	}
	var err error
	if query.NamespaceUID, err = h.Tenant(ctx, in.Namespace); err != nil {
		return nil, err
	}
	page, err := h.Ledger.List(ctx, query)
	if err != nil {
		return nil, explain(ctx, err)
	}
	out := &listOutput{rest.Invocations{Items: make([]rest.Invocation, len(page.Records)), Continue: page.Continue}}
	for i := range page.Records {
		out.Body.Items[i] = wire(&page.Records[i])
	}
	return out, nil
}

type summarizeInput struct {
	resources.InNamespace
	Window string `query:"window" enum:"1h,24h,7d" default:"24h" doc:"How far back from now."`
}

type summarizeOutput struct{ Body rest.InvocationSummaries }

var windows = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour}

func (h *Handlers) summarize(ctx context.Context, in *summarizeInput) (*summarizeOutput, error) {
	uid, err := h.Tenant(ctx, in.Namespace)
	if err != nil {
		return nil, err
	}
	to := time.Now().UTC()
	from := to.Add(-windows[in.Window])
	summaries, err := h.Ledger.Summary(ctx, uid, from, to)
	if err != nil {
		return nil, explain(ctx, err)
	}
	out := &summarizeOutput{rest.InvocationSummaries{Items: make([]rest.InvocationSummary, len(summaries)), From: from, To: to}}
	for i, s := range summaries {
		out.Body.Items[i] = rest.InvocationSummary{
			Function: s.Function, Count: s.Count, Errors: s.Errors, P50MS: milliseconds(s.P50), P95MS: milliseconds(s.P95), P99MS: milliseconds(s.P99),
		}
	}
	return out, nil
}

// explain says what a caller may know of an error of the ledger, and logs the rest.
func explain(ctx context.Context, err error) error {
	if wrong, ok := errors.AsType[*ledger.QueryError](err); ok {
		return problem.Invalid(rest.FieldError{Location: "query." + wrong.Field, Message: wrong.Rule})
	}
	switch {
	case errors.Is(err, ledger.ErrOff):
		return problem.New(http.StatusServiceUnavailable, rest.CodeLedgerOff,
			"this installation keeps no records of what ran; its administrator turns that on by ledger.dsnFile, a file with the address of a PostgreSQL")
	case errors.Is(err, ledger.ErrUnavailable):
		request.From(ctx).Log.ErrorContext(ctx, "read ledger", "error", err)
		return problem.New(http.StatusServiceUnavailable, rest.CodeLedgerUnavailable, "the database with the records does not answer; try again").RetryAfter(5 * time.Second)
	}
	return err
}

func wire(r *ledger.Record) rest.Invocation {
	caller := ""
	if r.Caller.IsValid() {
		caller = r.Caller.String()
	}
	return rest.Invocation{
		ID: r.ID, Function: r.Function, Kind: string(r.Kind), Trigger: r.Trigger, Job: r.Job, StartedAt: r.Started.UTC(), Status: r.Status, Code: r.Code,
		DurationMS: milliseconds(r.Duration), QueuedMS: milliseconds(r.Queued), StartingMS: milliseconds(r.Starting), HandlerMS: milliseconds(r.Handler),
		Image: r.Image, CodeHash: r.CodeHash, Pod: r.Pod, Caller: caller, BytesIn: r.BytesIn, BytesOut: r.BytesOut, Attempt: r.Attempt, Dropped: r.Dropped,
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
