package provider

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/naeel/sless/api/rest"
)

// fakeAPI is as much of the platform's API as the provider needs, in memory. What it is told is deployed at once, unless a test says
// otherwise by a hook.
type fakeAPI struct {
	*httptest.Server
	t testing.TB

	mu        sync.Mutex // guards what follows
	functions map[string]*rest.Function
	triggers  map[string]*rest.Trigger
	jobs      map[string]*rest.Job
	calls     []string
	patches   []map[string]any
	uploads   int
	selectors []string // of lists
	// before sees every request first; true says that it has answered.
	before func(w http.ResponseWriter, r *http.Request) bool
	// status gives the status of a function when it is read; nil is Ready.
	status func(fn *rest.Function) *rest.FunctionStatus
	// fire gives the status of a trigger when it is read; nil works.
	fire func(trigger *rest.Trigger) *rest.TriggerStatus
	// run ends a job; nil succeeds.
	run func(job *rest.Job) *rest.JobStatus
}

func newFakeAPI(t testing.TB) *fakeAPI {
	api := &fakeAPI{t: t, functions: map[string]*rest.Function{}, triggers: map[string]*rest.Trigger{}, jobs: map[string]*rest.Job{}}
	api.Server = httptest.NewServer(api)
	t.Cleanup(api.Close)
	return api
}

// ServeHTTP implements http.Handler.
func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, r.Method+" "+r.URL.Path)
	if a.before != nil && a.before(w, r) {
		return
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/namespaces/"), "/")
	name := strings.Join(parts[2:], "/")
	switch parts[1] {
	case "sources":
		a.uploads++
		_, _ = io.Copy(io.Discard, r.Body)
		answerJSON(w, http.StatusCreated, rest.SourceUpload{Key: "sources/" + strings.Repeat("a", 63) + string(rune('0'+a.uploads)) + ".zip", SHA256: "aa"})
	case "functions":
		if called, ok := strings.CutSuffix(name, "/invoke"); ok {
			answerJSON(w, http.StatusOK, map[string]string{"called": called})
			return
		}
		serve(a, w, r, a.functions, name, parts[0], a.shownFunction)
	case "triggers":
		serve(a, w, r, a.triggers, name, parts[0], a.shownTrigger)
	case "jobs":
		serve(a, w, r, a.jobs, name, parts[0], a.shownJob)
	default:
		problem(w, http.StatusNotFound, rest.CodeNotFound)
	}
}

// serve does create, read, patch and delete of one kind; fields of all kinds that it needs are read by their JSON names.
func serve[T any](a *fakeAPI, w http.ResponseWriter, r *http.Request, objects map[string]*T, name, namespace string, shown func(*T) *T) {
	object, exists := objects[name]
	switch {
	case r.Method == http.MethodGet && name == "":
		page := rest.List[T]{Items: []T{}}
		for _, name := range slices.Sorted(maps.Keys(objects)) {
			page.Items = append(page.Items, *shown(objects[name]))
		}
		a.selectors = append(a.selectors, r.URL.Query().Get("label_selector"))
		answerJSON(w, http.StatusOK, page)
	case r.Method == http.MethodPost:
		fields := map[string]any{}
		if err := json.NewDecoder(r.Body).Decode(&fields); err != nil {
			a.t.Error(err)
		}
		name, _ = fields["name"].(string)
		if name == "" {
			name = "generated"
		}
		if objects[name] != nil {
			problem(w, http.StatusConflict, rest.CodeAlreadyExists)
			return
		}
		maps.Copy(fields, map[string]any{"name": name, "namespace": namespace, "generation": 1, "uid": "uid-" + name})
		objects[name] = decode[T](a.t, fields)
		answerJSON(w, http.StatusCreated, objects[name])
	case !exists:
		problem(w, http.StatusNotFound, rest.CodeNotFound)
	case r.Method == http.MethodDelete:
		delete(objects, name)
		answerJSON(w, http.StatusOK, object)
	case r.Method == http.MethodPut:
		fields, before := map[string]any{}, encode(a.t, object)
		if err := json.NewDecoder(r.Body).Decode(&fields); err != nil {
			a.t.Error(err)
		}
		maps.Copy(fields, map[string]any{"name": name, "namespace": namespace, "generation": before["generation"].(float64) + 1, "uid": before["uid"]})
		objects[name] = decode[T](a.t, fields)
		answerJSON(w, http.StatusOK, objects[name])
	case r.Method == http.MethodPatch:
		patch := map[string]any{}
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
			a.t.Error(err)
		}
		a.patches = append(a.patches, patch)
		fields := encode(a.t, object)
		merge(fields, patch)
		fields["generation"] = fields["generation"].(float64) + 1
		objects[name] = decode[T](a.t, fields)
		answerJSON(w, http.StatusOK, objects[name])
	default:
		answerJSON(w, http.StatusOK, shown(object))
	}
}

