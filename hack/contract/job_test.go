package contract

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
)

// job runs the kit once with an event.
func (r *runtime) job(t *testing.T, event string, env ...string) *process {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"event.json": event})
	return r.launch(t, r.kit(t, "kit.handle"), append([]string{"SLESS_EVENT_FILE=" + filepath.Join(dir, "event.json")}, env...)...)
}

func TestJobResult(t *testing.T) {
	cases := []struct{ event, want string }{
		{`{"do":"echo","x":["ü",1.5,null]}`, `{"do":"echo","x":["ü",1.5,null]}`},
		{`null`, `null`},
		{`{"do":"value","name":"none"}`, `null`},
		{`{"do":"value","name":"text"}`, `"grüße"`},
		{`{"do":"value","name":"described"}`, `{"statusCode":201,"headers":{"X-One":"1","x-two":2},"body":{"made":true}}`},
		{`{"do":"stream","name":"json"}`, `[{"n":1},{"n":2}]`},
	}
	eachRuntime(t, func(t *testing.T, r *runtime) {
		for _, c := range cases {
			t.Run(c.event, func(t *testing.T) {
				p := r.job(t, c.event)
				if code := p.exit(t); code != 0 {
					t.Fatalf("exit code %d, last words %s", code, p.lastWords(t))
				}
				var got struct {
					Result    json.RawMessage
					Truncated *bool
				}
				if err := json.Unmarshal(p.lastWords(t), &got); err != nil {
					t.Fatalf("last words %q: %v", p.lastWords(t), err)
				}
				if string(got.Result) != c.want || got.Truncated == nil || *got.Truncated {
					t.Errorf("last words %s, want the result %s", p.lastWords(t), c.want)
				}
			})
		}
	})
}

func TestJobResultIsCut(t *testing.T) {
	eachRuntime(t, func(t *testing.T, r *runtime) {
		for name, begin := range map[string]string{"long": `"äääää`, "quotes": `"\"\"\"`} {
			t.Run(name, func(t *testing.T) {
				p := r.job(t, `{"do":"value","name":"`+name+`"}`)
				if code := p.exit(t); code != 0 {
					t.Fatalf("exit code %d, last words %s", code, p.lastWords(t))
				}
				var got struct {
					Result    string
					Truncated bool
				}
				if err := json.Unmarshal(p.lastWords(t), &got); err != nil {
					t.Fatalf("last words %q: %v", p.lastWords(t), err)
				}
				if !got.Truncated || !strings.HasPrefix(got.Result, begin) || len(got.Result) > 3072 || len(got.Result) < 1000 {
					t.Errorf("truncated %v, %d bytes: %.20s", got.Truncated, len(got.Result), got.Result)
				}
				if !utf8.ValidString(got.Result) || strings.ContainsRune(got.Result, utf8.RuneError) {
					t.Error("the cut went through a character")
				}
			})
		}
	})
}

func TestJobFails(t *testing.T) {
	eachRuntime(t, func(t *testing.T, r *runtime) {
		signs := newSigns(t)
		hang := `{"do":"hang","dir":"` + string(signs) + `"}`
		for _, c := range []struct{ event, env, says string }{
			{`{"do":"raise"}`, "", "secret of the handler"},
			{`{"do":"value","name":"no-json"}`, "", "no JSON"},
			{`{"do":"exit"}`, "", "exit code 3"},
			{`{"do`, "", "no JSON"},
			{hang, "SLESS_TIMEOUT_SECONDS=4", "time-out of 4 s"},
			{`{}`, "SLESS_ENTRYPOINT=kit.nothing", "kit" + r.ending + " has no function nothing"},
			{`{}`, "SLESS_EVENT_FILE=/nowhere/event.json", "/nowhere/event.json"},
		} {
			t.Run(c.event+c.env, func(t *testing.T) {
				p := r.job(t, c.event, c.env)
				if code := p.exit(t); code != 1 {
					t.Errorf("exit code %d, want 1", code)
				}
				if text := lastError(t, p); !strings.Contains(text, c.says) {
					t.Errorf("the error %q does not say %q", text, c.says)
				}
			})
		}
		for pid := range strings.FieldsSeq(signs.await(t, "started")) {
			eventually(t, "process "+pid+" is gone", func() bool { return !alive(pid) })
		}
	})
}

func TestJobIsStopped(t *testing.T) {
	eachRuntime(t, func(t *testing.T, r *runtime) {
		signs := newSigns(t)
		p := r.job(t, `{"do":"wait","dir":"`+string(signs)+`"}`)
		signs.await(t, "started")
		p.signal(t, syscall.SIGTERM)
		if code := p.exit(t); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		if text := lastError(t, p); !strings.Contains(text, "stopped") {
			t.Errorf("the error %q does not say that it was stopped", text)
		}
	})
}

func TestJobLogs(t *testing.T) {
	eachRuntime(t, func(t *testing.T, r *runtime) {
		p := r.job(t, `{"do":"print","size":100000}`, "SLESS_REQUEST_ID=id-of-the-job")
		if code := p.exit(t); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		log := p.log(t)
		if strings.Count(log, "[id-of-the-job] "+strings.Repeat("x", 100000)) != 2 || !strings.Contains(log, "[id-of-the-job] no newline at the end") {
			t.Errorf("%d bytes of log are not all", len(log))
		}
	})
}
