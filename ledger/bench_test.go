package ledger

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/naeel/sless/ledger/ledgertest"
)

// filled starts a server with rows in each of days partitions, of as many tenants as a hundredth of a day's rows, at most a thousand. The first is tenantA.
func filled(t testing.TB, days, rowsADay int, now time.Time) *ledgertest.Server {
	t.Helper()
	server := ledgertest.Start(t)
	owner := server.File(t, ledgertest.Owner)
	for day := days - 1; day >= 0; day -= ahead {
		if err := Prepare(t.Context(), owner, 2*days, now.AddDate(0, 0, -day)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Prepare(t.Context(), owner, 2*days, now); err != nil {
		t.Fatal(err)
	}
	c := server.Connect(t, ledgertest.Owner, "sless")
	defer c.Close(context.Background())
	const generate = `insert into sless.invocations
		select $1::timestamptz - make_interval(secs => i * $2::float8), 1000 + i % 5000, 'id-' || i, 'ns', ('11111111-1111-4111-8111-' || lpad((i * 7919 % $3)::text, 12, '0'))::uuid,
			'f' || i % 7, 'web', '', 'http', 'sha256:0123456789abcdef', 'v1', case when i % 50 = 0 then 500 else 200 end, '', 0, 0, 900, 100, 1000, 'pod-1', '192.0.2.0', 1, 0
		from generate_series(0, $4::bigint - 1) i`
	rows := days * rowsADay
	seconds := float64(days-1) * 86400 / float64(rows)
	if _, err := c.Exec(t.Context(), generate, pgx.QueryExecModeSimpleProtocol, now, seconds, max(1, min(1000, rowsADay/100)), rows); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "analyze sless.invocations"); err != nil {
		t.Fatal(err)
	}
	return server
}

// firstTenant is the one of filled that benchmarks and tests ask about.
const firstTenant = "11111111-1111-4111-8111-000000000000"

// explain returns the partitions that the plan of a query touches.
func explain(t testing.TB, server *ledgertest.Server, q Query) []string {
	t.Helper()
	statement, args, err := q.sql()
	if err != nil {
		t.Fatal(err)
	}
	c := server.Connect(t, ledgertest.Reader, "sless")
	defer c.Close(context.Background())
	rows, err := c.Query(t.Context(), "explain "+statement, append([]any{pgx.QueryExecModeExec}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	var touched []string
	for _, line := range lines {
		if strings.Contains(line, "Seq Scan") {
			t.Errorf("a whole partition is read: %s", line)
		}
		if _, rest, found := strings.Cut(line, " on "); found && len(strings.Fields(rest)[0]) == len(partitionName) { // an index has a longer name
			touched = append(touched, strings.Fields(rest)[0])
		}
	}
	return touched
}

// TestQueriesPrunePartitions holds that a query of an hour looks at that hour's day alone.
func TestQueriesPrunePartitions(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour)
	server := filled(t, 10, 5000, now)
	got := explain(t, server, Query{NamespaceUID: firstTenant, From: now.Add(-time.Hour), To: now})
	if want := []string{now.Format(partitionName)}; !slices.Equal(got, want) {
		t.Errorf("the plan touches %v, want %v", got, want)
	}
}

// BenchmarkList asks for a tenant's last hour among two million rows in 30 partitions.
func BenchmarkList(b *testing.B) {
	now := time.Now().UTC()
	server := filled(b, 30, 2_000_000/30, now)
	query := Query{NamespaceUID: firstTenant, From: now.Add(-time.Hour), To: now.Add(time.Second)}
	b.Logf("the plan touches %v", explain(b, server, query))
	reader := NewReader(server.File(b, ledgertest.Reader))
	defer reader.Close()
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		page, err := reader.List(b.Context(), query)
		if err != nil || len(page.Records) == 0 {
			b.Fatal(len(page.Records), err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
}

// BenchmarkSustained writes 5,000 records a second for as long as a benchmark takes, at least 20 s, and says what of them was lost and how the heap grew.
func BenchmarkSustained(b *testing.B) {
	const (
		perSecond = 5000
		least     = 20 * perSecond
	)
	server := ledgertest.Start(b)
	if err := Prepare(b.Context(), server.File(b, ledgertest.Owner), 30, time.Now()); err != nil {
		b.Fatal(err)
	}
	writer := NewWriter(WriterOptions{DSNFile: server.File(b, ledgertest.Writer)})
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		writer.Run(ctx)
	}()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	total := max(b.N, least)
	var half uint64
	began := time.Now()
	for i := range total {
		if i%(perSecond/100) == 0 {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / perSecond)))
		}
		if i == total/2 {
			half = heap()
		}
		r := sample(0, time.Now())
		r.ID = fmt.Sprint(i)
		writer.Write(&r)
	}
	end := heap()
	stop()
	<-ended
	took := time.Since(began)
	stats := writer.Stats()
	b.ReportMetric(float64(stats.Written)/took.Seconds(), "records/s")
	b.ReportMetric(float64(stats.Dropped), "dropped")
	b.ReportMetric((float64(end)-float64(half))/(1<<20), "heap-growth-MiB")
}
