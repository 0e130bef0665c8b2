package ledger

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed migrations/*.sql
var migrations embed.FS

// latest is the version that the migrations lead to: their number, as each one's name begins with its own.
func latest() int {
	entries, _ := migrations.ReadDir("migrations") // it is part of the program
	return len(entries)
}

const (
	// ahead is for how many days partitions are made beforehand: so long writing goes on without a Keeper.
	ahead = 7
	// keeperLock is the advisory lock that one Keeper at a time holds.
	keeperLock = 0x736c657373 // "sless"
	// keeperPatience bounds one pass.
	keeperPatience = time.Minute
)

// Keeper keeps the tables as this release needs them, and drops what is old.
type Keeper struct {
	// DSNFile has the connection string of a role that may make tables. Without the file there is nothing to do.
	DSNFile string
	// RetentionDays is how many days records are kept.
	RetentionDays int
	// Log gets a line when the tables are as they should be, and when they can't be.
	Log *slog.Logger
}

const (
	// keepEvery is how often a Keeper looks.
	keepEvery = 5 * time.Minute
	// keepAgain is after how long it looks again when something was wrong, or there was nothing to do.
	keepAgain = 10 * time.Second
)

// Run works until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	said := ""
	for ctx.Err() == nil {
		wait, err := keepEvery, Prepare(ctx, k.DSNFile, k.RetentionDays, time.Now())
		state := "well"
		if err != nil {
			wait, state = keepAgain, kindOf(err)
		}
		switch {
		case state == said || ctx.Err() != nil:
		case errors.Is(err, ErrOff):
		case err != nil:
			k.Log.Error("the ledger's tables can't be made or kept; nothing else depends on them, and it is tried again", "error", err)
		default:
			k.Log.Info("the ledger's tables are ready", "version", latest(), "retentionDays", k.RetentionDays)
		}
		said = state
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// Prepare brings the schema up to date, makes partitions for the days to come, drops those that are older than retentionDays, and lets the
// roles sless_writer and sless_reader, if they exist, do what their names say. All of it happens or none. Of several that try, one does it
// while the others wait. The error wraps ErrNewer when a newer release has been at work, which is left alone.
func Prepare(ctx context.Context, dsnFile string, retentionDays int, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, keeperPatience)
	defer cancel()
	config, err := readDSN(dsnFile)
	if err != nil {
		return err
	}
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer hangUp(c)
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", int64(keeperLock)); err != nil {
			return fmt.Errorf("wait for another operator: %w", err)
		}
		// Who waits for a table's lock keeps all that come later waiting too: rather try again.
		if _, err := tx.Exec(ctx, "set local lock_timeout = '3s'"); err != nil {
			return err
		}
		for _, step := range []func(context.Context, pgx.Tx) error{
			migrate,
			func(ctx context.Context, tx pgx.Tx) error { return partition(ctx, tx, retentionDays, now.UTC()) },
			grant,
		} {
			if err := step(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
}

func migrate(ctx context.Context, tx pgx.Tx) error {
	var exists bool
	if err := tx.QueryRow(ctx, "select to_regclass('sless.schema_versions') is not null").Scan(&exists); err != nil {
		return err
	}
	if !exists {
		if err := run(ctx, tx, "create schema if not exists sless"); err != nil {
			return fmt.Errorf("make the schema: %w", err)
		}
		if err := run(ctx, tx, "create table sless.schema_versions (version integer primary key, applied timestamptz not null default now())"); err != nil {
			return fmt.Errorf("make the table of versions: %w", err)
		}
	}
	if err := checkVersion(ctx, tx.Conn()); !errors.Is(err, ErrOlder) {
		return err
	}
	var version int
	if err := tx.QueryRow(ctx, "select coalesce(max(version), 0) from sless.schema_versions").Scan(&version); err != nil {
		return err
	}
	entries, err := migrations.ReadDir("migrations")
	if err != nil {
		return err
	}
	for i := version; i < len(entries); i++ {
		name := entries[i].Name()
		statements, err := migrations.ReadFile("migrations/" + name)
		if err != nil {
			return err
		}
		if err := run(ctx, tx, string(statements)); err != nil {
			return fmt.Errorf("migration %s: %w", name, err)
		}
		if _, err := tx.Exec(ctx, "insert into sless.schema_versions (version) values ($1)", i+1); err != nil {
			return fmt.Errorf("migration %s: %w", name, err)
		}
	}
	return nil
}

// run executes statements without arguments, of which there may be several.
func run(ctx context.Context, tx pgx.Tx, statements string) error {
	_, err := tx.Exec(ctx, statements, pgx.QueryExecModeSimpleProtocol)
	return err
}

// partitionName is invocations_ and a day.
const partitionName = "invocations_20060102"

// partition makes the partitions of yesterday (for clocks that differ) to some days ahead and drops the old ones.
func partition(ctx context.Context, tx pgx.Tx, retentionDays int, now time.Time) error {
	rows, err := tx.Query(ctx, "select c.relname::text from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'sless.invocations'::regclass")
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	have := map[string]bool{}
	today := now.Truncate(24 * time.Hour)
	oldest := today.AddDate(0, 0, -retentionDays)
	for _, name := range names {
		have[name] = true
		day, err := time.Parse(partitionName, name)
		if err != nil || !day.Before(oldest) {
			continue // somebody else's, or still wanted
		}
		if err := run(ctx, tx, "drop table sless."+pgx.Identifier{name}.Sanitize()); err != nil {
			return fmt.Errorf("drop partition %s: %w", name, err)
		}
	}
	for offset := -1; offset <= ahead; offset++ {
		day := today.AddDate(0, 0, offset)
		name := day.Format(partitionName)
		if have[name] || day.Before(oldest) {
			continue
		}
		err := run(ctx, tx, fmt.Sprintf("create table sless.%s partition of sless.invocations for values from ('%s') to ('%s')",
			name, day.Format(time.RFC3339), day.AddDate(0, 0, 1).Format(time.RFC3339)))
		if err != nil {
			return fmt.Errorf("make partition %s: %w", name, err)
		}
	}
	return nil
}

// grant gives the two roles no more than they need. Partitions need no grants, as they are reached by their parent.
func grant(ctx context.Context, tx pgx.Tx) error {
	for role, statements := range map[string][]string{
		"sless_writer": {"grant insert on sless.invocations to sless_writer"},
		"sless_reader": {"grant select on sless.invocations to sless_reader"},
	} {
		var exists bool
		if err := tx.QueryRow(ctx, "select exists (select from pg_roles where rolname = $1)", role).Scan(&exists); err != nil {
			return err
		}
		if !exists {
			continue
		}
		statements = append(statements, "grant usage on schema sless to "+role, "grant select on sless.schema_versions to "+role)
		if err := run(ctx, tx, strings.Join(statements, "; ")); err != nil {
			return fmt.Errorf("let %s in: %w", role, err)
		}
	}
	return nil
}
