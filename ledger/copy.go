package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// table is where records go.
var table = pgx.Identifier{"sless", "invocations"}

// copyRecords writes all of the records or none.
func copyRecords(ctx context.Context, c *pgx.Conn, records []Record) error {
	_, err := c.CopyFrom(ctx, table, columns, pgx.CopyFromSlice(len(records), func(i int) ([]any, error) { return records[i].values(), nil }))
	return err
}