func (a *fakeAPI) shownFunction(fn *rest.Function) *rest.Function {
	shown := *fn
	shown.Status = readyStatus(fn)
	if a.status != nil {
		shown.Status = a.status(fn)
	}
	for name := range shown.SecretEnv {
		shown.SecretKeys = append(shown.SecretKeys, name)
	}
	shown.SecretEnv = nil
	return &shown
}

func readyStatus(fn *rest.Function) *rest.FunctionStatus {
	return &rest.FunctionStatus{
		Status:   rest.Status{Phase: rest.FunctionReady, Ready: "True", Reason: "Ready", ObservedGeneration: fn.Generation},
		CodeHash: fn.CodeHash, CodeSHA256: "sha256:" + fn.CodeHash, Image: "registry/it@" + fn.CodeHash,
	}
}

func (a *fakeAPI) shownTrigger(trigger *rest.Trigger) *rest.Trigger {
	shown := *trigger
	if a.fire != nil {
		shown.Status = a.fire(trigger)
		return &shown
	}
	shown.Status = &rest.TriggerStatus{Status: rest.Status{Phase: rest.TriggerReady, Reason: serving, Message: "fires", ObservedGeneration: trigger.Generation}}
	switch {
	case trigger.Enabled != nil && !*trigger.Enabled:
		shown.Status.Phase = rest.TriggerDisabled
	case trigger.Type == rest.TriggerHTTP:
		shown.Status.URL = "https://example.org/fn/" + trigger.Function
	}
	return &shown
}

func (a *fakeAPI) shownJob(job *rest.Job) *rest.Job {
	shown := *job
	shown.Status = &rest.JobStatus{Status: rest.Status{Phase: rest.JobSucceeded, ObservedGeneration: job.Generation}, RunID: job.RunID, Result: `{"done":true}`}
	if a.run != nil {
		shown.Status = a.run(job)
	}
	return &shown
}

// called counts the calls that begin with prefix.
func (a *fakeAPI) called(prefix string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	count := 0
	for _, call := range a.calls {
		if strings.HasPrefix(call, prefix) {
			count++
		}
	}
	return count
}

// set changes the API's mind.
func (a *fakeAPI) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func answerJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}

func problem(w http.ResponseWriter, status int, code string, fields ...rest.FieldError) {
	answer := rest.NewProblem(status, code, "said by the test")
	answer.Errors = fields
	answerJSON(w, status, answer)
}

func encode(t testing.TB, value any) map[string]any {
	t.Helper()
	text, err := json.Marshal(value)
	fields := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		t.Error(err)
	}
	return fields
}

func decode[T any](t testing.TB, fields map[string]any) *T {
	t.Helper()
	object := new(T)
	text, err := json.Marshal(fields)
	if err == nil {
		err = json.Unmarshal(text, object)
	}
	if err != nil {
		t.Error(err)
	}
	return object
}

// merge is RFC 7396.
func merge(into, patch map[string]any) {
	for name, value := range patch {
		nested, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case isObject:
			before, ok := into[name].(map[string]any)
			if !ok {
				before = map[string]any{}
			}
			merge(before, nested)
			into[name] = before
		default:
			into[name] = value
		}
	}
}
