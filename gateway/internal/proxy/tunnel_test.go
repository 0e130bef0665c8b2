package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// echoTunnel changes protocol and then echoes lines. "bye" ends it.
func echoTunnel(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Sec-Websocket-Key") == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\nSless-Secret: x\r\n\r\n")
	for {
		line, err := buffer.ReadString('\n')
		if err != nil || line == "bye\n" {
			return
		}
		fmt.Fprint(conn, "echo "+line)
	}
}

// tunnel opens a tunnel to ns/f.
func (s *stack) tunnel() (net.Conn, *bufio.Reader, *http.Response) {
	s.Helper()
	conn, err := net.Dial("tcp", s.public.Listener.Addr().String())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(soon))
	fmt.Fprint(conn, "GET /fn/ns/f HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n")
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		s.Fatal(err)
	}
	check(s, "status", http.StatusSwitchingProtocols, response.StatusCode)
	return conn, reader, response
}

func (s *stack) exchange(conn net.Conn, reader *bufio.Reader) {
	s.Helper()
	fmt.Fprint(conn, "hello\n")
	line, err := reader.ReadString('\n')
	check(s, "echo", []any{"echo hello\n", nil}, []any{line, err})
}

func TestTunnel(t *testing.T) {
	s := newStack(t, "", nil)
	r := s.function("f", open(), s.pod(echoTunnel))
	conn, reader, response := s.tunnel()
	if response.Header.Get("Sless-Secret") != "" || len(response.Header["X-Request-Id"]) != 1 {
		t.Errorf("headers %v", response.Header)
	}
	s.exchange(conn, reader)
	if inFlight, _ := r.Pool.Load(); inFlight != 1 {
		t.Errorf("%d in flight", inFlight)
	}
	fmt.Fprint(conn, "bye\n")
	if _, err := reader.ReadByte(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	conn.Close()
	eventually(t, "the pod is let go", func() bool { n, _ := r.Pool.Load(); return n == 0 })
	eventually(t, "it is logged", func() bool {
		return strings.Contains(s.log.String(), `"status":101`) && strings.Contains(s.log.String(), `"code":""`)
	})
}

// TestTunnelOutlivesTheTimeout as long as something passes, in either direction, and is cut when nothing does.
func TestTunnelOutlivesTheTimeout(t *testing.T) {
	t.Parallel()
	s := newStack(t, "", nil)
	s.function("f", clocked(), s.pod(echoTunnel))
	conn, reader, _ := s.tunnel()
	for range parts {
		time.Sleep(pause)
		s.exchange(conn, reader)
	}
	if _, err := reader.ReadByte(); err == nil {
		t.Error("an idle tunnel says something")
	}
	eventually(t, "it is logged", func() bool { return strings.Contains(s.log.String(), `"code":"idle_timeout"`) })
}

func TestTunnelEndsWithItsCaller(t *testing.T) {
	s := newStack(t, "", nil)
	r := s.function("f", open(), s.pod(echoTunnel))
	conn, reader, _ := s.tunnel()
	s.exchange(conn, reader)
	conn.Close()
	eventually(t, "the pod is let go", func() bool { n, _ := r.Pool.Load(); return n == 0 })
}

// TestHastyCaller: what a caller sends before the protocol has changed is not lost.
func TestHastyCaller(t *testing.T) {
	s := newStack(t, "", nil)
	asked, sent := make(chan struct{}), make(chan struct{})
	s.function("f", open(), s.pod(func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-sent
		echoTunnel(w, r)
	}))
	conn, err := net.Dial("tcp", s.public.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(soon))
	fmt.Fprint(conn, "GET /fn/ns/f HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n")
	<-asked
	fmt.Fprint(conn, "hasty\n")
	// The server has taken a byte of it by now, or will; either way all of it has to come.
	time.Sleep(20 * time.Millisecond)
	close(sent)
	reader := bufio.NewReader(conn)
	if _, err := http.ReadResponse(reader, nil); err != nil {
		t.Fatal(err)
	}
	line, err := reader.ReadString('\n')
	check(t, "echo", []any{"echo hasty\n", nil}, []any{line, err})
	s.exchange(conn, reader)
}

// TestPump holds that what passes is exact, in small parts and in large ones, and that an idle direction holds no large buffer.
func TestPump(t *testing.T) {
	source, in := io.Pipe()
	out, sink := io.Pipe()
	buffers := newBufferPool()
	var lent atomic.Int32
	buffers.pool.New = func() any { lent.Add(1); return new([bufferBytes]byte) }
	done := make(chan error, 1)
	go func() {
		_, err := pump(sink, source, buffers)
		sink.CloseWithError(err)
		done <- err
	}()
	got := make(chan []byte)
	go func() {
		for {
			part := make([]byte, bufferBytes)
			n, err := out.Read(part)
			if err != nil {
				close(got)
				return
			}
			got <- part[:n]
		}
	}()
	for i, size := range []int{1, 100, idleBytes - 1, idleBytes, 3 * bufferBytes, 5, idleBytes + 1, 1} {
		sent := bytes.Repeat([]byte{byte(size)}, size)
		go func() { _, _ = in.Write(sent) }()
		var all []byte
		for len(all) < size {
			all = append(all, receive(t, "a part", got)...)
		}
		check(t, "what passed", sent, all)
		if i < 3 && lent.Load() != 0 {
			t.Errorf("a large buffer for %d bytes", size)
		}
	}
	in.Close()
	check(t, "end", error(nil), receive(t, "the end", done))
}
