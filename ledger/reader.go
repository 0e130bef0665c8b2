package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// patience is how long a reader waits for an answer.
const patience = 10 * time.Second

// Reader answers queries. It connects when it is first asked.
type Reader struct {
	file string

	mu   sync.Mutex
	pool *pgxpool.Pool // nil until the first query
}

// NewReader returns a reader that uses the connection string in a file. The file may come later, or change: every new connection reads it.
func NewReader(dsnFile string) *Reader { return &Reader{file: dsnFile} }

// Close ends the connections.
func (r *Reader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pool != nil {
		r.pool.Close()
		r.pool = nil
	}
}

// List returns a page of records. The error is a *QueryError, or wraps ErrOff or ErrUnavailable, or is the context's.
func (r *Reader) List(ctx context.Context, q Query) (Page, error) {
	statement, args, err := q.sql()
	if err != nil {
		return Page{}, err
	}
	records, err := ask(ctx, r, statement, args, func(row pgx.CollectableRow) (Record, error) { return scan(row) })
	if err != nil {
		return Page{}, fmt.Errorf("list invocations: %w", err)
	}
	limit := q.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	if len(records) <= limit {
		return Page{Records: records}, nil
	}
	records = records[:limit]
	return Page{Records: records, Continue: continueAfter(records[limit-1])}, nil
}

// Summary says how a function did in a window of time.
type Summary struct {
	Function string
	Count    int64
	// Errors counts answers of 500 and above, and runs that sless refused or ended: those with a Code.
	Errors int64
	// P50, P95 and P99 are of the whole duration.
	P50, P95, P99 time.Duration
}

const summarize = `select function, count(*), count(*) filter (where status >= 500 or code <> ''),
	percentile_disc(array[0.5, 0.95, 0.99]) within group (order by duration_us)
from sless.invocations where namespace_uid = $1::uuid and started >= $2 and started < $3 group by function order by function`

// Summary sums up each function of a namespace that ran in from <= started < to. Its errors are as List's.
func (r *Reader) Summary(ctx context.Context, namespaceUID string, from, to time.Time) ([]Summary, error) {
	if !from.Before(to) {
		return nil, &QueryError{"to", "must be later than from"}
	}
	summaries, err := ask(ctx, r, summarize, []any{namespaceUID, from, to}, func(row pgx.CollectableRow) (Summary, error) {
		var s Summary
		var quantiles []int64
		if err := row.Scan(&s.Function, &s.Count, &s.Errors, &quantiles); err != nil {
			return s, err
		}
		s.P50, s.P95, s.P99 = microseconds(quantiles[0]), microseconds(quantiles[1]), microseconds(quantiles[2])
		return s, nil
	})
	if err != nil {
		return nil, fmt.Errorf("sum up invocations: %w", err)
	}
	return summaries, nil
}

// ask runs a statement and reads its rows.
func ask[T any](ctx context.Context, r *Reader, statement string, args []any, read pgx.RowToFunc[T]) ([]T, error) {
	pool, err := r.connections()
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	asked, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows, err := pool.Query(asked, statement, args...)
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	found, err := pgx.CollectRows(rows, read)
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	return found, nil
}

// unavailable says that an error is the database's, unless the caller went away.
func unavailable(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrOff):
		return err
	default:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
}

// connections returns the pool, and ErrOff when there is no connection string.
func (r *Reader) connections() (*pgxpool.Pool, error) {
	if _, err := readDSN(r.file); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pool != nil {
		return r.pool, nil
	}
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	config.MaxConns = 8
	config.MaxConnIdleTime = time.Minute
	config.MaxConnLifetime = 10 * time.Minute
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		read, err := readDSN(r.file)
		if err == nil {
			*c = *read
		}
		return err
	}
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error { return checkVersion(ctx, c) }
	// It connects nowhere yet.
	r.pool, err = pgxpool.NewWithConfig(context.Background(), config)
	return r.pool, err
}
