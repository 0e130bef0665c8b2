package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/ledger"
)

// TestLedger holds that a call, a cron run, a failed job and a refused call are in one list, and what it says of each.
func TestLedger(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	home, access := &corev1.Namespace{}, &corev1.Secret{}
	if err := get(t, "", namespace, home); err != nil {
		t.Fatal(err)
	}
	if err := get(t, names.SystemNamespace, "ledger-reader", access); err != nil {
		t.Fatal(err)
	}
	dsn := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(dsn, access.Data["dsn"], 0o600); err != nil {
		t.Fatal(err)
	}
	reader := ledger.NewReader(dsn)
	defer reader.Close()

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
	var slow sync.WaitGroup
	slow.Go(func() { mustCall(t, http.MethodGet, namespace, "f", "/slow", "", http.StatusOK) })
	eventually(t, "a call is refused", func() error {
		answer, err := call(t, http.MethodGet, namespace, "f", "/", "")
		if err == nil && answer.status != http.StatusTooManyRequests {
			return fmt.Errorf("answered %d", answer.status)
		}
		return err
	})
	slow.Wait()
	waitJob(t, namespace, "fails", v1alpha1.FunctionJobFailed)
	apply(t, namespace, cronTrigger("each-minute", "f", `{schedule: "* * * * *"}`))

	for _, want := range []struct {
		what  string
		query ledger.Query
		is    func(ledger.Record) bool
	}{
		{"the call", ledger.Query{Kind: ledger.HTTP, Trigger: "f", Status: "2xx"}, func(r ledger.Record) bool { return r.BytesIn == 5 && r.Handler > 0 && r.Code == "" }},
		{"the refused call", ledger.Query{Kind: ledger.HTTP, Status: "429"}, func(r ledger.Record) bool { return r.Queued > 0 && r.Pod == "" && r.Code == "over_limit" }},
		{"the failed job", ledger.Query{Kind: ledger.Job, Job: "fails", Status: "5xx"}, func(r ledger.Record) bool { return r.Code == v1alpha1.ReasonFailed && r.Image != "" && r.Pod != "" }},
		{"the cron run", ledger.Query{Kind: ledger.Cron, Trigger: "each-minute", Status: "200"}, func(r ledger.Record) bool { return r.Pod != "" && r.Image != "" }},
	} {
		want.query.NamespaceUID = string(home.UID)
		eventually(t, want.what+" is in the list", func() error {
			page, err := reader.List(t.Context(), want.query)
			if err != nil {
				return err
			}
			for _, r := range page.Records {
				if r.Function == "f" && r.Namespace == namespace && r.ID != "" && want.is(r) {
					return nil
				}
			}
			return fmt.Errorf("records %+v", page.Records)
		})
	}
}
