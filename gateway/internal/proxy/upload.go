package proxy

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// keepBytes is the largest body that is kept to be sent again; spareBytes bounds all that are kept at a time.
	keepBytes  = 64 << 10
	spareBytes = 64 << 20
	// smallBytes is the largest body that is kept in any case. It costs less to send than one that is read on the way: Transport writes head and
	// body at once.
	smallBytes = 8 << 10
	// slowestBytes is how many bytes a second a body must have on average, besides BodyTimeout for its start: a caller that sends a byte
	// now and then would hold a pod's place for ever.
	slowestBytes = 1 << 10
)

var (
	errTooLarge  = errors.New("body over the limit")
	errTakenBack = errors.New("body taken back")
	errIdle      = errors.New("nothing came for as long as the function's time-out")
)

// upload is the caller's body. ReverseProxy's Transport reads it through an attempt, of which only the last is valid.
type upload struct {
	call   *call
	source io.ReadCloser
	limit  int64
	began  time.Time

	read     atomic.Int64 // what is read when the call has ended may still come in
	reading  atomic.Bool
	tooLarge atomic.Bool
	broken   atomic.Bool

	// kept is the whole body, when it was small enough to be kept.
	kept []byte
	size int64

	// mu guards attempt.
	mu      sync.Mutex
	attempt *attempt
}

// attempt is the body as one round trip sees it.
type attempt struct {
	upload *upload
	// started says that a byte may have been read; revoked that none may be any more. The upload's mutex guards both.
	started, revoked bool
}

// Read reads on, unless the body has been taken back.
func (a *attempt) Read(buffer []byte) (int, error) {
	a.upload.mu.Lock()
	revoked := a.revoked
	a.started = a.started || !revoked
	a.upload.mu.Unlock()
	if revoked {
		return 0, errTakenBack
	}
	return a.upload.Read(buffer)
}

// Close does nothing: the server closes the caller's body, and Transport would do it after a connection that could not be made.
func (a *attempt) Close() error { return nil }

// Read reads the caller's body within its limits of size and time. Only one goroutine reads at a time.
func (u *upload) Read(buffer []byte) (int, error) {
	u.call.watchdog.set(uploading, u.patience())
	u.reading.Store(true)
	n, err := u.source.Read(buffer)
	u.reading.Store(false)
	if u.read.Add(int64(n)) > u.limit {
		u.tooLarge.Store(true)
		n, err = 0, errTooLarge
	} else if err != nil && err != io.EOF {
		u.broken.Store(true)
	}
	u.call.watchdog.set(answering, u.call.spec.Timeout+grace)
	return n, err
}

// patience is how long the next part may take.
func (u *upload) patience() time.Duration {
	most := u.call.gateway.BodyTimeout
	owed := u.began.Add(most + time.Duration(u.read.Load()/slowestBytes)*time.Second)
	return max(0, min(most, time.Until(owed)))
}

// bytes returns how much of the body the caller has sent.
func (u *upload) bytes() int64 {
	if u == nil {
		return 0
	}
	return u.read.Load()
}

// next returns the body for another round trip; nil when the request has none.
func (u *upload) next() io.ReadCloser {
	if u == nil {
		return nil
	}
	if u.kept != nil {
		return io.NopCloser(bytes.NewReader(u.kept)) // net/http knows this for what it is, and sends it together with the head
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.attempt = &attempt{upload: u}
	return u.attempt
}

// again returns what http.Request.GetBody is for: not nil says that the body is in memory.
func (u *upload) again() func() (io.ReadCloser, error) {
	if u == nil || u.kept == nil {
		return nil
	}
	return func() (io.ReadCloser, error) { return u.next(), nil }
}

// takeBack says whether the request can be sent again: it has no body, or all of it is kept, or nothing of it was read, and from now on nothing
// will be by the attempt before.
func (u *upload) takeBack() bool {
	if u == nil || u.kept != nil {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.attempt == nil {
		return true
	}
	if u.attempt.started {
		return false
	}
	u.attempt.revoked = true
	return true
}

// keep reads a body of known length, if it is no longer than most, into memory, so that it can be sent more than once, and so that the server sees when the
// caller goes away while the request waits (it looks only when the body has been read).
func (u *upload) keep(most int64) error {
	if u == nil || u.kept != nil || u.attempt != nil || u.size <= 0 || u.size > most {
		return nil
	}
	spare := &u.call.gateway.spare
	if spare.Add(-u.size) < 0 {
		spare.Add(u.size)
		return nil
	}
	kept := make([]byte, u.size)
	if _, err := io.ReadFull(u, kept); err != nil {
		spare.Add(u.size)
		u.broken.Store(true)
		return err
	}
	_, _ = u.Read(make([]byte, 1)) // the end, which starts the server's watch for a caller that goes away
	u.kept = kept
	return nil
}

// abandon ends all reading: when the call is over, Transport may not be done with the body.
func (u *upload) abandon() {
	if u == nil {
		return
	}
	u.mu.Lock()
	if u.attempt != nil {
		u.attempt.revoked = true
	}
	u.mu.Unlock()
	if u.reading.Load() {
		u.call.recorder.interruptRead()
	}
	if u.kept != nil {
		u.call.gateway.spare.Add(u.size)
		u.kept = nil
	}
}
