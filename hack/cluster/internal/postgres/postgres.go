// Package postgres runs the PostgreSQL of the local cluster, as a process of this machine that pods reach at the node's address.
package postgres

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naeel/sless/hack/cluster/internal/plan"
	"github.com/naeel/sless/hack/cluster/internal/process"
	"github.com/naeel/sless/hack/cluster/internal/progress"
)

const (
	// name is the process's.
	name = "postgres"
	// account runs the server, which refuses to be root. Debian's package makes it.
	account      = "postgres"
	startTimeout = 2 * time.Minute
)

// folder has the data. It is not in the work tree, to which the account may have no way.
var folder = filepath.Join(plan.RunDir, "postgres")

// Server is the server of one work tree's cluster.
type Server struct {
	Place     plan.Place
	Processes process.Set
	Progress  *progress.Printer
}

// Access has a connection string for each role.
type Access struct{ Owner, Writer, Reader string }

// passwords of the roles, made at random and kept beside the data.
type passwords struct{ Owner, Writer, Reader string }

// Start makes the server run with its roles and its database, if it does not.
func (s Server) Start(ctx context.Context) (Access, error) {
	secrets, err := s.passwords()
	if err != nil {
		return Access{}, err
	}
	access := Access{Owner: dsn("sless_owner", secrets.Owner), Writer: dsn("sless_writer", secrets.Writer), Reader: dsn("sless_reader", secrets.Reader)}
	if s.Processes.Alive(name) && s.exists(ctx) {
		return access, nil
	}
	return access, s.Progress.Step("PostgreSQL", s.Place.Log(name), func() error { return s.start(ctx, secrets) })
}

func dsn(role, password string) string {
	return fmt.Sprintf("postgres://%s:%s@%s:%d/sless", role, password, plan.NodeIP, plan.PostgresPort)
}

func (s Server) passwords() (passwords, error) {
	var p passwords
	path := s.Place.In("postgres.json")
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		return p, json.Unmarshal(data, &p)
	case !errors.Is(err, os.ErrNotExist):
		return p, err
	}
	p = passwords{Owner: rand.Text(), Writer: rand.Text(), Reader: rand.Text()}
	if data, err = json.MarshalIndent(p, "", "  "); err != nil {
		return p, err
	}
	return p, os.WriteFile(path, append(data, '\n'), 0o600)
}

func (s Server) start(ctx context.Context, secrets passwords) error {
	data := filepath.Join(folder, "data")
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err != nil {
		if err := s.initialize(ctx, data); err != nil {
			return err
		}
	}
	server, err := s.as("postgres", "-D", data, "-k", folder, "-h", plan.NodeIP, "-p", strconv.Itoa(plan.PostgresPort), "-c", "shared_buffers=64MB")
	if err != nil {
		return err
	}
	if _, err := s.Processes.Ensure(process.Spec{Name: name, Args: server, Log: s.Place.Log(name)}); err != nil {
		return err
	}
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(100 * time.Millisecond) {
		if _, err = s.sql(ctx, "postgres", "select 1"); err == nil {
			break
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
	}
	return s.populate(ctx, secrets)
}

// initialize makes an empty cluster of databases that lets pods in by password, and the account itself by its socket.
func (s Server) initialize(ctx context.Context, data string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "chown", account+":", folder).CombinedOutput(); err != nil {
		return fmt.Errorf("chown %s: %w: %s", folder, err, out)
	}
	command, err := s.as("initdb", "-D", data, "--auth-local=peer", "--auth-host=scram-sha-256", "-E", "UTF8", "--locale", "C")
	if err != nil {
		return err
	}
	if err := run(ctx, command); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(data, "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "host sless all %s scram-sha-256\n", plan.PodCIDR)
	return errors.Join(err, file.Close())
}

// populate makes the roles and the database.
func (s Server) populate(ctx context.Context, secrets passwords) error {
	for role, password := range map[string]string{"sless_owner": secrets.Owner, "sless_writer": secrets.Writer, "sless_reader": secrets.Reader} {
		statement := fmt.Sprintf("do $$ begin if not exists (select from pg_roles where rolname = '%[1]s') then create role %[1]s login; end if; end $$; alter role %[1]s password '%[2]s'", role, password)
		if _, err := s.sql(ctx, "postgres", statement); err != nil {
			return err
		}
	}
	if s.exists(ctx) {
		return nil
	}
	_, err := s.sql(ctx, "postgres", "create database sless owner sless_owner")
	return err
}

// exists tells whether the server answers and has the database.
func (s Server) exists(ctx context.Context) bool {
	out, err := s.sql(ctx, "postgres", "select count(*) from pg_database where datname = 'sless'")
	return err == nil && strings.TrimSpace(out) == "1"
}

// sql runs a statement as the superuser.
func (s Server) sql(ctx context.Context, database, statement string) (string, error) {
	command, err := s.as("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", folder, "-p", strconv.Itoa(plan.PostgresPort), "-d", database, "-c", statement)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// as returns the command line of one of PostgreSQL's programs, run by the account.
func (s Server) as(program string, args ...string) ([]string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("no %s below /usr/lib/postgresql: run make up, which installs Debian's package postgresql", program)
	}
	return slices.Concat([]string{"setpriv", "--reuid", account, "--regid", account, "--clear-groups", slices.Max(found)}, args), nil
}

func run(ctx context.Context, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
