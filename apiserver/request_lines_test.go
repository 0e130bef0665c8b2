package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/rest"
)

// logOf reads a log to its end.
func logOf(t *testing.T, tenant *tenant, options rest.LogOptions) string {
	t.Helper()
	log := must[io.ReadCloser](t)(tenant.Logs(t.Context(), tenant.namespace, "hello", options))
	defer log.Close()
	return string(must[[]byte](t)(io.ReadAll(log)))
}

// kubeletLog answers as a kubelet for lines, each of which has its time, a second apart; with follow it goes on with `more`.
func kubeletLog(lines, more []string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		query, lines := r.URL.Query(), lines
		if query.Get("previous") == "true" {
			http.Error(w, "previous terminated container not found", http.StatusBadRequest)
			return
		}
		if query.Get("follow") == "true" {
			lines = append(lines[:len(lines):len(lines)], more...)
		}
		from, _ := time.Parse(time.RFC3339, query.Get("sinceTime"))
		for i, line := range lines {
			at := time.Date(2026, 1, 1, 0, 0, i, 500, time.UTC)
			if at.Before(from) {
				continue
			}
			if query.Get("timestamps") == "true" {
				fmt.Fprint(w, at.Format(time.RFC3339Nano), " ")
			}
			fmt.Fprintln(w, line)
		}
		w.(http.Flusher).Flush()
		if query.Get("follow") == "true" {
			<-r.Context().Done()
		}
	}
}

func TestLogsOfOneRequest(t *testing.T) {
	tenant := newTenant(t)
	must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), hello("hello")))
	where, pod := "sless-fn-"+tenant.namespace, tenant.namespace+"-"
	long := strings.Repeat("x", 300000)
	around.pod(t, where, pod+"1", labelsOf(tenant, "hello"), kubeletLog([]string{
		"starting", "[a] one", "[b] other", "[a] two", `{"sless_request_id":"a","level":"info"}`, "[b] [a] forged", "[aa] longer", "[a]", "[b] " + long + "[a] ", "[a] " + long, "[a] last",
	}, []string{"[b] more", "[a] more"}))
	around.pod(t, where, pod+"2", labelsOf(tenant, "hello"), kubeletLog([]string{"[a] elsewhere"}, nil))
	around.pod(t, where, pod+"3", labelsOf(tenant, "other"), kubeletLog([]string{"[a] not of this function"}, nil))
	sorted := func(text string) []string {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		slices.Sort(lines)
		return lines
	}
	const most = 256 << 10 // of a line; the rest is a line of its own
	want := []string{
		pod + "1 [a] one", pod + "1 [a] two", pod + `1 {"sless_request_id":"a","level":"info"}`, pod + "1 " + ("[a] " + long)[:most], pod + "1 " + ("[a] " + long)[most:], pod + "1 [a] last",
		pod + "2 [a] elsewhere",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, sorted(logOf(t, tenant, rest.LogOptions{RequestID: "a"}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{pod + "1 [a] last", pod + "2 [a] elsewhere"}, sorted(logOf(t, tenant, rest.LogOptions{RequestID: "a", Tail: 1}))); diff != "" {
		t.Errorf("tail 1 (-want +got):\n%s", diff)
	}
	if text := logOf(t, tenant, rest.LogOptions{RequestID: "unknown"}); text != "" {
		t.Errorf("of an unknown request: %q", text)
	}

	for tail, want := range map[int][]string{
		1: {pod + "1 [a] last", pod + "1 [a] more", pod + "2 [a] elsewhere"},
		0: append(slices.Clone(want), pod+"1 [a] more"),
	} {
		log := must[io.ReadCloser](t)(tenant.Logs(t.Context(), tenant.namespace, "hello", rest.LogOptions{RequestID: "a", Follow: true, Tail: tail}))
		defer log.Close()
		lines := bufio.NewScanner(log)
		lines.Buffer(nil, 1<<20)
		var got []string
		for len(got) < len(want) && lines.Scan() {
			got = append(got, lines.Text())
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("followed, tail %d (-want +got):\n%s", tail, diff)
		}
	}

	for id, options := range map[string]rest.LogOptions{
		"request_id with a blank": {RequestID: "a b"}, "quote": {RequestID: `a"`}, "too long": {RequestID: strings.Repeat("a", 129)}, "with build": {RequestID: "a", Build: true},
	} {
		_, err := tenant.Logs(t.Context(), tenant.namespace, "hello", options)
		if p, ok := errors.AsType[*rest.Problem](err); !ok || p.Status != http.StatusUnprocessableEntity || len(p.Errors) != 1 || p.Errors[0].Location != "query.request_id" {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestLogsOfOneRunOfAJob(t *testing.T) {
	tenant := newTenant(t)
	must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(t.Context(), hello("hello")))
	where, id := "sless-fn-"+tenant.namespace, "0d6f4dd4-75c1-4a3c-8d0e-1d6f4dd475c1"
	for pod, env := range map[string][2]string{"-1": {"hello", id + "-1"}, "-2": {"hello", id + "-2"}, "-others": {"other", id + "-1"}} {
		labels := names.Labels("FunctionJob", tenant.namespace, "import", types.UID(id))
		around.pod(t, where, tenant.namespace+pod, labels, kubeletLog([]string{"no module named x", "[" + env[1] + "] said"}, nil),
			corev1.EnvVar{Name: "SLESS_FUNCTION", Value: env[0]}, corev1.EnvVar{Name: "SLESS_REQUEST_ID", Value: env[1]})
	}
	lines := func(run string) string {
		return fmt.Sprintf("%[1]s-%[3]s no module named x\n%[1]s-%[3]s [%[2]s-%[3]s] said\n", tenant.namespace, id, run)
	}
	for asked, want := range map[string][]string{id + "-1": {lines("1")}, id + "-2": {lines("2")}, id: {lines("1"), lines("2")}, id + "-3": nil} {
		text := logOf(t, tenant, rest.LogOptions{RequestID: asked})
		if len(text) != len(strings.Join(want, "")) {
			t.Errorf("of %s: got %q, want %q", asked, text, want)
		}
		for _, line := range strings.SplitAfter(strings.Join(want, ""), "\n") {
			if !strings.Contains(text, line) {
				t.Errorf("of %s: got %q, want %q", asked, text, line)
			}
		}
	}
	if text := logOf(t, tenant, rest.LogOptions{}); text != "" {
		t.Errorf("without a request: %q", text)
	}
}
