package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naeel/sless/gateway/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// soon is how long a test waits for what must happen.
const soon = time.Minute

// pod answers connections as a script says: one function for each connection, in the order in which they come.
func pod(t *testing.T, scripts ...func(net.Conn, *bufio.Reader)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for _, script := range scripts {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			all.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(soon))
				script(conn, bufio.NewReader(conn))
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		for _, conn := range open {
			conn.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return listener.Addr().String()
}

// answers reads a request and answers it with a text, for each text.
func answers(texts ...string) func(net.Conn, *bufio.Reader) {
	return func(conn net.Conn, reader *bufio.Reader) {
		for _, text := range texts {
			request, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, request.Body)
			_, _ = io.WriteString(conn, text)
		}
	}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func newTransport(t *testing.T) *Transport {
	transport := New(&http.Transport{
		DialContext: (&net.Dialer{}).DialContext, MaxIdleConns: 10, MaxIdleConnsPerHost: 2, IdleConnTimeout: soon, MaxResponseHeaderBytes: 8 << 10,
	})
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

func request(t *testing.T, method, address, body string) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon/2)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+"/x", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// send sends a request and returns what came of it.
func send(t *testing.T, transport *Transport, r *http.Request) string {
	t.Helper()
	response, err := transport.RoundTrip(r)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(response.StatusCode, " ", string(text))
}

func want(t *testing.T, what, want, got string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestConnectionsAreKept(t *testing.T) {
	transport := newTransport(t)
	address := pod(t, answers(ok, "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", ok))
	want(t, "first", "200 ok", send(t, transport, request(t, "GET", address, "")))
	want(t, "nothing", "204 ", send(t, transport, request(t, "GET", address, "")))
	want(t, "HEAD", "200 ", send(t, transport, request(t, "HEAD", address, "")))
	want(t, "chunked", "200 ok", send(t, transport, request(t, "POST", address, "body")))
	want(t, "last", "200 ok", send(t, transport, request(t, "GET", address, "")))
	// All that over one connection: the pod takes no other.
}

// A pod that is on its way out closes what is idle. Nobody must lose a request by that.
func TestConnectionThatEndedIsNotUsed(t *testing.T) {
	transport := newTransport(t)
	closed := make(chan struct{})
	address := pod(t, func(conn net.Conn, reader *bufio.Reader) {
		answers(ok)(conn, reader)
		conn.Close()
		close(closed)
	}, answers(ok))
	want(t, "first", "200 ok", send(t, transport, request(t, "GET", address, "")))
	<-closed
	time.Sleep(20 * time.Millisecond) // the end is on its way through the loopback
	want(t, "second", "200 ok", send(t, transport, request(t, "POST", address, "body")))
}

// What comes unasked is not taken for the answer to the next request.
func TestUnaskedAnswer(t *testing.T) {
	transport := newTransport(t)
	said := make(chan struct{})
	address := pod(t, func(conn net.Conn, reader *bufio.Reader) {
		answers(ok)(conn, reader)
		_, _ = io.WriteString(conn, strings.Replace(ok, "ok", "no", 1))
		close(said)
		_, _ = reader.ReadByte()
	}, answers(ok, ok+ok), answers(ok))
	want(t, "first", "200 ok", send(t, transport, request(t, "GET", address, "")))
	<-said
	time.Sleep(20 * time.Millisecond)
	want(t, "second", "200 ok", send(t, transport, request(t, "GET", address, "")))
	want(t, "third, with more behind it", "200 ok", send(t, transport, request(t, "GET", address, "")))
	want(t, "fourth", "200 ok", send(t, transport, request(t, "GET", address, "")))
}

// A connection that was kept and breaks under a request: what may run twice is sent again, what may not is not.
func TestBrokenUnderARequest(t *testing.T) {
	breaks := func(conn net.Conn, reader *bufio.Reader) {
		answers(ok, "")(conn, reader)
	}
	for _, test := range []struct{ method, body, key, want string }{
		{"GET", "", "", "200 ok"}, {"POST", "", "k", "200 ok"}, {"POST", "", "", "EOF"}, {"PUT", "b", "", "EOF"}, {"GET", "b", "", "EOF"},
	} {
		transport := newTransport(t)
		address := pod(t, breaks, answers(ok))
		want(t, "first", "200 ok", send(t, transport, request(t, "GET", address, "")))
		r := request(t, test.method, address, test.body)
		if test.key != "" {
			r.Header.Set("Idempotency-Key", test.key)
		}
		want(t, test.method+" "+test.body, test.want, send(t, transport, r))
	}
	// Neither is anything of which an answer had begun, nor what broke a new connection.
	transport := newTransport(t)
	address := pod(t, answers(ok, "HTTP/1.1 2"), answers(ok))
	want(t, "first", "200 ok", send(t, transport, request(t, "GET", address, "")))
	want(t, "half a head", "malformed", send(t, transport, request(t, "GET", address, "")))
	want(t, "new connection", "EOF", send(t, transport, request(t, "GET", pod(t, answers(""), answers(ok)), "")))
}

func TestAnswersThatAreNone(t *testing.T) {
	for name, text := range map[string]string{
		"head too large": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n",
		"unasked":        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
		"informational":  strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100),
		"malformed":      "HTTP/1.1\r\n\r\n",
		"cut body":       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
	} {
		got := send(t, newTransport(t), request(t, "GET", pod(t, answers(text)), ""))
		if strings.HasPrefix(got, "200") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestInformationalHeadsAndTrailers(t *testing.T) {
	transport := newTransport(t)
	address := pod(t, answers("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n", ok))
	var hints []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		hints = append(hints, fmt.Sprint(code, header))
		return nil
	}})
	response, err := transport.RoundTrip(request(t, "GET", address, "").WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	want(t, "answer", "ok 7 <nil> [103 map[Link:[a]]]", fmt.Sprint(string(text), " ", response.Trailer.Get("X-Sum"), " ", err, " ", hints))
	want(t, "the connection is kept", "200 ok", send(t, transport, request(t, "GET", address, "")))
}

func TestCancel(t *testing.T) {
	for name, text := range map[string]string{"before the head": "", "within the body": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok"} {
		transport := newTransport(t)
		come := make(chan struct{})
		address := pod(t, func(conn net.Conn, reader *bufio.Reader) {
			answers(text)(conn, reader)
			close(come)
			_, _ = reader.ReadByte() // until the caller goes
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancelSoon := func() {
			<-come
			cancel()
		}
		if text == "" {
			go cancelSoon()
		}
		response, err := transport.RoundTrip(request(t, "GET", address, "").WithContext(ctx))
		if text != "" {
			if err != nil {
				t.Fatal(err)
			}
			go cancelSoon()
			_, err = io.ReadAll(response.Body)
			response.Body.Close()
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Head and body are one packet.
func TestOneWrite(t *testing.T) {
	transport := newTransport(t)
	var writes atomic.Int32
	transport.Other.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &counted{conn, &writes}, err
	}
	want(t, "answer", "200 ok", send(t, transport, request(t, "POST", pod(t, answers(ok)), "body")))
	if n := writes.Load(); n != 1 {
		t.Errorf("%d writes", n)
	}
}

type counted struct {
	net.Conn
	writes *atomic.Int32
}

// Write counts.
func (c *counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// Bodies that are not in memory, and what may change the protocol, go the other way.
func TestOther(t *testing.T) {
	var got atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got.Store(string(body))
	}))
	defer server.Close()
	transport := newTransport(t)
	var other atomic.Int32
	transport.Other.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		other.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	r, _ := http.NewRequestWithContext(t.Context(), "POST", server.URL, bytes.NewReader(make([]byte, 1<<20)))
	want(t, "long body", "200 ", send(t, transport, r))
	if len(got.Load().(string)) != 1<<20 {
		t.Error("not the body")
	}
	if transport.idle.count != 0 {
		t.Error("it went this way")
	}
}

func TestIdleConnectionsAreBounded(t *testing.T) {
	const many = 5
	transport := newTransport(t)
	var gone sync.WaitGroup
	script := func(conn net.Conn, reader *bufio.Reader) {
		defer gone.Done()
		answers(ok, ok)(conn, reader)
	}
	gone.Add(many)
	address := pod(t, script, script, script, script, script)
	var open []*http.Response
	for range many {
		response, err := transport.RoundTrip(request(t, "GET", address, ""))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, response)
	}
	for _, response := range open {
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	transport.idle.mu.Lock()
	kept := transport.idle.count
	transport.idle.mu.Unlock()
	if kept != transport.idle.perHost {
		t.Errorf("%d connections are kept, not %d", kept, transport.idle.perHost)
	}
	transport.CloseIdleConnections()
	gone.Wait() // the others were closed by then
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	transport := newTransport(t)
	transport.idle.timeout = 50 * time.Millisecond
	closed := make(chan error)
	address := pod(t, func(conn net.Conn, reader *bufio.Reader) {
		answers(ok)(conn, reader)
		_, err := reader.ReadByte()
		closed <- err
	})
	want(t, "answer", "200 ok", send(t, transport, request(t, "GET", address, "")))
	if err := <-closed; err != io.EOF {
		t.Errorf("the connection ended with %v", err)
	}
}
