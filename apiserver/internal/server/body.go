package server

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// minBodyRate is the slowest that a body may come on average, in bytes a second, after a time of grace.
const minBodyRate = 16 << 10

// pacedBody reads a body whose parts must keep coming: each within idle, and all of it not slower than minBodyRate. It ends with
// os.ErrDeadlineExceeded otherwise.
type pacedBody struct {
	io.ReadCloser
	control *http.ResponseController
	idle    time.Duration
	started time.Time
	read    int64
	ended   bool
}

func newPacedBody(w http.ResponseWriter, r *http.Request, idle time.Duration) *pacedBody {
	return &pacedBody{ReadCloser: r.Body, control: http.NewResponseController(w), idle: idle}
}

// Read implements io.Reader.
func (b *pacedBody) Read(into []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	now := time.Now()
	if b.started.IsZero() {
		b.started = now
	}
	deadline := now.Add(b.idle)
	if slowest := b.started.Add(2*b.idle + time.Duration(float64(b.read)/minBodyRate*float64(time.Second))); slowest.Before(deadline) {
		deadline = slowest
	}
	// A writer that has no deadlines is a test's; there the body ends by itself.
	_ = b.control.SetReadDeadline(deadline)
	n, err := b.ReadCloser.Read(into)
	b.read += int64(n)
	if errors.Is(err, io.EOF) {
		b.ended = true
		_ = b.control.SetReadDeadline(time.Time{}) // or a long answer would end with it
	}
	return n, err
}

// finish bounds the time in which the server reads what the handler has left of the body.
func (b *pacedBody) finish() {
	if !b.ended {
		_ = b.control.SetReadDeadline(time.Now().Add(time.Second))
	}
}
