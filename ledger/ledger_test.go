package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/naeel/sless/ledger/ledgertest"
)

const (
	tenantA = "11111111-1111-4111-8111-111111111111"
	tenantB = "22222222-2222-4222-8222-222222222222"
)

// prepared starts a server whose tables are made.
func prepared(t *testing.T) *ledgertest.Server {
	t.Helper()
	server := ledgertest.Start(t)
	if err := Prepare(t.Context(), server.File(t, ledgertest.Owner), 30, time.Now()); err != nil {
		t.Fatal(err)
	}
	return server
}

// put writes records as the writer's role.
func put(t *testing.T, server *ledgertest.Server, records ...Record) {
	t.Helper()
	c := server.Connect(t, ledgertest.Writer, "sless")
	defer c.Close(context.Background())
	if err := copyRecords(t.Context(), c, records); err != nil {
		t.Fatal(err)
	}
}

// sample returns a record that has something everywhere.
func sample(i int, at time.Time) Record {
	return Record{
		Started: at.UTC().Truncate(time.Microsecond), Duration: time.Duration(i+1) * time.Millisecond, ID: fmt.Sprintf("id-%04d", i),
		Namespace: "a", NamespaceUID: tenantA, Function: "hello", Trigger: "web", Job: "", Kind: HTTP, Image: "sha256:1234", CodeHash: "v1",
		Status: 200, Queued: 3 * time.Microsecond, Starting: 4 * time.Microsecond, Handler: 5 * time.Microsecond, BytesIn: 6, BytesOut: 7,
		Pod: "hello-1", Caller: netip.MustParseAddr("192.0.2.0"), Attempt: 1,
	}
}

func TestListGivesBackWhatWasWritten(t *testing.T) {
	t.Parallel()
	server := prepared(t)
	now := time.Now()
	written := []Record{sample(2, now), sample(1, now.Add(-time.Second)), sample(0, now.Add(-2*time.Second))}
	written[1].ID, written[1].Dropped, written[1].Caller = "not\x00text\xff", 7, netip.Addr{}
	put(t, server, written...)
	reader := NewReader(server.File(t, ledgertest.Reader))
	defer reader.Close()
	page, err := reader.List(t.Context(), Query{NamespaceUID: tenantA})
	if err != nil {
		t.Fatal(err)
	}
	written[1].ID = "not\uFFFDtext\uFFFD"
	if diff := cmp.Diff(Page{Records: written}, page, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}

func TestListFiltersAndPages(t *testing.T) {
	t.Parallel()
	server := prepared(t)
	now := time.Now().UTC().Truncate(time.Second)
	var all []Record
	for i := range 250 {
		// Several have the same time, so that the id must decide.
		r := sample(i, now.Add(-time.Duration(i/4)*time.Second))
		switch i % 5 {
		case 1:
			r.Status, r.Code, r.Function = 429, "concurrency_limit", "other"
		case 2:
			r.Kind, r.Trigger = Cron, "nightly"
		case 3:
			r.Kind, r.Trigger, r.Job, r.Status, r.Code = Job, "", "import", 500, "Failed"
		case 4:
			r.NamespaceUID = tenantB
		}
		all = append(all, r)
	}
	put(t, server, all...)
	reader := NewReader(server.File(t, ledgertest.Reader))
	defer reader.Close()

	for name, c := range map[string]struct {
		query Query
		let   func(Record) bool
	}{
		"all of a namespace": {Query{NamespaceUID: tenantA}, func(Record) bool { return true }},
		"function":           {Query{NamespaceUID: tenantA, Function: "other"}, func(r Record) bool { return r.Function == "other" }},
		"trigger":            {Query{NamespaceUID: tenantA, Trigger: "nightly"}, func(r Record) bool { return r.Trigger == "nightly" }},
		"job":                {Query{NamespaceUID: tenantA, Job: "import"}, func(r Record) bool { return r.Job == "import" }},
		"kind":               {Query{NamespaceUID: tenantA, Kind: Cron}, func(r Record) bool { return r.Kind == Cron }},
		"class":              {Query{NamespaceUID: tenantA, Status: "4xx"}, func(r Record) bool { return r.Status/100 == 4 }},
		"status":             {Query{NamespaceUID: tenantA, Status: "500"}, func(r Record) bool { return r.Status == 500 }},
		"time": {Query{NamespaceUID: tenantA, From: now.Add(-40 * time.Second), To: now.Add(-10 * time.Second)}, func(r Record) bool {
			return !r.Started.Before(now.Add(-40*time.Second)) && r.Started.Before(now.Add(-10*time.Second))
		}},
		"nothing":                {Query{NamespaceUID: tenantA, Function: "nobody"}, func(Record) bool { return false }},
		"a namespace made again": {Query{NamespaceUID: "33333333-3333-4333-8333-333333333333"}, func(Record) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]bool{}
			for _, r := range all {
				if r.NamespaceUID == c.query.NamespaceUID && c.let(r) {
					want[r.ID] = true
				}
			}
			query := c.query
			query.Limit = 7
			var last Record
			for pages := 0; ; pages++ {
				page, err := reader.List(t.Context(), query)
				if err != nil || pages > 100 {
					t.Fatal(pages, err)
				}
				for _, r := range page.Records {
					if !want[r.ID] {
						t.Errorf("%s is there twice, or should not be there", r.ID)
					}
					delete(want, r.ID)
					if last.ID != "" && (r.Started.After(last.Started) || (r.Started.Equal(last.Started) && r.ID >= last.ID)) {
						t.Errorf("%s comes after %s", r.ID, last.ID)
					}
					last = r
				}
				if query.Continue = page.Continue; query.Continue == "" {
					break
				}
			}
			if len(want) > 0 {
				t.Errorf("these are missing: %v", want)
			}
		})
	}
}

