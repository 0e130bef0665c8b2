// Package access writes the access log: a JSON line for each request.
package access

import (
	"encoding/json"
	"io"
	"strconv"
	"sync"
	"time"
)

const (
	// flushBytes is how much is gathered before it is written, and flushEvery how long it may wait for that. A write for each request would
	// cost as much as the rest of the log.
	flushBytes = 32 << 10
	flushEvery = 100 * time.Millisecond
)

// Line is one request. It never has a query, a header or a body: those are the tenant's and their callers' secrets.
type Line struct {
	Time   time.Time
	ID     string
	Method string
	Path   string
	Status int
	// Bytes are those of the answer's body.
	Bytes  int64
	Took   time.Duration
	Client string
	// Code is the gateway's, or that of an answer which the runtime made itself.
	Code string
}

// Log gathers lines and writes them together. What it can't write is lost: a request does not fail for want of a log.
type Log struct {
	out io.Writer

	// mu guards the rest.
	mu     sync.Mutex
	buffer []byte
	flush  *time.Timer
}

// New returns a Log that writes to out. Whoever made it calls Flush in the end.
func New(out io.Writer) *Log {
	l := &Log{out: out, buffer: make([]byte, 0, flushBytes+4<<10)}
	l.flush = time.AfterFunc(time.Hour, l.Flush)
	l.flush.Stop()
	return l
}

// Write adds a line.
func (l *Log) Write(line *Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buffer) == 0 {
		l.flush.Reset(flushEvery)
	}
	l.buffer = line.append(l.buffer)
	if len(l.buffer) >= flushBytes {
		l.write()
	}
}

// Flush writes what is gathered.
func (l *Log) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write()
}

func (l *Log) write() {
	l.flush.Stop()
	if len(l.buffer) > 0 {
		_, _ = l.out.Write(l.buffer)
		l.buffer = l.buffer[:0]
	}
}

// append appends the line in the form of the program's other log lines.
func (l *Line) append(b []byte) []byte {
	b = append(b, `{"time":"`...)
	b = l.Time.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","level":"INFO","msg":"request","request_id":`...)
	b = appendString(b, l.ID)
	b = append(b, `,"method":`...)
	b = appendString(b, l.Method)
	b = append(b, `,"path":`...)
	b = appendString(b, l.Path)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(l.Status), 10)
	b = append(b, `,"bytes":`...)
	b = strconv.AppendInt(b, l.Bytes, 10)
	b = append(b, `,"seconds":`...)
	b = strconv.AppendFloat(b, l.Took.Seconds(), 'f', 6, 64)
	b = append(b, `,"client":`...)
	b = appendString(b, l.Client)
	b = append(b, `,"code":`...)
	b = appendString(b, l.Code)
	return append(b, "}\n"...)
}

// appendString appends a JSON string.
func appendString(b []byte, s string) []byte {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string always encodes
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
