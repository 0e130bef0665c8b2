package ledger

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// WriterOptions say where records go.
type WriterOptions struct {
	// DSNFile has the connection string of a role that may insert. Without the file, nothing is kept; it may come and go.
	DSNFile string
	// Log gets a line when the database can't be written to, and one when it can again. Default slog.Default().
	Log *slog.Logger
	// Capacity is how many records wait at most. Default 65536.
	Capacity int
}

const (
	defaultCapacity = 65536
	// batchSize is how many records are written together, and flushEvery how long they wait to be that many.
	batchSize  = 2000
	flushEvery = time.Second
	// writePatience is how long the database may take for a batch.
	writePatience = 10 * time.Second
	// firstBackoff is the wait after the first failure; it doubles up to mostBackoff.
	firstBackoff = 500 * time.Millisecond
	mostBackoff  = 15 * time.Second
	// lookEvery is how often the file is read when nothing else calls for it: to find that it came, went or changed.
	lookEvery = 5 * time.Second
	// farewell is how long the last records may take to be written.
	farewell = 5 * time.Second
)

// Writer takes records and writes them together, beside whatever the program does. A nil Writer takes nothing.
type Writer struct {
	options WriterOptions
	queue   ring
	// full says that a batch is.
	full    chan struct{}
	on, up  atomic.Bool
	written atomic.Uint64
}

// NewWriter returns a writer, which writes once Run runs.
func NewWriter(options WriterOptions) *Writer {
	if options.Log == nil {
		options.Log = slog.Default()
	}
	if options.Capacity == 0 {
		options.Capacity = defaultCapacity
	}
	w := &Writer{options: options, queue: ring{capacity: options.Capacity}, full: make(chan struct{}, 1)}
	w.look()
	return w
}

// On says whether records are kept: there is a connection string. Whoever has to gather what a record says asks first.
func (w *Writer) On() bool { return w != nil && w.on.Load() }

// Write takes a copy of a record. It waits for nobody: when there is no room, the oldest record is lost.
func (w *Writer) Write(r *Record) {
	if !w.On() {
		return
	}
	if w.queue.push(r) == min(batchSize, w.queue.capacity) {
		select {
		case w.full <- struct{}{}:
		default:
		}
	}
}

// Stats is what a Writer has done.
type Stats struct {
	// Written and Dropped count records since the start.
	Written, Dropped uint64
	// Queue is how many wait.
	Queue int
	// Up says that the last attempt to write came off; false also while nothing is to be kept.
	Up bool
}

// Stats returns what the Writer has done so far.
func (w *Writer) Stats() Stats {
	if w == nil {
		return Stats{}
	}
	queue, dropped := w.queue.stats()
	return Stats{Written: w.written.Load(), Dropped: dropped, Queue: queue, Up: w.up.Load()}
}

// look finds out whether there is a connection string. What can't be read is one: it may be mended.
func (w *Writer) look() {
	_, err := readDSN(w.options.DSNFile)
	w.on.Store(!errors.Is(err, ErrOff))
}

// Run writes until ctx ends, and then for a few seconds more what is left.
func (w *Writer) Run(ctx context.Context) {
	s := session{writer: w, batch: make([]Record, 0, batchSize)}
	defer s.hangUp()
	flush := time.NewTicker(flushEvery)
	defer flush.Stop()
	for looked := time.Now(); ; {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
			defer cancel()
			s.finish(last)
			return
		case <-flush.C:
		case <-w.full:
		}
		if time.Since(looked) >= lookEvery {
			looked = time.Now()
			s.look(ctx)
		}
		s.flush(ctx)
	}
}

// session is what Run has between batches.
type session struct {
	writer *Writer
	conn   *pgx.Conn // nil while there is none
	dsn    string    // what conn was made with
	batch  []Record  // what is being written
	// lost is how many were lost just before the batch.
	lost int
	// wait is the last backoff, and until when it lasts.
	wait  time.Duration
	until time.Time
	// trouble is what was said last about the database; empty while it is well.
	trouble       string
	droppedBefore uint64
}

func (s *session) hangUp() {
	if s.conn != nil {
		hangUp(s.conn)
		s.conn = nil
	}
}

// look turns the writer on and off with its file, and lets go of a connection whose string has changed or that no longer answers.
func (s *session) look(ctx context.Context) {
	s.writer.look()
	config, err := readDSN(s.writer.options.DSNFile)
	switch {
	case !s.writer.On():
		s.hangUp()
		s.writer.queue.clear()
		s.writer.up.Store(false)
		s.batch, s.lost, s.trouble, s.until, s.wait = s.batch[:0], 0, "", time.Time{}, 0
	case s.conn == nil:
	case err != nil || config.ConnString() != s.dsn:
		s.hangUp()
	default:
		ctx, cancel := context.WithTimeout(ctx, writePatience)
		defer cancel()
		if err := checkVersion(ctx, s.conn); err != nil {
			s.hangUp() // and the next connection finds out what there is to say
		}
	}
}

