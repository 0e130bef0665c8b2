package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/tracing"
)

const (
	// answerSlack is how much longer than the function's own time-out a call may take: the gateway may hold it a while first.
	answerSlack = 15 * time.Second
	// discardLimit is how much of an answer is read, to use the connection again, before it is closed.
	discardLimit = 256 << 10
	problemLimit = 16 << 10
	// retryFor is how long a call that no handler has seen is tried again.
	retryFor     = time.Minute
	firstPause   = 250 * time.Millisecond
	longestPause = 2 * time.Second
)

// Call is one call of a function.
type Call struct {
	Namespace, Function string
	// Trigger is whose schedule this is.
	Trigger string
	// ID is the request id, which appears in the function's log.
	ID    string
	Event string
	// Timeout is the function's own.
	Timeout time.Duration
	// StartWithin is how long the call may still be begun.
	StartWithin time.Duration
}

// Gateway calls functions through the gateway's internal listener.
type Gateway struct {
	// URL is the listener's, without a trailing slash.
	URL string
	// TokenFile is the projected service-account token. It is read for each call, because Kubernetes renews it.
	TokenFile string
	client    *http.Client
}

// NewGateway returns a Gateway with connections of its own.
func NewGateway(url, tokenFile string) *Gateway {
	transport := &http.Transport{ // no proxy: the gateway is in the cluster
		DialContext:         (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		MaxIdleConns:        512,
		MaxIdleConnsPerHost: 512,
		IdleConnTimeout:     30 * time.Second,
		DisableCompression:  true,
		ReadBufferSize:      4 << 10,
		WriteBufferSize:     4 << 10,
	}
	return &Gateway{URL: strings.TrimRight(url, "/"), TokenFile: tokenFile, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Call calls the function once. It tries again only what certainly has reached no handler: no connection to the gateway, or an
// answer that says that no replica could take the call.
func (g *Gateway) Call(ctx context.Context, call Call) Outcome {
	giveUp := time.Now().Add(min(call.StartWithin, retryFor))
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		outcome, again := g.try(ctx, call)
		if !again || time.Now().Add(pause).After(giveUp) {
			return outcome
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return outcome
		}
	}
}

// try makes one request. again says that no handler has seen it.
func (g *Gateway) try(ctx context.Context, call Call) (outcome Outcome, again bool) {
	token, err := os.ReadFile(g.TokenFile)
	if err != nil {
		return refused("the operator has no token for the gateway"), false
	}
	ctx, cancel := context.WithTimeout(ctx, call.Timeout+answerSlack)
	defer cancel()
	url := g.URL + "/invoke/" + call.Namespace + "/" + call.Function
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(call.Event))
	if err != nil {
		return refused("the gateway's address is not a URL"), false
	}
	request.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(token)))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Request-Id", call.ID)
	request.Header.Set("Traceparent", tracing.Parent(call.ID))
	request.Header.Set(names.TriggerHeader, call.Trigger)
	outcome.Started = time.Now()
	response, err := g.client.Do(request)
	if err != nil {
		outcome.Duration = time.Since(outcome.Started)
		outcome.Result, outcome.Message, again = noAnswer(ctx, err)
		return outcome, again
	}
	defer func() { _ = response.Body.Close() }() // nothing depends on it
	outcome.Result, outcome.Message, again = read(response)
	outcome.Duration = time.Since(outcome.Started)
	return outcome, again
}

func refused(message string) Outcome {
	return Outcome{Result: v1alpha1.RunRefused, Message: message}
}

// noAnswer says what a call without an answer means. Only a connection that was never made is certain not to have carried the call.
func noAnswer(ctx context.Context, err error) (v1alpha1.RunResult, string, bool) {
	dial, isNet := errors.AsType[*net.OpError](err)
	switch {
	case isNet && dial.Op == "dial" && ctx.Err() == nil:
		return v1alpha1.RunRefused, "the gateway can't be reached", true
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return v1alpha1.RunFailed, "no answer in the function's time", false
	case ctx.Err() != nil:
		return v1alpha1.RunReplaced, "ended by the operator", false
	default:
		return v1alpha1.RunFailed, "the connection to the gateway broke before the answer; the function may have run", false
	}
}

// read sorts an answer. No part of a body gets into a message: it may hold what only the function's owner may see.
func read(response *http.Response) (v1alpha1.RunResult, string, bool) {
	if response.StatusCode/100 == 2 {
		if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, discardLimit)); err != nil {
			return v1alpha1.RunFailed, "the answer broke off", false
		}
		return v1alpha1.RunSucceeded, "", false
	}
	code := problemCode(response)
	answer, known := answers[code]
	if !known {
		return v1alpha1.RunFailed, fmt.Sprintf("answered %d", response.StatusCode), false
	}
	return answer.result, fmt.Sprintf("%s (%d): %s", code, response.StatusCode, answer.message), answer.again
}

// problemCode returns the code of a problem document, empty when the answer is none.
func problemCode(response *http.Response) string {
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "application/problem+json") {
		return ""
	}
	var document struct{ Code string }
	body, err := io.ReadAll(io.LimitReader(response.Body, problemLimit))
	if err != nil || json.Unmarshal(body, &document) != nil {
		return ""
	}
	return document.Code
}

// answer is what a problem's code means for a run.
type answer struct {
	result  v1alpha1.RunResult
	message string
	again   bool
}

// answers are the codes of the gateway and of the runtimes.
var answers = map[string]answer{
	"no_endpoint":      {v1alpha1.RunRefused, "no replica of the function was ready", true},
	"auth_unavailable": {v1alpha1.RunRefused, "the gateway could not check the operator's token", true},
	"scaled_to_zero":   {v1alpha1.RunRefused, "the function has replicas 0", false},
	"disabled":         {v1alpha1.RunRefused, "every Trigger of the function is disabled", false},
	"no_route":         {v1alpha1.RunRefused, "the gateway knows no such function", false},
	"over_limit":       {v1alpha1.RunRefused, "the function runs as many calls as its concurrency allows", false},
	"overloaded":       {v1alpha1.RunRefused, "the function runs as many calls as its concurrency allows", false},
	"unauthorized":     {v1alpha1.RunRefused, "the gateway does not accept the operator's token", false},
	"body_too_large":   {v1alpha1.RunRefused, "the event is larger than the gateway lets through", false},
	"not_loaded":       {v1alpha1.RunFailed, "the handler can't be loaded; see the function's log", false},
	"function_timeout": {v1alpha1.RunFailed, "the handler did not answer within timeoutSeconds", false},
	"function_crashed": {v1alpha1.RunFailed, "the handler's process ended under the call; see the function's log", false},
	"function_failed":  {v1alpha1.RunFailed, "the handler ended with an error; see the function's log", false},
	"bad_request":      {v1alpha1.RunFailed, "the call was not understood", false},
	"body_timeout":     {v1alpha1.RunFailed, "the call did not arrive in time", false},
}
