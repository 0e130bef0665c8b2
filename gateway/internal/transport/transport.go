// Package transport carries requests that have little or no body to pods, over HTTP/1.1, in the goroutine of the caller.
//
// http.Transport has two goroutines for each connection, so that a request can still be sent while its answer comes, and hands every request from one to the
// other and back. Most requests don't need that, and it is a quarter of what a proxied request costs. This package speaks the same protocol by the same means
// of net/http (Request.Write, ReadResponse) without them. What it can't do goes over http.Transport.
package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
)

// Transport sends requests that it can send, and leaves the others to Other.
type Transport struct {
	// Other carries what needs more: long bodies and changes of protocol. Connections are made as it makes them.
	Other *http.Transport

	idle pool
}

// New returns a Transport beside another, with as many idle connections, for as long.
func New(other *http.Transport) *Transport {
	return &Transport{Other: other, idle: pool{
		conns: map[string][]*conn{}, perHost: other.MaxIdleConnsPerHost, most: other.MaxIdleConns, timeout: other.IdleConnTimeout,
	}}
}

// CloseIdleConnections closes connections that no request uses.
func (t *Transport) CloseIdleConnections() {
	t.idle.close()
	t.Other.CloseIdleConnections()
}

// mostBytes is the longest body that is sent whole before the answer is read: what fits into the connection's buffers in any case.
const mostBytes = 64 << 10

// suits says whether a request can be sent whole before its answer is read. GetBody is the sign of a body that is in memory.
func suits(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody && (r.GetBody == nil || r.ContentLength <= 0 || r.ContentLength > mostBytes) {
		return false
	}
	return r.URL.Scheme == "http" && r.Header["Upgrade"] == nil && r.Header["Expect"] == nil
}

// RoundTrip sends a request and returns the answer's head.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !suits(r) {
		return t.Other.RoundTrip(r)
	}
	for {
		c := t.idle.get(r.URL.Host)
		reused := c != nil
		if !reused {
			var err error
			if c, err = t.dial(r.Context(), r.URL.Host); err != nil {
				return nil, err
			}
		}
		response, err := c.exchange(r)
		if err == nil {
			return response, nil
		}
		c.Close()
		// A connection that was kept may end just when it is used again. Only what may run twice is sent twice, and only when not a byte of an
		// answer has come.
		if !reused || c.answered || r.Context().Err() != nil || !repeatable(r) {
			return nil, err
		}
	}
}

func (t *Transport) dial(ctx context.Context, address string) (*conn, error) {
	dialed, err := t.Other.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return newConn(dialed, address, &t.idle, t.Other.MaxResponseHeaderBytes), nil
}

// repeatable says what HTTP says: methods that are safe, and whatever has an Idempotency-Key.
func repeatable(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return r.Header["Idempotency-Key"] != nil || r.Header["X-Idempotency-Key"] != nil
}

// maxInformational is how many informational heads may come before the real one.
const maxInformational = 16

// exchange sends a request and reads the head of the answer. The connection goes back to the pool when the body has been read.
func (c *conn) exchange(r *http.Request) (*http.Response, error) {
	c.answered = false
	stop := context.AfterFunc(r.Context(), c.interrupt)
	fail := func(err error) (*http.Response, error) {
		stop()
		if cause := r.Context().Err(); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	if err := r.Write(c.writer); err != nil {
		return fail(fmt.Errorf("send to %s: %w", c.address, err))
	}
	if err := c.writer.Flush(); err != nil {
		return fail(fmt.Errorf("send to %s: %w", c.address, err))
	}
	response, err := c.readHead(r)
	if err != nil {
		return fail(fmt.Errorf("answer of %s: %w", c.address, err))
	}
	body := &body{ReadCloser: response.Body, conn: c, stop: stop, keep: !response.Close}
	if response.Body == http.NoBody {
		body.end(true)
		return response, nil
	}
	response.Body = body
	return response, nil
}

var errProtocol = errors.New("protocol changed unasked")

func (c *conn) readHead(r *http.Request) (*http.Response, error) {
	for range maxInformational {
		c.left = c.maxHead
		response, err := http.ReadResponse(c.reader, r)
		if err != nil {
			return nil, err
		}
		c.left = unbounded
		switch {
		case response.StatusCode == http.StatusSwitchingProtocols:
			return nil, errProtocol
		case response.StatusCode >= 200:
			return response, nil
		}
		if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.Got1xxResponse != nil {
			if err := trace.Got1xxResponse(response.StatusCode, textproto.MIMEHeader(response.Header)); err != nil {
				return nil, err
			}
		}
	}
	return nil, errors.New("too many informational heads")
}

// body is an answer's body. Its end, or its being closed, gives the connection back.
type body struct {
	io.ReadCloser
	conn *conn
	stop func() bool
	keep bool
	done bool
}

// Read reads on.
func (b *body) Read(p []byte) (int, error) {
	if b.done {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(err == io.EOF)
	}
	return n, err
}

// Close gives up what has not been read.
func (b *body) Close() error {
	b.end(false)
	return nil
}

// end gives the connection back, or closes it.
func (b *body) end(whole bool) {
	if b.done {
		return
	}
	b.done = true
	// When the interruption has begun already, the connection may be cut under whoever gets it next.
	if interrupted := !b.stop(); interrupted || !whole || !b.keep || b.conn.reader.Buffered() > 0 {
		b.conn.Close()
		return
	}
	b.conn.idle.put(b.conn)
}
