package ledger

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/naeel/sless/ledger/ledgertest"
)

// soon is how long a test waits for what must come: long enough for the slowest machine.
const soon = 2 * time.Minute

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(soon); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// logs is where a writer's lines go.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) count(level string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), "level="+level)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// running is a writer at work.
type running struct {
	*Writer
	logs *logs
	file string
	stop func()
	sent int
}

func startWriter(t *testing.T, file string, capacity int) *running {
	t.Helper()
	r := &running{logs: &logs{}, file: file}
	r.Writer = NewWriter(WriterOptions{DSNFile: file, Capacity: capacity, Log: slog.New(slog.NewTextHandler(r.logs, nil))})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	r.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(r.stop)
	return r
}

// write writes n more records. No Write may wait: that is what requests would notice, and a test that hangs here says so.
func (r *running) write(n int) {
	now := time.Now()
	for range n {
		record := sample(r.sent, now)
		r.Write(&record)
		r.sent++
	}
}

func rows(t *testing.T, server *ledgertest.Server) int {
	t.Helper()
	n, err := strconv.Atoi(server.Query(t, "select count(*) from sless.invocations")[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func droppedInRows(t *testing.T, server *ledgertest.Server) int {
	t.Helper()
	n, err := strconv.Atoi(server.Query(t, "select coalesce(sum(dropped), 0) from sless.invocations")[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRing holds that the oldest go first, and that the next one tells of them.
func TestRing(t *testing.T) {
	t.Parallel()
	q := ring{capacity: 3}
	for i := range 5 {
		q.push(&Record{ID: strconv.Itoa(i)})
	}
	got := ""
	for _, r := range q.pop(make([]Record, 0, 2)) {
		got += fmt.Sprintf("%s(%d) ", r.ID, r.Dropped)
	}
	for _, r := range q.pop(make([]Record, 0, 2)) {
		got += fmt.Sprintf("%s(%d) ", r.ID, r.Dropped)
	}
	if count, dropped := q.stats(); got != "2(2) 3(0) 4(0) " || count != 0 || dropped != 2 {
		t.Errorf("got %s; %d left, %d dropped", got, count, dropped)
	}
}

// TestWriteCostsNothing holds that a request pays for no memory, with the ledger on, off and absent.
func TestWriteCostsNothing(t *testing.T) {
	file := ledgertest.WriteDSN(t, filepath.Join(t.TempDir(), "dsn"), "postgres://127.0.0.1:1/none")
	for name, writer := range map[string]*Writer{
		"absent": nil, "off": NewWriter(WriterOptions{DSNFile: "", Capacity: 10}), "on": NewWriter(WriterOptions{DSNFile: file, Capacity: 10}),
	} {
		record := sample(1, time.Now())
		if n := testing.AllocsPerRun(1000, func() { writer.Write(&record) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// BenchmarkWrite is what a request pays.
func BenchmarkWrite(b *testing.B) {
	file := ledgertest.WriteDSN(b, filepath.Join(b.TempDir(), "dsn"), "postgres://127.0.0.1:1/none")
	writer := NewWriter(WriterOptions{DSNFile: file})
	record := sample(1, time.Now())
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			writer.Write(&record)
		}
	})
}

func TestWriterWritesAndFlushesAtTheEnd(t *testing.T) {
	t.Parallel()
	server := prepared(t)
	writer := startWriter(t, server.File(t, ledgertest.Writer), 0)
	writer.write(3 * batchSize)
	eventually(t, "they are written without being many more", func() bool { return rows(t, server) == 3*batchSize })
	eventually(t, "the writer is up", func() bool { return writer.Stats().Up })
	writer.write(10)
	writer.stop()
	if n := rows(t, server); n != 3*batchSize+10 {
		t.Errorf("%d rows", n)
	}
	if got := (Stats{Written: 3*batchSize + 10, Up: true}); writer.Stats() != got || writer.logs.String() != "" {
		t.Errorf("stats %+v, log %s", writer.Stats(), writer.logs)
	}
}

// TestWriterWithoutALedger holds that nothing is kept or said while there is no file, and that it may come, change and go.
func TestWriterWithoutALedger(t *testing.T) {
	t.Parallel()
	server := prepared(t)
	file := filepath.Join(t.TempDir(), "dsn")
	writer := startWriter(t, file, 0)
	writer.write(10)
	if got := writer.Stats(); got != (Stats{}) || writer.On() {
		t.Errorf("stats %+v", got)
	}
	ledgertest.WriteDSN(t, file, server.DSN(ledgertest.Writer, "sless"))
	eventually(t, "it is on", writer.On)
	writer.write(10)
	eventually(t, "they are written", func() bool { return rows(t, server) == 10 })

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is off", func() bool { return !writer.On() && !writer.Stats().Up })
	if got := writer.Stats(); writer.logs.String() != "" || got.Dropped != 0 || got.Queue != 0 {
		t.Errorf("stats %+v, log %s", got, writer.logs)
	}
}

// TestWriterLosesTheOldest holds what happens when the database is away for longer than the queue has room.
func TestWriterLosesTheOldest(t *testing.T) {
	t.Parallel()
	server := prepared(t)
	file := server.File(t, ledgertest.Writer)
	server.Kill(t)
	writer := startWriter(t, file, 100)
	eventually(t, "it says that the database is away", func() bool { return writer.logs.count("ERROR") == 1 })
	writer.write(1000)
	server.Up(t)
	eventually(t, "the rest is written", func() bool { return rows(t, server) == 100 })
	if got := droppedInRows(t, server); got != 900 || writer.Stats().Dropped != 900 {
		t.Errorf("the rows tell of %d lost, the metric of %d", got, writer.Stats().Dropped)
	}
	if got := server.Query(t, "select id from sless.invocations order by id limit 1"); got[0] != "id-0900" {
		t.Errorf("the oldest row is %s", got)
	}
	eventually(t, "it says that all is well, and what was lost", func() bool { return strings.Contains(writer.logs.String(), "lost=900") })
	if writer.logs.count("ERROR") != 1 {
		t.Errorf("log:\n%s", writer.logs)
	}
}

// TestWriterFaults holds for each fault that writing waits for nobody, that the log has one line of it, and that all is written when it is mended.
func TestWriterFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		name string
		// says is a word of the line in the log.
		says  string
		begin func(*testing.T, *ledgertest.Server, *running) (mend func())
	}{
		{"killed", "", func(t *testing.T, server *ledgertest.Server, _ *running) func() {
			server.Kill(t)
			return func() { server.Up(t) }
		}},
		{"wrong password", "password authentication failed", func(t *testing.T, server *ledgertest.Server, w *running) func() {
			ledgertest.WriteDSN(t, w.file, strings.Replace(server.DSN(ledgertest.Writer, "sless"), ":sless_writer@", ":wrong@", 1))
			return func() { ledgertest.WriteDSN(t, w.file, server.DSN(ledgertest.Writer, "sless")) }
		}},
		{"newer schema", "newer release", func(t *testing.T, server *ledgertest.Server, w *running) func() {
			server.Exec(t, ledgertest.Owner, "sless", "insert into sless.schema_versions values (99)")
			return func() {
				server.Exec(t, ledgertest.Owner, "sless", "delete from sless.schema_versions where version = 99")
			}
		}},
		{"refused", "permission denied", func(t *testing.T, server *ledgertest.Server, w *running) func() {
			server.Exec(t, ledgertest.Owner, "sless", "revoke insert on sless.invocations from sless_writer")
			return func() { server.Exec(t, ledgertest.Owner, "sless", "grant insert on sless.invocations to sless_writer") }
		}},
		{"full disk", "No space left", func(t *testing.T, server *ledgertest.Server, w *running) func() {
			// What a client sees of it is an error of this code.
			server.Exec(t, ledgertest.Owner, "sless",
				`create function sless.full() returns trigger language plpgsql as $$ begin
					raise exception 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$`,
				"create trigger full_disk before insert on sless.invocations for each row execute function sless.full()")
			return func() { server.Exec(t, ledgertest.Owner, "sless", "drop trigger full_disk on sless.invocations") }
		}},
		{"locked table", "", func(t *testing.T, server *ledgertest.Server, w *running) func() {
			c := server.Connect(t, ledgertest.Owner, "sless")
			tx, err := c.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "lock table sless.invocations in access exclusive mode"); err != nil {
				t.Fatal(err)
			}
			return func() { c.Close(context.Background()) }
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			server := prepared(t)
			writer := startWriter(t, server.File(t, ledgertest.Writer), 0)
			writer.write(100)
			eventually(t, "the first are written", func() bool { return rows(t, server) == 100 })
			mend := fault.begin(t, server, writer)
			eventually(t, "trouble", func() bool {
				writer.write(10) // under load
				return !writer.Stats().Up
			})
			// Some tries later it has said no more than once.
			for range 5 {
				writer.write(10)
				time.Sleep(500 * time.Millisecond)
			}
			if log := writer.logs.String(); writer.logs.count("ERROR") != 1 || !strings.Contains(log, fault.says) || strings.Contains(log, "postgres://") {
				t.Errorf("log:\n%s", log)
			}
			mend()
			eventually(t, "all are written", func() bool { return rows(t, server) == writer.sent })
			// The rows are there before the writer has counted them and said so.
			eventually(t, "it is up", func() bool { return writer.Stats().Up && writer.logs.count("INFO") == 1 })
			eventually(t, "all are counted", func() bool { return writer.Stats().Written == uint64(writer.sent) })
			if got := writer.Stats(); got.Dropped != 0 || writer.logs.count("ERROR") != 1 || writer.logs.count("INFO") != 1 {
				t.Errorf("%d sent, stats %+v, log:\n%s", writer.sent, got, writer.logs)
			}
		})
	}
}

// TestRecordsThatTheDatabaseRefuses holds that they take no others with them, and that the next row tells of them.
func TestRecordsThatTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	server := prepared(t)
	writer := startWriter(t, server.File(t, ledgertest.Writer), 0)
	now := time.Now()
	for i := range 10 {
		r := sample(i, now)
		switch i {
		case 2, 3:
			r.Started = now.AddDate(1, 0, 0) // no partition
		case 5:
			r.NamespaceUID = "" // no UUID
		case 7:
			r = sample(6, now) // twice
		}
		writer.Write(&r)
	}
	eventually(t, "the others are written", func() bool { return rows(t, server) == 6 })
	eventually(t, "the refused are counted", func() bool { return writer.Stats().Dropped == 3 && droppedInRows(t, server) == 3 })
	eventually(t, "it is said", func() bool { return writer.logs.count("ERROR") > 0 })
	if writer.logs.count("ERROR") != 1 {
		t.Errorf("log:\n%s", writer.logs)
	}
}

// TestALastTimeIsBounded holds that a program that ends does not wait for a database that is away.
func TestALastTimeIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// Nobody listens there, which is known at once.
		file := ledgertest.WriteDSN(t, filepath.Join(t.TempDir(), "dsn"), "host="+t.TempDir()+" user=none")
		writer := startWriter(t, file, 0)
		writer.write(5)
		writer.stop()
		if got := writer.Stats(); got.Dropped != 5 || !strings.Contains(writer.logs.String(), "records=5") {
			t.Errorf("stats %+v, log %s", got, writer.logs)
		}
	})
}