func TestNonsenseIsNamed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for field, queries := range map[string][]Query{
		"limit":  {{Limit: -1}, {Limit: MostLimit + 1}},
		"kind":   {{Kind: "email"}},
		"status": {{Status: "6xx"}, {Status: "abc"}, {Status: "1000"}, {Status: "-1"}, {Status: "2xxx"}},
		"to":     {{From: now, To: now}, {From: now, To: now.Add(-time.Second)}},
		"continue": {
			{Continue: "?"}, {Continue: "AAAA"}, {Continue: "LTEseA"}, {Continue: strings.Repeat("A", 5000)},
			{Continue: continueAfter(Record{Started: time.UnixMicro(farFuture + 1)})}, {Continue: continueAfter(Record{ID: "\x00"})},
		},
		"function": {{Function: "a\x00"}, {Function: "\xff"}},
	} {
		for _, query := range queries {
			query.NamespaceUID = tenantA
			var wrong *QueryError
			if err := query.Validate(); !errors.As(err, &wrong) || wrong.Field != field {
				t.Errorf("%+v: got %v, want an error of %s", query, err, field)
			}
		}
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	server := prepared(t)
	now := time.Now()
	var records []Record
	for i := range 100 {
		records = append(records, sample(i, now.Add(-time.Duration(i)*time.Millisecond)))
	}
	records[3].Status = 503
	records[4].Status, records[4].Code = 429, "concurrency_limit"
	records[5].Status = 404 // the function's own answer
	other := sample(200, now)
	other.Function = "other"
	late := sample(201, now.Add(-2*time.Hour))
	foreign := sample(202, now)
	foreign.NamespaceUID = tenantB
	put(t, server, append(records, other, late, foreign)...)
	reader := NewReader(server.File(t, ledgertest.Reader))
	defer reader.Close()
	got, err := reader.Summary(t.Context(), tenantA, now.Add(-time.Hour), now.Add(time.Second))
	want := []Summary{
		{Function: "hello", Count: 100, Errors: 2, P50: 50 * time.Millisecond, P95: 95 * time.Millisecond, P99: 99 * time.Millisecond},
		{Function: "other", Count: 1, P50: 201 * time.Millisecond, P95: 201 * time.Millisecond, P99: 201 * time.Millisecond},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestReaderOffAwayAndBack holds what a reader says of a ledger that is not configured, does not answer, and is there again.
func TestReaderOffAwayAndBack(t *testing.T) {
	t.Parallel()
	server := prepared(t)
	file := filepath.Join(t.TempDir(), "dsn")
	reader := NewReader(file)
	defer reader.Close()
	expect := func(want error) {
		t.Helper()
		if _, err := reader.List(t.Context(), Query{NamespaceUID: tenantA}); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	expect(ErrOff)
	if _, err := NewReader("").List(t.Context(), Query{NamespaceUID: tenantA}); !errors.Is(err, ErrOff) {
		t.Errorf("without a file: %v", err)
	}
	ledgertest.WriteDSN(t, file, strings.Replace(server.DSN(ledgertest.Reader, "sless"), ":sless_reader@", ":wrong@", 1))
	expect(ErrUnavailable)
	ledgertest.WriteDSN(t, file, "postgres://reader:s3cr3t@[bad")
	expect(ErrUnavailable)
	if _, err := reader.List(t.Context(), Query{NamespaceUID: tenantA}); err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("the password is told, or nothing is: %v", err)
	}
	ledgertest.WriteDSN(t, file, server.DSN(ledgertest.Reader, "sless"))
	expect(nil)
	server.Kill(t)
	expect(ErrUnavailable)
	server.Up(t)
	expect(nil)
	server.Exec(t, ledgertest.Owner, "sless", "insert into sless.schema_versions values (99)")
	reader.Close() // connections are asked for their version when they are made
	expect(ErrNewer)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	expect(ErrOff)
}

// TestPrepareOnceByMany holds that of several replicas that start at once one makes the schema, and that doing it again changes nothing.
func TestPrepareOnceByMany(t *testing.T) {
	t.Parallel()
	server := ledgertest.Start(t)
	file := server.File(t, ledgertest.Owner)
	now := time.Date(2026, 5, 31, 23, 59, 0, 0, time.UTC)
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			if err := Prepare(t.Context(), file, 30, now); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := server.Query(t, "select version from sless.schema_versions"); len(got) != latest() {
		t.Errorf("versions %v", got)
	}
	want := []string{"invocations_20260530", "invocations_20260531"}
	for day := 1; day <= ahead; day++ {
		want = append(want, fmt.Sprintf("invocations_202606%02d", day))
	}
	if diff := cmp.Diff(want, partitions(t, server)); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
}

func partitions(t *testing.T, server *ledgertest.Server) []string {
	t.Helper()
	return server.Query(t, "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'sless.invocations'::regclass order by 1")
}

// TestRetention lets days pass.
func TestRetention(t *testing.T) {
	t.Parallel()
	server := ledgertest.Start(t)
	file := server.File(t, ledgertest.Owner)
	start := time.Date(2026, 2, 25, 12, 0, 0, 0, time.UTC)
	for day := range 6 {
		if err := Prepare(t.Context(), file, 2, start.AddDate(0, 0, day)); err != nil {
			t.Fatal(err)
		}
	}
	got := partitions(t, server)
	if first, last := got[0], got[len(got)-1]; first != "invocations_20260228" || last != "invocations_20260309" || len(got) != 10 {
		t.Errorf("partitions %v", got)
	}
}

// TestRightsAreLeast holds that writer and reader can do what their names say and nothing else.
func TestRightsAreLeast(t *testing.T) {
	t.Parallel()
	server := prepared(t)
	put(t, server, sample(0, time.Now()))
	for role, statements := range map[string][]string{
		ledgertest.Writer: {
			"select * from sless.invocations", "update sless.invocations set status = 0", "delete from sless.invocations", "truncate sless.invocations",
			"insert into sless.schema_versions values (99)", "create table sless.mine ()", "drop table sless.invocations",
		},
		ledgertest.Reader: {
			"insert into sless.invocations (id) values ('x')", "update sless.invocations set status = 0", "delete from sless.invocations",
			"truncate sless.invocations", "insert into sless.schema_versions values (99)", "create table sless.mine ()", "drop table sless.invocations",
		},
	} {
		c := server.Connect(t, role, "sless")
		for _, statement := range statements {
			if _, err := c.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err == nil {
				t.Errorf("%s may %s", role, statement)
			}
		}
		c.Close(context.Background())
	}
}

// TestPrepareLeavesANewerSchemaAlone holds that an operator that was taken back to an older release changes nothing.
func TestPrepareLeavesANewerSchemaAlone(t *testing.T) {
	t.Parallel()
	server := prepared(t)
	server.Exec(t, ledgertest.Owner, "sless", "insert into sless.schema_versions values (99)")
	before := partitions(t, server)
	err := Prepare(t.Context(), server.File(t, ledgertest.Owner), 1, time.Now().AddDate(0, 0, 60))
	if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, partitions(t, server)); diff != "" {
		t.Errorf("partitions changed:\n%s", diff)
	}
}

// TestKeeper holds that a Keeper waits for a database, and says once what is wrong with it.
func TestKeeper(t *testing.T) {
	t.Parallel()
	server := ledgertest.Start(t)
	file := filepath.Join(t.TempDir(), "dsn")
	log := &logs{}
	keeper := Keeper{DSNFile: file, RetentionDays: 30, Log: slog.New(slog.NewTextHandler(log, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() { keeper.Run(ctx) })
	server.Exec(t, "postgres", "postgres", "alter role sless_owner nologin")
	ledgertest.WriteDSN(t, file, server.DSN(ledgertest.Owner, "sless"))
	eventually(t, "it says what is wrong", func() bool { return log.count("ERROR") == 1 })
	server.Exec(t, "postgres", "postgres", "alter role sless_owner login")
	eventually(t, "it makes the tables", func() bool { return log.count("INFO") == 1 })
	if rows(t, server) != 0 || log.count("ERROR") != 1 || strings.Contains(log.String(), "postgres://") {
		t.Errorf("log:\n%s", log)
	}
	cancel()
	working.Wait()
}

func TestCallerPolicy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ policy, address, want string }{
		{"full", "198.51.100.7", "198.51.100.7"},
		{"network", "198.51.100.7", "198.51.100.0"},
		{"network", "::ffff:198.51.100.7", "198.51.100.0"},
		{"network", "2001:db8:1:2:3::4", "2001:db8:1::"},
		{"full", "fe80::1%eth0", "fe80::1"},
		{"none", "198.51.100.7", "invalid IP"},
		{"network", "", "invalid IP"},
	} {
		address, _ := netip.ParseAddr(c.address)
		if got := CallerPolicy(c.policy).Shorten(address).String(); got != c.want {
			t.Errorf("%s of %s: got %s, want %s", c.policy, c.address, got, c.want)
		}
	}
}
