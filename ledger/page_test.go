package ledger

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/naeel/sless/ledger/ledgertest"
)

// TestThePageOfQueries runs every statement of docs/invocations.md: what sets a database up as its administrator, the rest as the reader.
func TestThePageOfQueries(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/invocations.md")
	if err != nil {
		t.Fatal(err)
	}
	statements := map[string][]string{}
	for _, block := range regexp.MustCompile("(?s)```sql ?(.*?)\n(.*?);\n```").FindAllStringSubmatch(string(page), -1) {
		statements[block[1]] = append(statements[block[1]], block[2])
	}
	if len(statements["setup"]) != 1 || len(statements[""]) < 8 {
		t.Fatalf("%d and %d statements", len(statements["setup"]), len(statements[""]))
	}

	server := ledgertest.Start(t)
	server.Exec(t, "postgres", "postgres", "drop database sless", "drop role sless_owner", "drop role sless_writer", "drop role sless_reader")
	server.Exec(t, "postgres", "postgres", strings.Split(statements["setup"][0], ";\n")...)
	as := func(role string) string {
		dsn := strings.Replace(server.DSN(role, "sless"), ":"+role+"@", ":"+strings.TrimPrefix(role, "sless_")+"-password@", 1)
		return ledgertest.WriteDSN(t, t.TempDir()+"/dsn", dsn)
	}
	if err := Prepare(t.Context(), as(ledgertest.Owner), 30, time.Now()); err != nil {
		t.Fatal(err)
	}
	connect := func(role string) *pgx.Conn {
		config, err := readDSN(as(role))
		if err != nil {
			t.Fatal(err)
		}
		c, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		return c
	}
	var records []Record
	for i := range 2000 {
		r := sample(i, time.Now().Add(-time.Duration(i)*time.Second))
		r.Namespace = "shop"
		switch i % 4 {
		case 1:
			r.Status, r.Code = 429, "concurrency_limit"
		case 2:
			r.Kind, r.Trigger, r.Status = Cron, "nightly", 500
		case 3:
			r.Namespace, r.NamespaceUID, r.Dropped = "other", tenantB, 1
		}
		records = append(records, r)
	}
	if err := copyRecords(t.Context(), connect(ledgertest.Writer), records); err != nil {
		t.Fatal(err)
	}
	reader := connect(ledgertest.Reader)
	for _, statement := range statements[""] {
		rows, err := reader.Query(t.Context(), statement)
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowToMap)
		if err != nil || len(found) == 0 {
			t.Errorf("%d rows, %v:\n%s", len(found), err, statement)
		}
	}
}
