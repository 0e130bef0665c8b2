package contract

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// broken is code that can't be loaded, for each runtime, and what the error must name.
var broken = []struct {
	name       string
	entrypoint string
	files      map[string]map[string]string // by runtime
	says       map[string][]string
}{
	{
		name: "no code at all",
		says: map[string][]string{"python3.11": {"handler.py", "no file"}, "nodejs20": {"handler.js", "no file"}},
	},
	{
		name: "no such module",
		files: map[string]map[string]string{
			"python3.11": {"code/main.py": "", "code/lib/x.py": ""},
			"nodejs20":   {"code/main.js": "", "code/lib/x.js": ""},
		},
		says: map[string][]string{
			"python3.11": {"handler.py", "main.py", "lib/", "entrypoint"},
			"nodejs20":   {"handler.js", "main.js", "lib/", "entrypoint"},
		},
	},
	{
		name: "no such function",
		files: map[string]map[string]string{
			"python3.11": {"code/handler.py": "def run(event):\n    return 1\n"},
			"nodejs20":   {"code/handler.mjs": "export const run = () => 1;\n"},
		},
		says: map[string][]string{
			"python3.11": {"handler.py has no function handle", "run", "entrypoint"},
			"nodejs20":   {"handler.mjs has no function handle", "run", "entrypoint"},
		},
	},
	{
		name:       "not a function",
		entrypoint: "handler.value",
		files: map[string]map[string]string{
			"python3.11": {"code/handler.py": "value = 1\n"},
			"nodejs20":   {"code/handler.mjs": "export const value = 1;\n"},
		},
		says: map[string][]string{"python3.11": {"value in handler.py", "not a function"}, "nodejs20": {"value in handler.mjs", "not a function"}},
	},
	{
		name:       "entrypoint without a dot",
		entrypoint: "handler",
		says:       map[string][]string{"python3.11": {"'handler'", "handler.handle"}, "nodejs20": {`"handler"`, "handler.handle"}},
	},
	{
		name: "syntax error",
		files: map[string]map[string]string{
			"python3.11": {"code/handler.py": "import other\n", "code/other.py": "\n\ndef handle(event)\n    return 1\n"},
			"nodejs20":   {"code/handler.mjs": "import './other.mjs';\n", "code/other.mjs": "\n\nexport function handle(event) { return 1 +; }\n"},
		},
		says: map[string][]string{
			"python3.11": {"syntax error in other.py, line 3", "def handle(event)"},
			"nodejs20":   {"syntax error in other.mjs, line 3", "return 1 +;"},
		},
	},
	{
		name: "missing dependency",
		files: map[string]map[string]string{
			"python3.11": {"code/handler.py": "\nimport surely_not_there\n"},
			"nodejs20":   {"code/handler.mjs": "\nimport 'surely_not_there';\n"},
		},
		says: map[string][]string{
			"python3.11": {"handler.py, line 2", "surely_not_there", "requirements.txt"},
			"nodejs20":   {"handler.mjs", "surely_not_there", "package.json"},
		},
	},
	{
		name: "exception at import",
		files: map[string]map[string]string{
			"python3.11": {"code/handler.py": "\n\nint('x')\n"},
			"nodejs20":   {"code/handler.mjs": "\n\nnull.x;\n"},
		},
		says: map[string][]string{
			"python3.11": {"handler.py, line 3", "ValueError", "invalid literal"},
			"nodejs20":   {"handler.mjs, line 3", "TypeError", "null"},
		},
	},
	{
		name: "exit at import",
		files: map[string]map[string]string{
			"python3.11": {"code/handler.py": "import os\nos._exit(7)\n"},
			"nodejs20":   {"code/handler.mjs": "process.exit(7);\n"},
		},
		says: map[string][]string{"python3.11": {"exit code 7"}, "nodejs20": {"exit code 7"}},
	},
	{
		name: "very long error",
		files: map[string]map[string]string{
			"python3.11": {"code/handler.py": "raise ValueError('begin' + '\"ü' * 5000)\n"},
			"nodejs20":   {"code/handler.mjs": "throw new Error('begin' + '\"ü'.repeat(5000));\n"},
		},
		says: map[string][]string{"python3.11": {"begin"}, "nodejs20": {"begin"}},
	},
}

func TestFailedLoadIsTold(t *testing.T) {
	eachRuntime(t, func(t *testing.T, r *runtime) {
		for _, c := range broken {
			t.Run(c.name, func(t *testing.T) {
				p := r.begin(t, function{entrypoint: c.entrypoint, files: c.files[r.name]})
				if code := p.exit(t); code != 1 {
					t.Errorf("exit code %d, want 1", code)
				}
				text := lastError(t, p.process)
				for _, part := range c.says[r.name] {
					if !strings.Contains(text, part) {
						t.Errorf("the error %q does not say %q", text, part)
					}
				}
				if !strings.Contains(p.log(t), text) {
					t.Errorf("the log has not the error %q", text)
				}
			})
		}
	})
}

