package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/ledger"
	"github.com/naeel/sless/ledger/ledgertest"
)

// startLedger starts a PostgreSQL with the ledger's tables.
func startLedger(t testing.TB) *ledgertest.Server {
	t.Helper()
	server := ledgertest.Start(t)
	if err := ledger.Prepare(t.Context(), server.File(t, ledgertest.Owner), 30, time.Now()); err != nil {
		t.Fatal(err)
	}
	return server
}

// uidOf returns the UID of a namespace.
func uidOf(t testing.TB, namespace string) string {
	t.Helper()
	object, err := cluster.kube.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(object.UID)
}

// ran is what tells one record from another in these tests.
type ran struct {
	namespace, id, function, kind, trigger, job string
	ago, took                                   time.Duration
	status                                      int
	code                                        string
}

// put writes records, as the role that may write.
func put(t testing.TB, server *ledgertest.Server, now time.Time, records ...ran) {
	t.Helper()
	c := server.Connect(t, ledgertest.Writer, "sless")
	defer c.Close(context.Background())
	for _, r := range records {
		if _, err := c.Exec(context.Background(), `insert into sless.invocations values ($1, $2, $3, 'namespace', $4, $5, $6, $7, $8, 'sha256:12', 'v1', $9, $10,
			1500, 2500, 3500, 10, 20, 'pod', '192.0.2.0', 1, 0)`,
			now.Add(-r.ago), r.took.Microseconds(), r.id, uidOf(t, r.namespace), r.function, r.trigger, r.job, r.kind, r.status, r.code); err != nil {
			t.Fatal(err)
		}
	}
}

// invocationsOf returns the ids of all pages.
func invocationsOf(t testing.TB, client *rest.Client, namespace string, filter rest.InvocationFilter) []string {
	t.Helper()
	ids := []string{}
	for {
		page, err := client.Invocations(t.Context(), namespace, filter)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			ids = append(ids, item.ID)
		}
		if filter.Continue = page.Continue; page.Continue == "" {
			return ids
		}
	}
}

