package ledger

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// table is where records go.
var table = pgx.Identifier{"sless", "invocations"}

// copyRecords writes all of the records or none.
func copyRecords(ctx context.Context, c *pgx.Conn, records []Record) error {
	_, err := c.CopyFrom(ctx, table, columns, pgx.CopyFromSlice(len(records), func(i int) ([]any, error) { return records[i].values(), nil }))
	return err
}

var insert = func() string {
	places := make([]string, len(columns))
	for i := range places {
		places[i] = "$" + strconv.Itoa(i+1)
	}
	return "insert into " + table.Sanitize() + " (" + strings.Join(columns, ", ") + ") values (" + strings.Join(places, ", ") + ") on conflict do nothing"
}()

// insertRecord writes a record, unless it is there.
func insertRecord(ctx context.Context, c *pgx.Conn, r *Record) error {
	_, err := c.Exec(ctx, insert, r.values()...)
	return err
}
