package rest

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Invocation is the record of one run of a function. Durations are in milliseconds, whole microseconds of them.
type Invocation struct {
	ID        string    `json:"id" doc:"The request id, by which the log is found; of a job its uid, a hyphen and the run_id."`
	Function  string    `json:"function" doc:"The function's name."`
	Kind      string    `json:"kind" enum:"http,cron,job,invoke" doc:"What made it run: a request from outside, a schedule, a job, or a call through this API."`
	Trigger   string    `json:"trigger,omitempty" doc:"The trigger's name."`
	Job       string    `json:"job,omitempty" doc:"The job's name."`
	StartedAt time.Time `json:"started_at" doc:"When the request came, or the job's container began."`
	Status    int       `json:"status" doc:"The HTTP status; of a job 200 when it succeeded, 500 when it failed, 504 when it took too long, 0 when that is not known."`
	Code      string    `json:"code,omitempty" doc:"Why sless itself refused or ended it, such as concurrency_limit; absent when the answer is the function's own."`

	DurationMS float64 `json:"duration_ms" doc:"All of it, from the receipt to the end of the answer, in milliseconds."`
	QueuedMS   float64 `json:"queued_ms" doc:"Of that, waiting to be let in."`
	StartingMS float64 `json:"starting_ms" doc:"Of that, waiting for a pod."`
	HandlerMS  float64 `json:"handler_ms" doc:"Of that, in the function."`

	Image    string `json:"image,omitempty" doc:"Digest of the image that ran."`
	CodeHash string `json:"code_hash,omitempty" doc:"code_hash of the function then."`
	Pod      string `json:"pod,omitempty" doc:"The pod that ran it."`
	Caller   string `json:"caller,omitempty" doc:"The caller's address, or its network, as the platform keeps it."`
	BytesIn  int64  `json:"bytes_in" doc:"Size of the request's body, as far as it came."`
	BytesOut int64  `json:"bytes_out" doc:"Size of the answer's body, as far as it was sent."`
	Attempt  int    `json:"attempt" doc:"How often it was tried, this one included."`
	Dropped  int    `json:"dropped,omitempty" doc:"How many records were lost just before this one, of any namespace."`
}

// Invocations is one page, the newest first.
type Invocations struct {
	Items    []Invocation `json:"items" doc:"This page, the newest first."`
	Continue string       `json:"continue,omitempty" doc:"Set when there is more: give it as continue to get the next page."`
}

// InvocationSummary is how one function did in a window of time.
type InvocationSummary struct {
	Function string  `json:"function" doc:"The function's name."`
	Count    int64   `json:"count" doc:"How often it ran or was refused."`
	Errors   int64   `json:"errors" doc:"How many of these have a status of 500 or more, or were refused or ended by sless."`
	P50MS    float64 `json:"p50_ms" doc:"Half of them took at most so many milliseconds."`
	P95MS    float64 `json:"p95_ms" doc:"95 of 100 took at most so many milliseconds."`
	P99MS    float64 `json:"p99_ms" doc:"99 of 100 took at most so many milliseconds."`
}

// InvocationSummaries is all functions of a namespace that ran in a window of time.
type InvocationSummaries struct {
	Items []InvocationSummary `json:"items" doc:"In the order of names."`
	From  time.Time           `json:"from" doc:"The beginning of the window."`
	To    time.Time           `json:"to" doc:"Its end: now."`
}

// InvocationFilter chooses records; what is empty lets everything through.
type InvocationFilter struct {
	Function string
	Trigger  string
	Job      string
	// Kind is http, cron, job or invoke.
	Kind string
	// Status is a class (2xx, 3xx, 4xx, 5xx) or a number.
	Status string
	// From and To bound the beginning of a run: From <= started_at < To.
	From, To time.Time
	// Limit is how many records a page has at most, up to 1000; 0 is 100.
	Limit int
	// Continue is what the page before said; the rest must be as it was.
	Continue string
}

// Invocations returns a page of the records of a namespace.
func (c *Client) Invocations(ctx context.Context, namespace string, filter InvocationFilter) (Invocations, error) {
	call := newCall(http.MethodGet, "namespaces", namespace, "invocations")
	for name, value := range map[string]string{
		"function": filter.Function, "trigger": filter.Trigger, "job": filter.Job, "kind": filter.Kind, "status": filter.Status, "continue": filter.Continue,
		"from": timeText(filter.From), "to": timeText(filter.To),
	} {
		if value != "" {
			call.query.Set(name, value)
		}
	}
	if filter.Limit != 0 {
		call.query.Set("limit", strconv.Itoa(filter.Limit))
	}
	var page Invocations
	response, err := c.do(ctx, call)
	if err != nil {
		return page, err
	}
	return page, answer(response, &page)
}

// InvocationSummary sums up each function of a namespace. The window is 1h, 24h or 7d; empty is 24h.
func (c *Client) InvocationSummary(ctx context.Context, namespace, window string) (InvocationSummaries, error) {
	call := newCall(http.MethodGet, "namespaces", namespace, "invocations", "summary")
	if window != "" {
		call.query = url.Values{"window": {window}}
	}
	var summaries InvocationSummaries
	response, err := c.do(ctx, call)
	if err != nil {
		return summaries, err
	}
	return summaries, answer(response, &summaries)
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