func TestBadEnvironment(t *testing.T) {
	eachRuntime(t, func(t *testing.T, r *runtime) {
		for _, variable := range []string{
			"SLESS_TIMEOUT_SECONDS=0", "SLESS_TIMEOUT_SECONDS=0.5", "SLESS_TIMEOUT_SECONDS=abc", "SLESS_TIMEOUT_SECONDS=86401", "SLESS_REQUEST_ID=a b",
			"SLESS_CONCURRENCY=-1", "PORT=99999", "SLESS_MAX_BODY_BYTES=1e3",
		} {
			t.Run(variable, func(t *testing.T) {
				p := r.launch(t, r.kit(t, "kit.handle"), variable)
				if code := p.exit(t); code != 1 {
					t.Errorf("exit code %d, want 1", code)
				}
				name, value, _ := strings.Cut(variable, "=")
				if text := lastError(t, p); !strings.Contains(text, name) || !strings.Contains(text, value) {
					t.Errorf("the error %q does not name %s", text, variable)
				}
			})
		}
	})
}

func TestPortInUse(t *testing.T) {
	eachRuntime(t, func(t *testing.T, r *runtime) {
		taken := r.serve(t, r.kit(t, "kit.handle"))
		_, port, _ := strings.Cut(taken.address, ":")
		p := r.launch(t, r.kit(t, "kit.handle"), "PORT="+port)
		if code := p.exit(t); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		if text := lastError(t, p); !strings.Contains(text, "port "+port) {
			t.Errorf("the error %q does not name the port %s", text, port)
		}
	})
}

func lastError(t *testing.T, p *process) string {
	t.Helper()
	var words struct{ Error string }
	if err := json.Unmarshal(p.lastWords(t), &words); err != nil || words.Error == "" {
		t.Fatalf("last words %q: %v", p.lastWords(t), err)
	}
	return words.Error
}

// While the handler loads, health says so, and a request waits for it.
func TestRequestsWaitForTheHandler(t *testing.T) {
	slow := map[string]string{
		"python3.11": "import os, time\nwhile not os.path.exists(os.environ['GATE']):\n    time.sleep(0.02)\ndef handle(event):\n    return 'loaded'\n",
		"nodejs20":   "import fs from 'node:fs';\nwhile (!fs.existsSync(process.env.GATE)) await new Promise((resolve) => setTimeout(resolve, 20));\nexport const handle = () => 'loaded';\n",
	}
	eachRuntime(t, func(t *testing.T, r *runtime) {
		gate := newSigns(t)
		s := r.begin(t, function{files: map[string]string{"code/handler" + r.ending: slow[r.name]}}, "GATE="+string(gate)+"/release", "SLESS_TIMEOUT_SECONDS=600")
		eventually(t, "the port answers", func() bool {
			response, err := client.Get(s.url("/_sless/health"))
			if err != nil {
				return false
			}
			response.Body.Close()
			return true
		})
		s.send(t, request{target: "/_sless/health"}).wantProblem(t, http.StatusServiceUnavailable, "not_loaded")
		early := s.later(t, request{})
		gate.release(t)
		take(t, early).wantBody(t, 200, "loaded")
		if health := s.send(t, request{target: "/_sless/health"}); health.status != http.StatusOK {
			t.Errorf("health: %d", health.status)
		}
	})
}

func TestStopDrains(t *testing.T) {
	eachKit(t, []string{"SLESS_TIMEOUT_SECONDS=600", "SLESS_DRAIN_SECONDS=1"}, func(t *testing.T, s *server) {
		signs := newSigns(t)
		waiting := s.later(t, request{do: "wait", args: signs.args()})
		signs.await(t, "started")
		s.signal(t, syscall.SIGTERM)
		eventually(t, "health says that it stops", func() bool {
			return s.send(t, request{target: "/_sless/health"}).status == http.StatusServiceUnavailable
		})
		// Whoever does not know yet is served all the same, and told to come elsewhere.
		late, err := s.open(t, value("number"))
		if err != nil {
			t.Fatal(err)
		}
		late.Body.Close()
		if late.StatusCode != http.StatusOK || !late.Close {
			t.Errorf("a late request: %d, Connection: close %v", late.StatusCode, late.Close)
		}
		signs.release(t)
		take(t, waiting).wantBody(t, 200, "released")
		if code := s.exit(t); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
		eventually(t, "no process is left behind", func() bool { return len(s.workers(t)) == 0 })
	})
}
