package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
)

// A call, a cron run, a failed job and a refused call are in one list, which says how each went.
func TestLedger(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	token := programToken(t, namespace, "sless-viewer")
	waitForRights(t, namespace, token)
	api := restClient(t, token)

	const code = `import time
def handle(event, context):
    if event.get('fail'):
        raise ValueError('asked to fail')
    if event.get('path') == '/slow':
        time.sleep(14)
    return 'done'
`
	apply(t, namespace, python("f", code, "concurrency: 1")+httpTrigger("f"))
	waitFunction(t, namespace, "f", metav1.ConditionTrue, v1alpha1.ReasonReady)
	mustCall(t, http.MethodPost, namespace, "f", "/", "12345", http.StatusOK)
	apply(t, namespace, job("fails", "f", `runID: 1, eventJSON: '{"fail": true}'`))
	// A call takes longer than others wait for a free place.
	eventually(t, "of two calls at a time one is refused", func() error {
		var both sync.WaitGroup
		var errs [2]error
		statuses := make([]int, 2)
		for i := range statuses {
			both.Go(func() {
				var got answer
				got, errs[i] = call(t, http.MethodGet, namespace, "f", "/slow", "")
				statuses[i] = got.status
			})
		}
		both.Wait()
		if slices.Sort(statuses); !slices.Equal(statuses, []int{http.StatusOK, http.StatusTooManyRequests}) {
			return fmt.Errorf("answered %v, %v", statuses, errors.Join(errs[:]...))
		}
		return nil
	})
	waitJob(t, namespace, "fails", v1alpha1.FunctionJobFailed)
	apply(t, namespace, cronTrigger("each-minute", "f", `{schedule: "* * * * *"}`))

	wanted := map[string]func(rest.Invocation) bool{
		"the call": func(i rest.Invocation) bool {
			return i.Kind == "http" && i.Trigger == "f" && i.Status == 200 && i.BytesIn == 5 && i.HandlerMS > 0 && i.Pod != "" && i.Code == ""
		},
		"the refused call": func(i rest.Invocation) bool {
			return i.Kind == "http" && i.Status == 429 && i.QueuedMS > 0 && i.Pod == "" && i.Code == "over_limit"
		},
		"the failed job": func(i rest.Invocation) bool {
			return i.Kind == "job" && i.Job == "fails" && i.Status == 500 && i.Code == v1alpha1.ReasonFailed && i.Image != "" && i.Pod != ""
		},
		"the cron run": func(i rest.Invocation) bool {
			return i.Kind == "cron" && i.Trigger == "each-minute" && i.Status == 200 && i.Image != "" && i.Pod != ""
		},
	}
	eventually(t, "all of them are in one list", func() error {
		list, err := api.Invocations(t.Context(), namespace, rest.InvocationFilter{})
		if err != nil {
			return err
		}
		for what, is := range wanted {
			if !slices.ContainsFunc(list.Items, func(i rest.Invocation) bool { return i.Function == "f" && i.ID != "" && is(i) }) {
				return fmt.Errorf("%s is not in %+v", what, list.Items)
			}
		}
		if !slices.IsSortedFunc(list.Items, func(a, b rest.Invocation) int { return b.StartedAt.Compare(a.StartedAt) }) {
			t.Errorf("the newest is not the first: %+v", list.Items)
		}
		return nil
	})
	summary, err := api.InvocationSummary(t.Context(), namespace, "1h")
	if err != nil || len(summary.Items) != 1 || summary.Items[0].Function != "f" || summary.Items[0].Count < 5 || summary.Items[0].Errors < 2 || summary.Items[0].P99MS < 1000 {
		t.Errorf("the summary is %+v, %v", summary, err)
	}
}