func TestInvocations(t *testing.T) {
	server := startLedger(t)
	own, _ := startOwn(t, fmt.Sprintf("ledger: {dsnFile: %q}", server.File(t, ledgertest.Reader)))
	tenant, other := newTenant(t), newTenant(t)
	client := clientOf(t, own, rest.Config{Token: tenant.token})
	now := time.Now().UTC().Truncate(time.Second)
	put(t, server, now,
		ran{tenant.namespace, "a", "hello", "http", "web", "", time.Minute, 20 * time.Millisecond, 200, ""},
		ran{tenant.namespace, "b", "hello", "http", "web", "", 2 * time.Minute, time.Millisecond, 429, "concurrency_limit"},
		ran{tenant.namespace, "c", "hello", "cron", "nightly", "", 3 * time.Minute, 2 * time.Second, 200, ""},
		ran{tenant.namespace, "d", "import", "job", "", "import-1", 90 * time.Minute, time.Minute, 500, "Failed"},
		ran{tenant.namespace, "e", "hello", "invoke", "", "", 90 * time.Minute, time.Millisecond, 200, ""},
		ran{other.namespace, "z", "hello", "http", "web", "", time.Minute, time.Millisecond, 200, ""},
	)

	page, err := client.Invocations(t.Context(), tenant.namespace, rest.InvocationFilter{Limit: 1})
	want := []rest.Invocation{{
		ID: "a", Function: "hello", Kind: "http", Trigger: "web", StartedAt: now.Add(-time.Minute), Status: 200, DurationMS: 20, QueuedMS: 1.5, StartingMS: 2.5, HandlerMS: 3.5,
		Image: "sha256:12", CodeHash: "v1", Pod: "pod", Caller: "192.0.2.0", BytesIn: 10, BytesOut: 20, Attempt: 1,
	}}
	if diff := cmp.Diff(want, page.Items); err != nil || diff != "" || page.Continue == "" {
		t.Errorf("%v, continue %q (-want +got):\n%s", err, page.Continue, diff)
	}
	for name, test := range map[string]struct {
		filter rest.InvocationFilter
		want   []string
	}{
		"all, the newest first": {rest.InvocationFilter{}, []string{"a", "b", "c", "e", "d"}},
		"in pages":              {rest.InvocationFilter{Limit: 2}, []string{"a", "b", "c", "e", "d"}},
		"a function":            {rest.InvocationFilter{Function: "import"}, []string{"d"}},
		"a trigger":             {rest.InvocationFilter{Trigger: "nightly"}, []string{"c"}},
		"a job":                 {rest.InvocationFilter{Job: "import-1"}, []string{"d"}},
		"a kind":                {rest.InvocationFilter{Kind: "invoke"}, []string{"e"}},
		"a status":              {rest.InvocationFilter{Status: "429"}, []string{"b"}},
		"a class":               {rest.InvocationFilter{Status: "2xx", Limit: 1}, []string{"a", "c", "e"}},
		"a time":                {rest.InvocationFilter{From: now.Add(-3 * time.Minute), To: now.Add(-time.Minute)}, []string{"b", "c"}},
		"nothing":               {rest.InvocationFilter{Function: "absent"}, []string{}},
	} {
		if diff := cmp.Diff(test.want, invocationsOf(t, client, tenant.namespace, test.filter)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	summary, err := client.InvocationSummary(t.Context(), tenant.namespace, "1h")
	if diff := cmp.Diff([]rest.InvocationSummary{{Function: "hello", Count: 3, Errors: 1, P50MS: 20, P95MS: 2000, P99MS: 2000}}, summary.Items); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if summary.To.Sub(summary.From) != time.Hour {
		t.Errorf("from %s to %s", summary.From, summary.To)
	}
	if summary, err = client.InvocationSummary(t.Context(), tenant.namespace, ""); err != nil || len(summary.Items) != 2 {
		t.Errorf("of a day: %v, %v", summary, err)
	}

	if _, err := client.Invocations(t.Context(), other.namespace, rest.InvocationFilter{}); problemOf(t, err).Code != rest.CodeForbidden {
		t.Errorf("another tenant's: %v", err)
	}
}

func TestNonsenseOfInvocationsIsNamed(t *testing.T) {
	server := startLedger(t)
	own, _ := startOwn(t, fmt.Sprintf("ledger: {dsnFile: %q}", server.File(t, ledgertest.Reader)))
	tenant := newTenant(t)
	for query, location := range map[string]string{
		"kind=mail": "query.kind", "status=6xx": "query.status", "status=1000": "query.status", "status=ok": "query.status", "from=yesterday": "query.from",
		"from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z": "query.to", "limit=0": "query.limit", "limit=1001": "query.limit", "limit=x": "query.limit",
		"continue=nonsense": "query.continue", "continue=" + url.QueryEscape("MCw="): "query.continue", "function=%00": "query.function", "job=%ff": "query.job",
	} {
		response, body := sendTo(t, own, tenant.token, "GET", "/v1/namespaces/"+tenant.namespace+"/invocations?"+query, nil)
		wantProblem(t, response, body, http.StatusUnprocessableEntity, rest.CodeInvalid)
		if p := problemOf(t, problemIn(t, body)); len(p.Errors) != 1 || p.Errors[0].Location != location {
			t.Errorf("%s: %s", query, body)
		}
	}
	response, body := sendTo(t, own, tenant.token, "GET", "/v1/namespaces/"+tenant.namespace+"/invocations/summary?window=1y", nil)
	wantProblem(t, response, body, http.StatusUnprocessableEntity, rest.CodeInvalid)
	response, body = sendTo(t, own, adminToken(t), "GET", "/v1/namespaces/absent-"+tenant.namespace+"/invocations", nil)
	wantProblem(t, response, body, http.StatusNotFound, rest.CodeNamespaceNotFound)
}

func TestWithoutALedger(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dsn")
	own, _ := startOwn(t, fmt.Sprintf("ledger: {dsnFile: %q}", file))
	tenant := newTenant(t)
	for _, path := range []string{"invocations", "invocations/summary"} {
		expect := func(code string, again bool) {
			t.Helper()
			response, body := sendTo(t, own, tenant.token, "GET", "/v1/namespaces/"+tenant.namespace+"/"+path, nil)
			wantProblem(t, response, body, http.StatusServiceUnavailable, code)
			if got := response.Header.Get("Retry-After") != ""; got != again {
				t.Errorf("%s: whether to come again: %v", code, got)
			}
		}
		expect(rest.CodeLedgerOff, false)
	}
	// It comes, goes away and comes back without a restart.
	server := startLedger(t)
	client := clientOf(t, own, rest.Config{Token: tenant.token})
	list := func() error {
		_, err := client.Invocations(t.Context(), tenant.namespace, rest.InvocationFilter{})
		return err
	}
	ledgertest.WriteDSN(t, file, server.DSN(ledgertest.Reader, "sless"))
	if err := list(); err != nil {
		t.Error(err)
	}
	server.Kill(t)
	wantCode(t, list(), http.StatusServiceUnavailable, rest.CodeLedgerUnavailable)
	server.Up(t)
	if err := eventually(list); err != nil {
		t.Error(err)
	}
}

// A namespace that is made again under the name of another has nothing of it.
func TestANamespaceMadeAgainInheritsNoInvocations(t *testing.T) {
	server := startLedger(t)
	own, _ := startOwn(t, fmt.Sprintf("ledger: {dsnFile: %q}", server.File(t, ledgertest.Reader)))
	namespace := newNamespace(t)
	client := clientOf(t, own, rest.Config{Token: adminToken(t)})
	put(t, server, time.Now(), ran{namespace, "a", "hello", "http", "web", "", time.Minute, time.Millisecond, 200, ""})
	if ids := invocationsOf(t, client, namespace, rest.InvocationFilter{}); !slices.Equal(ids, []string{"a"}) {
		t.Fatalf("before: %v", ids)
	}
	namespaces := cluster.kube.CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ending, err := namespaces.Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ending.Spec.Finalizers = nil // there is no controller that empties it
	if _, err := namespaces.Finalize(t.Context(), ending, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := eventually(func() error {
		_, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if ids := invocationsOf(t, client, namespace, rest.InvocationFilter{}); len(ids) > 0 {
		t.Errorf("after: %v", ids)
	}
	if summary, err := client.InvocationSummary(t.Context(), namespace, "7d"); err != nil || len(summary.Items) > 0 {
		t.Errorf("after: %v, %v", summary, err)
	}
}
