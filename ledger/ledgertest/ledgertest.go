// Package ledgertest starts a real PostgreSQL for the tests of a package.
package ledgertest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Roles are those that an installation has: Owner makes the tables, Writer and Reader do what their names say. Their passwords are their
// names.
const (
	Owner  = "sless_owner"
	Writer = "sless_writer"
	Reader = "sless_reader"
)

// patience is how long a server may take to start or to end. It is long because machines may be slow, and costs nothing when they are not.
const patience = 2 * time.Minute

// Server is a PostgreSQL that only this process reaches: by a socket in its folder, so that servers of tests that run at the same time never
// come by the same port. Its database sless is Owner's and empty.
type Server struct {
	folder  string
	account *syscall.Credential // nil when the test is not root's
	process *exec.Cmd           // nil while it is down
}

// Start starts a server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	folder, err := os.MkdirTemp("", "postgres")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{folder: folder}
	t.Cleanup(func() {
		s.Kill(t)
		os.RemoveAll(folder)
	})
	s.own(t)
	password := filepath.Join(folder, "password")
	if err := os.WriteFile(password, []byte("postgres\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := s.command(t, "initdb", "-D", s.data(), "-U", "postgres", "-A", "scram-sha-256", "--pwfile", password, "-E", "UTF8",
		"--locale", "C", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s.Up(t)
	s.Exec(t, "postgres", "postgres",
		"create role sless_owner login password 'sless_owner'", "create role sless_writer login password 'sless_writer'",
		"create role sless_reader login password 'sless_reader'", "create database sless owner sless_owner")
	return s
}

// own makes the folder belong to an account that PostgreSQL runs as: it refuses to be root.
func (s *Server) own(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, err1 := strconv.ParseUint(nobody.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(nobody.Gid, 10, 32)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	s.account = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if err := os.Chown(s.folder, int(uid), int(gid)); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

func (s *Server) command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(program(t, name), args...)
	command.Dir = s.folder
	command.SysProcAttr = &syscall.SysProcAttr{Credential: s.account}
	return command
}

// program finds one of the server's programs: on the PATH, or where Debian puts them, the newest release first.
func program(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(found) == 0 {
		t.Fatalf("PostgreSQL's %s is neither on the PATH nor below /usr/lib/postgresql: install the package postgresql", name)
	}
	return slices.Max(found)
}

// Up starts the server, which must be down, and returns when it answers. Settings are name=value.
func (s *Server) Up(t testing.TB, settings ...string) {
	t.Helper()
	args := []string{"-D", s.data(), "-k", s.folder, "-h", ""}
	for _, setting := range append([]string{"fsync=off", "shared_buffers=32MB"}, settings...) {
		args = append(args, "-c", setting)
	}
	s.process = s.command(t, "postgres", args...)
	// A file, so that no goroutine of the test's process carries it.
	log, err := os.Create(filepath.Join(s.folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.process.Stdout, s.process.Stderr = log, log
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		c, err := pgx.Connect(context.Background(), s.DSN("postgres", "postgres"))
		if err == nil {
			c.Close(context.Background())
			return
		}
		if time.Now().After(deadline) {
			s.Kill(t)
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("PostgreSQL did not start: %v\n%s", err, said)
		}
	}
}

// Kill ends the server as a power cut does, and returns when it is gone.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if s.process == nil {
		return
	}
	// SIGQUIT has the server's children end too, without the shutting down.
	if err := s.process.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Errorf("end PostgreSQL: %v", err)
	}
	_ = s.process.Wait() // its exit code tells that it was killed
	s.process = nil
}

// DSN returns the connection string of a role to a database: postgres, or sless.
func (s *Server) DSN(role, database string) string {
	return fmt.Sprintf("postgres://%s:%s@/%s?host=%s", role, role, database, url.QueryEscape(s.folder))
}

// File returns a file that has the connection string of a role to the database sless.
func (s *Server) File(t testing.TB, role string) string {
	t.Helper()
	return WriteDSN(t, filepath.Join(t.TempDir(), role), s.DSN(role, "sless"))
}

// WriteDSN writes a connection string to a file, whole at once as a mounted Secret changes, and returns the file's name.
func WriteDSN(t testing.TB, file, dsn string) string {
	t.Helper()
	next := file + ".next"
	if err := os.WriteFile(next, []byte(dsn+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// Exec executes statements, each by itself.
func (s *Server) Exec(t testing.TB, role, database string, statements ...string) {
	t.Helper()
	c := s.Connect(t, role, database)
	defer c.Close(context.Background())
	for _, statement := range statements {
		if _, err := c.Exec(context.Background(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// Connect returns a connection that the caller closes.
func (s *Server) Connect(t testing.TB, role, database string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), s.DSN(role, database))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Query returns the first column of what a statement of the owner's finds in the database sless, as texts.
func (s *Server) Query(t testing.TB, statement string, args ...any) []string {
	t.Helper()
	c := s.Connect(t, "postgres", "sless")
	defer c.Close(context.Background())
	rows, err := c.Query(context.Background(), statement, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		if err != nil {
			return "", err
		}
		return strings.TrimSpace(fmt.Sprint(values[0])), nil
	})
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return found
}
