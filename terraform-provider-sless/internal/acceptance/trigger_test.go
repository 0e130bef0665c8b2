//go:build acceptance

package acceptance

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/naeel/sless/api/rest"
)

const base = `
resource "sless_function" "hello" {
  name      = "hello"
  runtime   = "python3.11"
  memory_mb = 64
  inline    = { "handler.py" = "def handle(event): return {'saw': event}" }
}
`

func trigger(kind string, more ...string) string {
	return base + fmt.Sprintf("resource \"sless_trigger\" \"it\" {\n  name = \"it\"\n  function = sless_function.hello.name\n  type = %q\n  %s\n}\n", kind, strings.Join(more, "\n  ")) +
		"output \"url\" { value = sless_trigger.it.url }\n"
}

func (w *workspace) get(url string) (int, string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// TestHTTPTrigger goes through the life of an http trigger.
func TestHTTPTrigger(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("main.tf", trigger("http"))
	w.apply()
	w.wantNoChanges()
	url, _ := w.attributes("sless_trigger.it")["url"].(string)
	if status, body := w.get(url + "/x?y=1"); status != http.StatusOK || !strings.Contains(body, "queryStringParameters") {
		t.Errorf("GET %s: %d %s", url, status, body)
	}
	for _, attribute := range []string{`methods = ["POST", "GET"]`, `payload = "body"`, "enabled = false"} {
		w.write("main.tf", trigger("http", attribute))
		w.wantPlanned(map[string]string{"sless_trigger.it": "update"})
		w.applyPlanned()
		w.wantNoChanges()
	}
	if got := w.attributes("sless_trigger.it"); got["phase"] != "Disabled" || got["url"] != nil {
		t.Errorf("a disabled trigger is %v at %v", got["phase"], got["url"])
	}
	w.write("main.tf", trigger("http"))
	w.apply()
	if status, _ := w.get(url); status != http.StatusOK {
		t.Errorf("enabled again: %d", status)
	}
	w.kubectl("-n", w.namespace, "patch", "triggers.sless.io", "it", "--type=merge", "-p", `{"spec":{"enabled":false}}`)
	w.wantPlanned(map[string]string{"sless_trigger.it": "update"})
	w.applyPlanned()
	w.wantNoChanges()
	w.kubectl("-n", w.namespace, "delete", "triggers.sless.io", "it", "--timeout=5m")
	w.wantPlanned(map[string]string{"sless_trigger.it": "create"})
	w.applyPlanned()
	if status, _ := w.get(url); status != http.StatusOK {
		t.Errorf("made again: %d", status)
	}
	other := strings.Replace(base, `"hello"`, `"other"`, 2)
	w.write("main.tf", strings.Replace(trigger("http"), "sless_function.hello.name", "sless_function.other.name", 1)+strings.Replace(other, "{'saw': event}", "'the other'", 1))
	w.wantPlanned(map[string]string{"sless_function.other": "create", "sless_trigger.it": "update"})
	w.applyPlanned()
	w.wantNoChanges()
	url, _ = w.attributes("sless_trigger.it")["url"].(string)
	if status, body := w.get(url); status != http.StatusOK || body != "the other" {
		t.Errorf("the other function: %d %s", status, body)
	}
	w.write("main.tf", trigger("cron", `schedule = "0 3 * * *"`))
	w.wantPlanned(map[string]string{"sless_function.other": "delete", "sless_trigger.it": "delete,create"})
	w.destroy()
}

// TestCronTrigger changes every attribute of a schedule and lets it fire.
func TestCronTrigger(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("main.tf", trigger("cron", `schedule = "0 3 * * *"`))
	w.apply()
	w.wantNoChanges()
	for _, attribute := range []string{`time_zone = "Asia/Tokyo"`, `event_json = jsonencode({ b = 1, a = 2 })`, `concurrency_policy = "Replace"`, "starting_deadline_sec = 30"} {
		w.write("main.tf", trigger("cron", `schedule = "0 3 * * *"`, attribute))
		w.wantPlanned(map[string]string{"sless_trigger.it": "update"})
		w.applyPlanned()
		w.wantNoChanges()
	}
	w.write("main.tf", trigger("cron", `schedule = "0 3 * * *"`, `event_json = "{\"a\": 1}"`))
	w.apply()
	w.write("main.tf", trigger("cron", `schedule = "0 3 * * *"`, `event_json = "{ \"a\" : 1 }"`))
	w.wantNoChanges() // spacing is no change

	w.write("main.tf", trigger("cron", `schedule = "* * * * *"`))
	w.apply()
	deadline := time.Now().Add(applyPatience)
	for {
		stored, err := w.client.Triggers(w.namespace).Get(context.Background(), "it", rest.Fresh())
		if err != nil {
			t.Fatal(err)
		}
		if len(stored.Object.Status.History) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it has not fired: %+v", stored.Object.Status)
		}
		time.Sleep(2 * time.Second)
	}
	w.wantNoChanges() // the times have changed, which is no reason for a change
	w.destroy()
}

// TestBadInput holds that mistakes show when planning, at their attribute.
func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("src/handler.py", "def handle(event): return 1\n")
	w.write("empty/.git/config", "no code")
	function := func(more string) string {
		return fmt.Sprintf("resource \"sless_function\" \"hello\" {\n  name = \"hello\"\n  runtime = \"python3.11\"\n  %s\n}\n", more)
	}
	for name, test := range map[string]struct{ config, want string }{
		"absent folder":  {function(`source_dir = "nowhere"`), "does not exist"},
		"empty folder":   {function(`source_dir = "empty"`), "has no files"},
		"folder is file": {function(`source_dir = "src/handler.py"`), "no folder"},
		"no zip":         {function(`filename = "src/handler.py"`), "no zip archive"},
		"two sources":    {function("source_dir = \"src\"\n  image = \"a/b\""), "Exactly one of"},
		"no source":      {function(""), "Exactly one of"},
		"bad name":       {strings.Replace(function(`source_dir = "src"`), `"hello"`+"\n  runtime", `"My_Function"`+"\n  runtime", 1), "lower-case"},
		"bad variable":   {function("source_dir = \"src\"\n  env = { SLESS_X = \"1\" }"), "platform's own"},
		"bad cron":       {trigger("cron", `schedule = "every day"`), "five fields"},
		"six fields":     {trigger("cron", `schedule = "0 0 3 * * *"`), "five fields"},
		"bad zone":       {trigger("cron", `schedule = "@daily"`, `time_zone = "Mars/Base"`), "IANA"},
		"bad JSON":       {trigger("cron", `schedule = "@daily"`, `event_json = "{"`), "JSON"},
		"cron on http":   {trigger("http", `schedule = "@daily"`), "has no schedule"},
		"no schedule":    {trigger("cron"), "needs a schedule"},
		"too many MB":    {function("source_dir = \"src\"\n  memory_mb = 99999999999"), "memory_mb"},
		"empty hash":     {function("source_dir = \"src\"\n  code_hash = \"\""), "code_hash"},
	} {
		w.write("main.tf", test.config)
		out, code := w.run("plan")
		if flat := strings.Join(strings.Fields(strings.ReplaceAll(out, "│", " ")), " "); code != 1 || !strings.Contains(flat, test.want) {
			t.Errorf("%s: exit code %d, want %q in:\n%s", name, code, test.want, out)
		}
	}
}
