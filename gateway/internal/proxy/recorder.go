package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// recorder is the caller's ResponseWriter. It notes what is answered and puts on it what every answer has.
type recorder struct {
	http.ResponseWriter
	call   *call
	status int
	bytes  int64
	// last says that the connection is to be closed after this answer.
	last bool
	// hijacked is the caller's connection once it has changed protocol.
	hijacked atomic.Pointer[net.Conn]
}

// WriteHeader sends the head. Informational heads may come before the real one.
func (r *recorder) WriteHeader(status int) {
	if status >= http.StatusOK && r.status == 0 {
		r.status = status
		h := r.Header()
		h.Set("X-Request-Id", r.call.id)
		if r.last || r.call.gateway.draining.Load() {
			h.Set("Connection", "close")
		}
		if r.call.gateway.ServerTiming {
			h.Add("Server-Timing", r.call.serverTiming())
		}
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body.
func (r *recorder) Write(part []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	n, err := r.ResponseWriter.Write(part)
	r.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach what is beneath.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Hijack gives the connection away, to a protocol such as WebSocket.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.status = http.StatusSwitchingProtocols
		r.hijacked.Store(&conn)
		conn = &callerConn{Conn: conn, first: buffer.Reader, buffers: r.call.gateway.buffers}
	}
	return conn, buffer, err
}

// callerConn is the caller's connection after it has changed protocol. What a caller has sent already that did not wait for that is in the
// server's buffer, at which ReverseProxy does not look.
type callerConn struct {
	net.Conn
	first   *bufio.Reader
	buffers *bufferPool
}

// Read reads what came first, then what comes.
func (c *callerConn) Read(part []byte) (int, error) {
	if n := c.first.Buffered(); n > 0 {
		return c.first.Read(part[:min(n, len(part))])
	}
	return c.Conn.Read(part)
}

// WriteTo passes on what the caller sends.
func (c *callerConn) WriteTo(pod io.Writer) (int64, error) {
	return pump(pod, struct{ io.Reader }{c}, c.buffers)
}

// CloseWrite says that no more will be sent.
func (c *callerConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// interruptRead makes a Read of the caller's body that is under way return. Cancelling a context does not.
func (r *recorder) interruptRead() {
	_ = http.NewResponseController(r.ResponseWriter).SetReadDeadline(past)
}

// interrupt makes a Read or Write of the caller's connection that is under way return.
func (r *recorder) interrupt() {
	if conn := r.hijacked.Load(); conn != nil {
		_ = (*conn).Close()
		return
	}
	r.interruptRead()
	_ = http.NewResponseController(r.ResponseWriter).SetWriteDeadline(past)
}

var past = time.Unix(1, 0)
