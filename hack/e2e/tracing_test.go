package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/hack/internal/collector"
)

// collecting is a tenant's own collector: it keeps what it is sent.
const collecting = `kept = []
def handle(event):
    if event['path'] == '/v1/traces':
        kept.append([event['headers']['Content-Type'], event['body'], event['isBase64Encoded']])
        return None
    return kept
`

const tracedCaller = `exports.handle = async (event, context) => {
  await (await fetch(event.queryStringParameters.url)).text();
  return context.traceparent;
};
`

// tracedCallee first waits until it reaches what a job names: its pod has just started, and the network may not let it out yet.
const tracedCallee = `import time, urllib.request
def handle(event, context):
    while event.get('first'):
        try:
            urllib.request.urlopen(event['first'], timeout=10).close()
            break
        except OSError:
            time.sleep(0.1)
    return {'traceparent': context.traceparent}
`

// A caller's trace goes through the gateway into one function, from there into another, and on to the collector that the functions name.
// A job's run has a trace as well.
func TestTraces(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	inside := func(function string) string {
		return fmt.Sprintf("http://%s.%s.svc.cluster.local:8080", function, names.FunctionNamespace(namespace))
	}
	env := `env: [{name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "` + inside("collector") + `"}]`
	apply(t, namespace, python("collector", collecting)+httpTrigger("collector"))
	apply(t, namespace, node("caller", tracedCaller, env)+httpTrigger("caller"))
	apply(t, namespace, python("callee", tracedCallee, env))
	for _, name := range []string{"collector", "caller", "callee"} {
		waitFunction(t, namespace, name, "True", v1alpha1.ReasonReady)
	}
	spans := func(trace string) (found []collector.Span, err error) {
		var kept [][3]any
		got, err := call(t, http.MethodGet, namespace, "collector", "/", "")
		if err == nil {
			err = json.Unmarshal([]byte(got.body), &kept)
		}
		if err != nil {
			return nil, fmt.Errorf("ask the collector: %w: %s", err, got.body)
		}
		c := &collector.Collector{}
		for _, batch := range kept {
			body := []byte(batch[1].(string))
			if batch[2] == true {
				if body, err = base64.StdEncoding.DecodeString(string(body)); err != nil {
					return nil, err
				}
			}
			if err := c.Take(body, batch[0].(string)); err != nil {
				return nil, err
			}
		}
		return c.Of(trace), nil
	}

	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	callTraced := func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, gateway+names.FunctionPath(namespace, "caller")+"?url="+inside("callee")+"/", http.NoBody)
		if err != nil {
			return err
		}
		request.Header.Set("Traceparent", "00-"+trace+"-"+parent+"-01")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("it answered %d", response.StatusCode)
		}
		return nil
	}
	// The pods have just started: the network may not let them call each other yet, and a span that finds no way is dropped.
	eventually(t, "both spans are collected", func() error {
		if err := callTraced(); err != nil {
			return err
		}
		found, err := spans(trace)
		if err != nil {
			return err
		}
		for _, callee := range found {
			for _, caller := range found {
				if callee.Name == "callee" && callee.Parent == caller.ID && caller.Parent == parent && callee.Resource["service.namespace"] == namespace {
					return nil
				}
			}
		}
		return fmt.Errorf("the spans are %+v", found)
	})

	apply(t, namespace, job("run", "callee", `runID: 1, eventJSON: '{"first": "`+inside("collector")+`"}'`))
	done := waitJob(t, namespace, "run", v1alpha1.FunctionJobSucceeded)
	var result struct{ Traceparent string }
	if err := json.Unmarshal([]byte(done.Status.Result), &result); err != nil || len(strings.Split(result.Traceparent, "-")) != 4 {
		t.Fatalf("the run's result is %s: %v", done.Status.Result, err)
	}
	parts := strings.Split(result.Traceparent, "-")
	eventually(t, "the run's span is collected", func() error {
		found, err := spans(parts[1])
		if err == nil && (len(found) != 1 || found[0].ID != parts[2] || found[0].Attributes["sless.request_id"] != names.RunID(done.UID, 1)) {
			err = fmt.Errorf("the spans are %+v", found)
		}
		return err
	})
}
