//go:build acceptance

package acceptance

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/naeel/sless/api/rest"
)

const jobCode = `
resource "sless_function" "work" {
  name      = "work"
  runtime   = "python3.11"
  memory_mb = 64
  inline    = { "handler.py" = <<-EOT
    def handle(event):
        if event.get("fail"):
            raise ValueError("no such luck")
        return {"saw": event}
  EOT
  }
}
`

func job(more ...string) string {
	return jobCode + "resource \"sless_job\" \"it\" {\n  name = \"it\"\n  function = sless_function.work.name\n  " + strings.Join(more, "\n  ") + "\n}\n"
}

// TestJob goes through the life of a job.
func TestJob(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	want := func(phase string, result any) {
		t.Helper()
		if got := w.attributes("sless_job.it"); got["phase"] != phase || fmt.Sprint(got["result"]) != fmt.Sprint(result) {
			t.Errorf("the job is %v with result %v, want %s with %v", got["phase"], got["result"], phase, result)
		}
		w.wantNoChanges()
	}
	w.write("main.tf", job())
	w.apply()
	want("Skipped", nil)

	w.write("main.tf", job("run_id = 1", `event_json = jsonencode({ a = 1 })`))
	w.wantPlanned(map[string]string{"sless_job.it": "delete,create"})
	w.applyPlanned()
	want("Succeeded", `{"saw":{"a":1}}`)

	// Another event waits for the next run.
	w.write("main.tf", job("run_id = 1", `event_json = jsonencode({ a = 2 })`))
	w.wantPlanned(map[string]string{"sless_job.it": "update"})
	w.applyPlanned()
	want("Succeeded", `{"saw":{"a":1}}`)
	w.write("main.tf", job("run_id = 2", `event_json = jsonencode({ a = 2 })`))
	w.apply()
	want("Succeeded", `{"saw":{"a":2}}`)

	for _, attribute := range []string{"timeout_sec = 200", "backoff_limit = 1", "ttl_sec_after_finished = 60", "wait_timeout_sec = 200"} {
		w.write("main.tf", job("run_id = 2", `event_json = jsonencode({ a = 2 })`, attribute))
		w.wantPlanned(map[string]string{"sless_job.it": "update"})
		w.applyPlanned()
		want("Succeeded", `{"saw":{"a":2}}`)
	}

	// Changed and deleted behind its back.
	w.write("main.tf", job("run_id = 2", `event_json = jsonencode({ a = 2 })`))
	w.apply()
	w.kubectl("-n", w.namespace, "patch", "functionjobs.sless.io", "it", "--type=merge", "-p", `{"spec":{"timeoutSeconds":7}}`)
	w.wantPlanned(map[string]string{"sless_job.it": "update"})
	w.applyPlanned()
	want("Succeeded", `{"saw":{"a":2}}`)
	w.kubectl("-n", w.namespace, "delete", "functionjobs.sless.io", "it", "--timeout=5m")
	w.wantPlanned(map[string]string{"sless_job.it": "create"})
	w.applyPlanned()
	want("Succeeded", `{"saw":{"a":2}}`)

	w.write("main.tf", job("run_id = 3", `event_json = jsonencode({ fail = true })`, "fail_on_error = false"))
	if out := w.apply(); !strings.Contains(out, "no such luck") {
		t.Errorf("the warning does not say why it failed:\n%s", out)
	}
	want("Failed", nil)
	w.write("main.tf", job("run_id = 4", `event_json = jsonencode({ fail = true })`))
	if out := w.applyFails(); !strings.Contains(out, "no such luck") {
		t.Errorf("the error does not say why it failed:\n%s", out)
	}
	w.write("main.tf", job("run_id = 5"))
	w.apply()
	want("Succeeded", `{"saw":{}}`)
	w.destroy()
	if _, err := w.client.Jobs(w.namespace).Get(context.Background(), "it", rest.Fresh()); !rest.IsNotFound(err) {
		t.Errorf("after destroy: %v, want not found", err)
	}
}
