package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/ledger"
	"github.com/naeel/sless/ledger/ledgertest"
)

// holding is a pod whose calls with the query hold last until they are let go.
type holding struct {
	*httptest.Server
	began   chan struct{}
	release chan struct{}
}

func hold(t *testing.T, name string) (discoveryv1.Endpoint, *holding) {
	h := &holding{began: make(chan struct{}), release: make(chan struct{})}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.RawQuery == "hold" {
			h.began <- struct{}{}
			<-h.release
		}
		fmt.Fprint(w, "hello")
	}))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return discoveryv1.Endpoint{
		Addresses: []string{"10.77.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true)},
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: name, UID: types.UID(name)},
	}, h
}

// row is what a test looks at of a record.
type row struct {
	Function, Trigger string
	Kind              ledger.Kind
	Status            int
	Code              string
	In, Out           int64
	Pod, Caller       string
}

func rowOf(r ledger.Record) row {
	caller := ""
	if r.Caller.IsValid() {
		caller = r.Caller.String()
	}
	return row{r.Function, r.Trigger, r.Kind, r.Status, r.Code, r.BytesIn, r.BytesOut, r.Pod, caller}
}

// TestLedger holds what is kept of each kind of request, the refused ones included.
func TestLedger(t *testing.T) {
	server := ledgertest.Start(t)
	if err := ledger.Prepare(t.Context(), server.File(t, ledgertest.Owner), 30, time.Now()); err != nil {
		t.Fatal(err)
	}
	ns := unique("ledger")
	home := namespace(ns, nil)
	create(t, home, namespace("sless-fn-"+ns, managed))
	f := function(ns, "f")
	f.Spec.Concurrency = new(int32(1))
	off, zero, hidden := function(ns, "off"), function(ns, "zero"), function(ns, "hidden")
	zero.Spec.Replicas = new(int32(0))
	offTrigger := trigger(ns, "off-web", "off")
	offTrigger.Spec.Enabled = new(false)
	create(t, f, off, zero, hidden, trigger(ns, "web", "f"), offTrigger, trigger(ns, "zero-web", "zero"))
	update := f.DeepCopy()
	update.Status.Image, update.Status.CodeHash = "registry/f@sha256:"+strings.Repeat("1", 64), "v1"
	if err := api.Status().Update(t.Context(), update); err != nil {
		t.Fatal(err)
	}
	endpoint, pod := hold(t, "f-pod")
	create(t, slice("sless-fn-"+ns, ns, "f", endpoint, pod.Server))

	p := start(t, "-ledger-dsn-file", server.File(t, ledgertest.Writer), "-wait-timeout", "300ms", "-max-body-bytes", "1000", "-access-log", "off")
	p.becomes("admin", "/readyz", 200, "")
	expect := func(want, got int) {
		t.Helper()
		if got != want {
			t.Errorf("answered %d, want %d", got, want)
		}
	}
	post := func(listener, path, body string, header http.Header) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url(listener, path), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = header
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	before := time.Now()
	expect(200, post("public", "/fn/"+ns+"/f/secret-path?secret=query", "1234567", http.Header{"Cookie": {"secret"}}))
	expect(413, post("public", "/fn/"+ns+"/f", strings.Repeat("x", 1001), nil))
	expect(404, post("public", "/fn/"+ns+"/off", "", nil))
	expect(404, post("public", "/fn/"+ns+"/hidden", "", nil))
	expect(503, post("public", "/fn/"+ns+"/zero", "", nil))
	expect(404, post("public", "/fn/"+ns+"/nobody", "", nil))
	operator := http.Header{"Authorization": {"Bearer " + token(t, "operator", names.GatewayAudience)}, "X-Request-Id": {"tick"}}
	apiserver := http.Header{"Authorization": {"Bearer " + token(t, "apiserver", names.GatewayAudience)}, "X-Request-Id": {"call"}}
	expect(200, post("internal", "/invoke/"+ns+"/f", "{}", apiserver))
	operator.Set(names.TriggerHeader, "nightly")
	expect(200, post("internal", "/invoke/"+ns+"/f", "{}", operator))
	var held sync.WaitGroup
	held.Go(func() { expect(200, post("public", "/fn/"+ns+"/f?hold", "", nil)) })
	receive(t, "the pod is busy", pod.began)
	expect(429, post("public", "/fn/"+ns+"/f", "12", nil))
	close(pod.release)
	held.Wait()

	reader := ledger.NewReader(server.File(t, ledgertest.Reader))
	defer reader.Close()
	want := []row{
		{"f", "", ledger.Invoke, 200, "", 2, 5, "f-pod", ""},
		{"f", "nightly", ledger.Cron, 200, "", 2, 5, "f-pod", ""},
		{"f", "web", ledger.HTTP, 200, "", 0, 5, "f-pod", "127.0.0.0"},
		{"f", "web", ledger.HTTP, 200, "", 7, 5, "f-pod", "127.0.0.0"},
		{"f", "web", ledger.HTTP, 413, "body_too_large", 0, 0, "", "127.0.0.0"},
		{"f", "web", ledger.HTTP, 429, "over_limit", 2, 0, "", "127.0.0.0"},
		{"hidden", "", ledger.HTTP, 404, "no_route", 0, 0, "", "127.0.0.0"},
		{"off", "off-web", ledger.HTTP, 404, "disabled", 0, 0, "", "127.0.0.0"},
		{"zero", "zero-web", ledger.HTTP, 503, "scaled_to_zero", 0, 0, "", "127.0.0.0"},
	}
	var page ledger.Page
	for end := time.Now().Add(soon); len(page.Records) < len(want) && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var err error
		if page, err = reader.List(t.Context(), ledger.Query{NamespaceUID: string(home.UID)}); err != nil {
			t.Fatal(err)
		}
	}
	var got []row
	for _, r := range page.Records {
		if r.Function == "f" && (r.Image != "sha256:"+strings.Repeat("1", 64) || r.CodeHash != "v1") {
			t.Errorf("image %q, code %q", r.Image, r.CodeHash)
		}
		if r.Namespace != ns || r.Started.Before(before.Add(-time.Second)) || r.Duration <= 0 || r.Queued+r.Starting+r.Handler > r.Duration || r.Attempt != 1 {
			t.Errorf("record %+v", r)
		}
		if (r.Pod != "") != (r.Handler > 0) || r.Code == "over_limit" && r.Queued < 200*time.Millisecond || r.Starting > 0 {
			t.Errorf("phases of %+v", r)
		}
		if r.Kind == ledger.Cron && r.ID != "tick" || r.Kind == ledger.Invoke && r.ID != "call" || r.ID == "" {
			t.Errorf("id %q of %s", r.ID, r.Kind)
		}
		one := rowOf(r)
		if r.Code != "" {
			one.Out = 0 // a problem document
		}
		got = append(got, one)
	}
	slices.SortFunc(got, func(a, b row) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	slices.SortFunc(want, func(a, b row) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if all := fmt.Sprintf("%+v", page); strings.Contains(all, "secret") {
		t.Errorf("a secret is kept: %s", all)
	}
	p.becomes("admin", "/metrics", 200, "sless_ledger_up 1")
	p.becomes("admin", "/metrics", 200, `sless_ledger_records_total{result="dropped"} 0`)
	p.becomes("admin", "/metrics", 200, fmt.Sprintf(`sless_gateway_request_bytes_total{function="f",namespace=%q} 13`, ns))
}

// TestLedgerAwayUnderLoad holds that a database that is killed, and comes back, costs no request anything, and no record either.
func TestLedgerAwayUnderLoad(t *testing.T) {
	server := ledgertest.Start(t)
	if err := ledger.Prepare(t.Context(), server.File(t, ledgertest.Owner), 30, time.Now()); err != nil {
		t.Fatal(err)
	}
	ns := unique("away")
	create(t, namespace(ns, nil), namespace("sless-fn-"+ns, managed), function(ns, "f"), trigger(ns, "web", "f"))
	endpoint, pod := hold(t, "away-pod")
	create(t, slice("sless-fn-"+ns, ns, "f", endpoint, pod.Server))
	dsn := filepath.Join(t.TempDir(), "dsn")
	p := start(t, "-ledger-dsn-file", ledgertest.WriteDSN(t, dsn, server.DSN(ledgertest.Writer, "sless")), "-access-log", "off")
	p.becomes("admin", "/readyz", 200, "") // before it has heard of the namespace, a request would have no record
	p.becomes("public", "/fn/"+ns+"/f", 200, "hello")
	p.becomes("admin", "/metrics", 200, "sless_ledger_up 1")

	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	sent := make([]int, 4)
	for i := range sent {
		callers.Go(func() {
			for ctx.Err() == nil {
				response, err := http.Post(p.url("public", "/fn/"+ns+"/f"), "text/plain", bytes.NewReader([]byte("x")))
				if err != nil {
					t.Errorf("a request fails: %v", err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if response.StatusCode != 200 {
					t.Errorf("a request is answered %d", response.StatusCode)
				}
				if sent[i]++; sent[i]%50 == 0 {
					time.Sleep(20 * time.Millisecond) // what matters is that some are under way, not how many
				}
			}
		})
	}
	server.Kill(t)
	p.becomes("admin", "/metrics", 200, "sless_ledger_up 0")
	server.Up(t)
	p.becomes("admin", "/metrics", 200, "sless_ledger_up 1")
	stop()
	callers.Wait()
	written := 1 // the first one, that waited for the route, and those that came before it, which were refused
	for _, n := range sent {
		written += n
	}
	p.becomes("admin", "/metrics", 200, "sless_ledger_queue 0")
	var got string
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got = server.Query(t, "select count(*) + sum(dropped) from sless.invocations where status = 200")[0]; got == fmt.Sprint(written) {
			return
		}
	}
	t.Errorf("%s records, %d requests", got, written)
}
