package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrOff means that no ledger is configured: there is no file with a connection string.
	ErrOff = errors.New("no ledger is configured")
	// ErrUnavailable means that the database can't be reached or does not answer.
	ErrUnavailable = errors.New("the ledger is unavailable")
	// ErrNewer means that a newer release made the tables.
	ErrNewer = errors.New("the ledger's schema is from a newer release of sless")
	// ErrOlder means that the operator has not made the tables yet.
	ErrOlder = errors.New("the ledger's schema is not there yet: the operator's leader makes it")
)

// readDSN reads the connection string in a file. Without one the error is ErrOff.
func readDSN(file string) (*pgx.ConnConfig, error) {
	if file == "" {
		return nil, ErrOff
	}
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && strings.TrimSpace(string(content)) == "") {
		return nil, ErrOff
	}
	if err != nil {
		return nil, fmt.Errorf("read the connection string: %w", err)
	}
	config, err := pgx.ParseConfig(strings.TrimSpace(string(content)))
	if err != nil {
		// The parser's own words may quote the string, which has a password.
		return nil, fmt.Errorf("%s is no connection string of PostgreSQL (postgres://user:password@host:5432/database)", file)
	}
	config.ConnectTimeout = 5 * time.Second
	// Nothing is prepared, so that a pooler of connections may stand between.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.RuntimeParams["application_name"] = "sless"
	config.RuntimeParams["timezone"] = "UTC"
	return config, nil
}

// connect connects and makes sure that the schema is this release's.
func connect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := checkVersion(ctx, c); err != nil {
		hangUp(c)
		return nil, err
	}
	return c, nil
}

// hangUp ends a connection without waiting for the other side.
func hangUp(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // there is nothing more to be done about it
}

// checkVersion compares the schema with what this release knows.
func checkVersion(ctx context.Context, c *pgx.Conn) error {
	var version int
	err := c.QueryRow(ctx, "select coalesce(max(version), 0) from sless.schema_versions").Scan(&version)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && (refused.Code == undefinedTable || refused.Code == undefinedSchema || refused.Code == insufficientPrivilege):
		return fmt.Errorf("%w (%s)", ErrOlder, refused.Message)
	case err != nil:
		return err
	case version > latest():
		return fmt.Errorf("%w: it has version %d and this one knows %d; upgrade what uses it", ErrNewer, version, latest())
	case version < latest():
		return ErrOlder
	}
	return nil
}

// PostgreSQL's codes of what can go wrong; those of two characters are classes.
const (
	dataException         = "22"
	integrityViolation    = "23"
	operatorIntervention  = "57"
	undefinedTable        = "42P01"
	undefinedSchema       = "3F000"
	insufficientPrivilege = "42501"
)