// flush writes all that waits, unless the database had trouble a moment ago.
func (s *session) flush(ctx context.Context) {
	if !s.writer.On() || time.Now().Before(s.until) {
		return
	}
	for ctx.Err() == nil {
		connected := s.conn != nil
		err := s.next(ctx)
		if err != nil && connected && !errors.Is(err, context.DeadlineExceeded) {
			err = s.next(ctx) // by another connection: that this one broke need mean nothing
		}
		if err != nil {
			if ctx.Err() == nil {
				s.fail(err)
			}
			return
		}
		if count, _ := s.writer.queue.stats(); count < batchSize {
			return
		}
	}
}

// finish writes what is left, as far as it can, and counts the rest as lost.
func (s *session) finish(ctx context.Context) {
	for ctx.Err() == nil && s.writer.On() {
		if err := s.next(ctx); err != nil {
			break
		}
		if count, _ := s.writer.queue.stats(); count == 0 {
			return
		}
	}
	count, _ := s.writer.queue.stats()
	if lost := count + len(s.batch); lost > 0 {
		s.writer.queue.lose(lost)
		s.writer.options.Log.Warn("the last records of what ran are lost", "records", lost)
	}
}

// next writes a batch: the one that failed before, or the oldest records.
func (s *session) next(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writePatience)
	defer cancel()
	if s.conn == nil {
		config, err := readDSN(s.writer.options.DSNFile)
		if err != nil {
			return err
		}
		if s.conn, err = connect(ctx, config); err != nil {
			return err
		}
		s.dsn = config.ConnString()
	}
	if len(s.batch) == 0 {
		if s.batch = s.writer.queue.pop(s.batch); len(s.batch) > 0 {
			s.batch[0].Dropped += s.lost
			s.lost = 0
		}
	}
	if len(s.batch) > 0 {
		if err := s.write(ctx); err != nil {
			s.hangUp()
			return err
		}
	}
	s.recovered()
	return nil
}

// write writes the batch and empties it.
func (s *session) write(ctx context.Context) error {
	err := copyRecords(ctx, s.conn, s.batch)
	if isData(err) {
		return s.writeEach(ctx)
	}
	if err != nil {
		return err
	}
	s.writer.written.Add(uint64(len(s.batch)))
	s.batch = s.batch[:0]
	return nil
}

// writeEach writes the records of a batch one by one, because one of them can't be, or some are there already: of a batch whose
// connection broke it is not known whether it was written.
func (s *session) writeEach(ctx context.Context) error {
	var refused error
	for i := range s.batch {
		r := &s.batch[i]
		r.Dropped += s.lost
		s.lost = 0
		err := insertRecord(ctx, s.conn, r)
		switch {
		case err == nil:
			s.writer.written.Add(1)
		case isData(err):
			s.writer.queue.lose(1)
			s.lost = r.Dropped + 1
			refused = err
		default:
			s.batch = append(s.batch[:0], s.batch[i:]...)
			return err
		}
	}
	s.batch = s.batch[:0]
	if refused != nil {
		s.writer.options.Log.Error("the database refuses records of what ran", "error", refused)
	}
	return nil
}

// fail notes that the database has trouble, and says so once for each kind of it.
func (s *session) fail(err error) {
	if errors.Is(err, ErrOff) {
		return // the next look turns the writer off
	}
	s.wait = min(max(2*s.wait, firstBackoff), mostBackoff)
	s.until = time.Now().Add(s.wait/2 + rand.N(s.wait/2))
	s.writer.up.Store(false)
	if s.trouble == "" {
		_, s.droppedBefore = s.writer.queue.stats()
	}
	if kind := kindOf(err); kind != s.trouble {
		s.trouble = kind
		s.writer.options.Log.Error("what runs can't be written to the ledger; requests go on as ever, and it is tried again", "error", err)
	}
}

// recovered notes that the database is well.
func (s *session) recovered() {
	s.writer.up.Store(true)
	s.wait, s.until = 0, time.Time{}
	if s.trouble != "" {
		_, dropped := s.writer.queue.stats()
		s.writer.options.Log.Info("the ledger is written to again", "lost", dropped-s.droppedBefore)
		s.trouble = ""
	}
}

// isData says whether an error is about the records, and not the database: another try would end in the same way.
func isData(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (refused.Code[:2] == dataException || refused.Code[:2] == integrityViolation)
}

// kindOf tells kinds of trouble apart, each of which is worth a line.
func kindOf(err error) string {
	switch refused, ok := errors.AsType[*pgconn.PgError](err); {
	case errors.Is(err, ErrOff):
		return "off"
	case errors.Is(err, ErrNewer):
		return "newer"
	case errors.Is(err, ErrOlder):
		return "older"
	case ok && refused.Code[:2] != operatorIntervention:
		return refused.Code
	}
	return "away"
}
