package proxy

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// live returns the body of an answer, every part of which is a sign of life.
func (c *call) live(response *http.Response) io.ReadCloser {
	d := download{ReadCloser: response.Body, watchdog: &c.watchdog, limit: c.spec.Timeout + grace}
	if writer, ok := response.Body.(io.Writer); ok && response.StatusCode == http.StatusSwitchingProtocols {
		return &tunnel{download: d, writer: writer, buffers: c.gateway.buffers}
	}
	return &d
}

// download is a pod's answer on its way to the caller.
type download struct {
	io.ReadCloser
	watchdog *watchdog
	limit    time.Duration
}

// Read reads on.
func (d *download) Read(buffer []byte) (int, error) {
	n, err := d.ReadCloser.Read(buffer)
	if n > 0 {
		d.watchdog.set(streaming, d.limit)
	}
	return n, err
}

// tunnel is a connection that has changed protocol. What the caller sends is a sign of life as well.
type tunnel struct {
	download
	writer  io.Writer
	buffers *bufferPool
}

// WriteTo passes on what the pod sends.
func (t *tunnel) WriteTo(caller io.Writer) (int64, error) {
	return pump(caller, &t.download, t.buffers)
}

// Write passes on what the caller sends.
func (t *tunnel) Write(part []byte) (int, error) {
	t.watchdog.set(streaming, t.limit)
	return t.writer.Write(part)
}

// CloseWrite passes on that the caller will send no more.
func (t *tunnel) CloseWrite() error {
	if half, ok := t.writer.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
