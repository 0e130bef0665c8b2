package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"
)

// TestEachEventIsFlushed: the pod sends the next event only after the caller has got the one before.
func TestEachEventIsFlushed(t *testing.T) {
	s := newStack(t, "", nil)
	next := make(chan struct{})
	for name, contentType := range map[string]string{"sse": "text/event-stream", "chunked": "application/json"} {
		s.function(name, open(), s.pod(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n", i)
				_ = http.NewResponseController(w).Flush()
				select {
				case <-next:
				case <-r.Context().Done():
					return
				}
			}
		}))
		response := s.start(s.request(http.MethodGet, "/fn/ns/"+name, nil))
		lines := bufio.NewReader(response.Body)
		for i := range 3 {
			line, err := lines.ReadString('\n')
			if err != nil || line != fmt.Sprintf("data: %d\n", i) {
				t.Fatalf("%s: got %q, %v", name, line, err)
			}
			next <- struct{}{}
		}
		check(t, "encoding", "", response.Header.Get("Content-Encoding"))
		response.Body.Close()
	}
}

func TestBodiesAreExact(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", open(), s.pod(echoBody))
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for name, body := range map[string][]byte{"every byte": every, "large": bytes.Repeat(every, 20<<10)} {
		got := s.call(s.request(http.MethodPost, "/fn/ns/f", bytes.NewReader(body)))
		if got.body != string(body) {
			t.Errorf("%s: %d bytes come back of %d", name, len(got.body), len(body))
		}
		got = s.call(s.request(http.MethodPost, "/fn/ns/f", struct{ io.Reader }{bytes.NewReader(body)}))
		if got.body != string(body) {
			t.Errorf("%s, chunked: %d bytes come back of %d", name, len(got.body), len(body))
		}
	}
}

func TestLargeAnswer(t *testing.T) {
	s := newStack(t, "", nil)
	const size = 200 << 20
	s.function("f", open(), s.pod(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, _ = io.CopyN(w, zeros{}, size)
	}))
	response := s.start(s.request(http.MethodGet, "/fn/ns/f", nil))
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, response.Body)
	check(t, "bytes", []any{int64(size), nil, int64(size)}, []any{n, err, response.ContentLength})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestHeadAndOptions(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", open(), s.pod(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Method", r.Method)
		w.Header().Set("Content-Length", "5")
		_, _ = w.Write([]byte("hello"))
	}))
	got := s.call(s.request(http.MethodHead, "/fn/ns/f", nil))
	check(t, "HEAD", []any{200, "HEAD", "5", ""}, []any{got.status, got.header.Get("Method"), got.header.Get("Content-Length"), got.body})
	got = s.call(s.request(http.MethodOptions, "/fn/ns/f", nil))
	check(t, "OPTIONS", []any{200, "OPTIONS", "hello"}, []any{got.status, got.header.Get("Method"), got.body})
	got = s.call(s.request(http.MethodHead, "/fn/ns/none", nil))
	check(t, "HEAD of nothing", []any{404, ""}, []any{got.status, got.body})
}

func TestTrailers(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", open(), s.pod(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Announced")
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("Announced", r.Trailer.Get("Sum"))
		w.Header().Set(http.TrailerPrefix+"Unannounced", "u")
	}))
	request := s.request(http.MethodPost, "/fn/ns/f", struct{ io.Reader }{strings.NewReader("body")})
	request.Trailer = http.Header{"Sum": {"42"}}
	got := s.call(request)
	check(t, "answer", []any{"body", "42", "u"}, []any{got.body, got.trailer.Get("Announced"), got.trailer.Get("Unannounced")})
}

func TestInformationalAnswers(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", open(), s.pod(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = w.Write([]byte("done"))
	}))
	var hints []string
	request := s.request(http.MethodGet, "/fn/ns/f", nil)
	request = request.WithContext(httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			hints = append(hints, fmt.Sprint(code, header["Link"]))
			return nil
		},
	}))
	got := s.call(request)
	check(t, "hints", []string{"103 [</style.css>; rel=preload]"}, hints)
	if got.status != 200 || got.body != "done" || got.header.Get("X-Request-Id") == "" {
		t.Errorf("answer %+v", got)
	}
}

// TestExpectContinue: a caller is asked for its body only when its request is taken.
func TestExpectContinue(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", open(), s.pod(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Expect") != "" {
			t.Error("the pod is asked to ask")
		}
		echoBody(w, r)
	}))
	for path, want := range map[string]string{"/fn/ns/f": "HTTP/1.1 100 Continue\r\n", "/fn/ns/none": "HTTP/1.1 404 Not Found\r\n"} {
		conn, err := net.Dial("tcp", s.public.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(soon))
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n", path)
		reader := bufio.NewReader(conn)
		line, err := reader.ReadString('\n')
		if err != nil || line != want {
			t.Errorf("%s: %q, %v", path, line, err)
		}
		if path == "/fn/ns/f" {
			_, _ = reader.ReadString('\n')
			fmt.Fprint(conn, "body")
			response, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			check(t, "answer", "body", s.read(response).body)
		}
		conn.Close()
	}
}

// TestCallerGone: the pod learns of it, wherever the call is.
func TestCallerGone(t *testing.T) {
	s := newStack(t, "", nil)
	began, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	s.function("f", open(), s.pod(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("stream") {
			_ = http.NewResponseController(w).Flush()
		}
		began <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	for _, path := range []string{"/fn/ns/f", "/fn/ns/f?stream"} {
		ctx, cancel := context.WithCancel(t.Context())
		request := s.request(http.MethodGet, path, nil).WithContext(ctx)
		go func() {
			receive(t, "the handler begins", began)
			cancel()
		}()
		response, err := s.public.Client().Transport.RoundTrip(request)
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		if err == nil {
			t.Error("an answer")
		}
		receive(t, "the handler sees that the caller is gone", gone)
		cancel()
	}
	eventually(t, "both are logged", func() bool {
		log := s.log.String()
		return strings.Count(log, `"code":"client_gone"`) == 2 && strings.Contains(log, `"status":499`)
	})
}

// TestCallerGoneWhileWaiting: a handler must not run for a caller that left before a pod was there, body or no body.
func TestCallerGoneWhileWaiting(t *testing.T) {
	s := newStack(t, "", nil)
	reached := s.pod(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s runs", r.Method) })
	for _, body := range []string{"", "a body"} {
		r := s.function("f", open())
		ctx, cancel := context.WithCancel(t.Context())
		request := s.request(http.MethodPost, "/fn/ns/f", strings.NewReader(body)).WithContext(ctx)
		left := make(chan error, 1)
		go func() {
			_, err := s.public.Client().Transport.RoundTrip(request)
			left <- err
		}()
		eventually(t, "it waits", func() bool { _, waiting := r.Pool.Load(); return waiting == 1 })
		cancel()
		if err := receive(t, "the caller leaves", left); err == nil {
			t.Error("an answer")
		}
		eventually(t, "the queue is empty", func() bool { _, waiting := r.Pool.Load(); return waiting == 0 })
		r.Pool.SetTargets(targetsOf(reached), "")
		check(t, "memory for bodies given back", true, func() bool {
			eventually(t, "spare memory", func() bool { return s.gateway.spare.Load() == spareBytes })
			return true
		}())
	}
}

// TestPodBreaksOff: a caller sees that an answer is not whole.
func TestPodBreaksOff(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", open(), s.pod(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("half"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	response := s.start(s.request(http.MethodGet, "/fn/ns/f", nil))
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("%q looks whole", body)
	}
	eventually(t, "it is logged", func() bool { return strings.Contains(s.log.String(), `"code":"broken_off"`) })
}
