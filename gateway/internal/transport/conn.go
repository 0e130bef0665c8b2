package transport

import (
	"bufio"
	"errors"
	"math"
	"net"
	"sync"
	"syscall"
	"time"
)

const unbounded = math.MaxInt64

// conn is a connection to a pod. One request uses it at a time.
type conn struct {
	net.Conn
	address string
	idle    *pool
	raw     syscall.RawConn
	reader  *bufio.Reader
	writer  *bufio.Writer
	// left is how many bytes may still be read, which bounds the head of an answer; maxHead is what it begins with.
	left, maxHead int64
	// answered says that a byte of the present answer has come.
	answered bool
	since    time.Time
}

func newConn(dialed net.Conn, address string, idle *pool, maxHead int64) *conn {
	c := &conn{Conn: dialed, address: address, idle: idle, left: unbounded, maxHead: maxHead}
	if raw, ok := dialed.(syscall.Conn); ok {
		c.raw, _ = raw.SyscallConn()
	}
	c.reader, c.writer = bufio.NewReader(c), bufio.NewWriter(dialed)
	return c
}

var errHeadTooLarge = errors.New("head too large")

// Read reads from the pod.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeadTooLarge
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.answered = true
	}
	if c.left != unbounded {
		c.left -= int64(n)
	}
	return n, err
}

// interrupt makes whatever waits for the pod return.
func (c *conn) interrupt() { _ = c.SetDeadline(time.Unix(1, 0)) }

// silent says that a connection is open and nothing has come over it: what comes while no request waits is the end, or nothing that one can trust.
func (c *conn) silent() bool {
	if c.raw == nil {
		return true
	}
	silent := false
	err := c.raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = err == syscall.EAGAIN
		return true
	})
	return err == nil && silent
}

// pool keeps idle connections by address.
type pool struct {
	perHost, most int
	timeout       time.Duration

	// mu guards the rest.
	mu    sync.Mutex
	conns map[string][]*conn // the latest last
	count int
	sweep *time.Timer
}

// get returns the connection used last, or nil.
func (p *pool) get(address string) *conn {
	for {
		c := p.take(address)
		if c == nil || c.silent() {
			return c
		}
		c.Close()
	}
}

func (p *pool) take(address string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	conns := p.conns[address]
	if len(conns) == 0 {
		return nil
	}
	c := conns[len(conns)-1]
	conns[len(conns)-1] = nil
	p.conns[address] = conns[:len(conns)-1]
	p.count--
	return c
}

// put keeps a connection, if there is room for it.
func (p *pool) put(c *conn) {
	c.since = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count >= p.most || len(p.conns[c.address]) >= p.perHost {
		c.Close()
		return
	}
	p.conns[c.address] = append(p.conns[c.address], c)
	p.count++
	if p.sweep == nil {
		p.sweep = time.AfterFunc(p.timeout, p.closeOld)
	}
}

// closeOld closes what has been idle for too long, and comes again while there is anything left.
func (p *pool) closeOld() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep = nil
	oldest := time.Now().Add(-p.timeout)
	for address, conns := range p.conns {
		old := 0
		for old < len(conns) && !conns[old].since.After(oldest) {
			conns[old].Close()
			old++
		}
		p.count -= old
		if old == len(conns) {
			delete(p.conns, address)
		} else {
			p.conns[address] = append([]*conn(nil), conns[old:]...)
		}
	}
	if p.count > 0 {
		p.sweep = time.AfterFunc(p.timeout/2, p.closeOld)
	}
}

// close closes everything that is idle.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conns := range p.conns {
		for _, c := range conns {
			c.Close()
		}
	}
	clear(p.conns)
	p.count = 0
	if p.sweep != nil {
		p.sweep.Stop()
		p.sweep = nil
	}
}
