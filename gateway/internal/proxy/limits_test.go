package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/naeel/sless/gateway/internal/route"
)

func TestBodyLimit(t *testing.T) {
	s := newStack(t, "", func(o *Options) { o.MaxBodyBytes = 1 << 20 })
	length := func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err == nil {
			fmt.Fprint(w, n)
		}
	}
	s.function("f", open(), s.pod(length))
	s.function("limited", &route.Spec{Access: route.Open, Concurrency: 1, Timeout: soon}, s.pod(length))
	for _, name := range []string{"f", "limited"} {
		for _, size := range []int{1 << 20, 1<<20 + 1, 4 << 20} {
			for _, chunked := range []bool{false, true} {
				var body io.Reader = strings.NewReader(strings.Repeat("x", size))
				if chunked {
					body = struct{ io.Reader }{body}
				}
				got := s.call(s.request(http.MethodPost, "/fn/ns/"+name, body))
				what := fmt.Sprintf("%s, %d bytes, chunked %v", name, size, chunked)
				if size <= 1<<20 {
					check(t, what, []any{200, fmt.Sprint(size)}, []any{got.status, got.body})
				} else {
					check(t, what, []any{413, "body_too_large"}, []any{got.status, got.code(t)})
				}
			}
		}
	}
}

func TestHeaderLimit(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", open(), s.pod(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, len(r.Header.Get("Authorization"))) }))
	for size, want := range map[int]int{8 << 10: 200, 64 << 10: 200, 256 << 10: 431} {
		got := s.read(s.raw("GET /fn/ns/f HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: " + strings.Repeat("x", size) + "\r\n\r\n"))
		check(t, fmt.Sprint(size), want, got.status)
		if want == 200 {
			check(t, "length at the pod", fmt.Sprint(size), got.body)
		}
	}
}

func TestAnswersHeadIsBounded(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", open(), s.pod(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Log", strings.Repeat("x", 1<<20)) }))
	got := s.get("/fn/ns/f")
	check(t, "answer", []any{502, "function_failed"}, []any{got.status, got.code(t)})
}

// shortly makes the clocks of a call short enough for a test. The gateway's grace comes on top.
func shortly() *route.Spec { return &route.Spec{Access: route.Open, Timeout: 50 * time.Millisecond} }

// hang keeps a handler until its caller is gone.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func TestFunctionTimeout(t *testing.T) {
	t.Parallel()
	s := newStack(t, "", nil)
	s.function("f", shortly(), s.pod(hang))
	for _, body := range []string{"", "body"} {
		got := s.call(s.request(http.MethodPost, "/fn/ns/f", strings.NewReader(body)))
		check(t, "answer", []any{504, "function_timeout"}, []any{got.status, got.code(t)})
	}
}

// Something that takes longer than its clock in all, in parts that are much shorter than it.
const (
	clock = 2*time.Second + grace
	parts = 6
	pause = clock / (parts - 1)
)

func clocked() *route.Spec { return &route.Spec{Access: route.Open, Timeout: clock - grace} }

// TestSignsOfLife: neither an answer nor a body that keeps coming is cut, however long it takes in all.
func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	s := newStack(t, "", func(o *Options) { o.BodyTimeout = clock })
	s.function("f", clocked(), s.pod(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for range parts {
			fmt.Fprint(w, "part ")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(pause)
		}
	}))
	reader, writer := io.Pipe()
	go func() {
		for range parts {
			fmt.Fprint(writer, strings.Repeat("part", slowestBytes)) // more than the slowest that is let pass
			time.Sleep(pause)
		}
		writer.Close()
	}()
	got := s.call(s.request(http.MethodPost, "/fn/ns/f", reader))
	check(t, "answer", []any{200, strings.Repeat("part ", parts)}, []any{got.status, got.body})
}

func TestIdleStreamIsCut(t *testing.T) {
	t.Parallel()
	s := newStack(t, "", nil)
	s.function("f", shortly(), s.pod(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "part")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	response := s.start(s.request(http.MethodGet, "/fn/ns/f", nil))
	defer response.Body.Close()
	if _, err := io.ReadAll(response.Body); err == nil {
		t.Error("looks whole")
	}
	eventually(t, "it is logged", func() bool { return strings.Contains(s.log.String(), `"code":"idle_timeout"`) })
}

// TestCallerThatDoesNotRead: a caller that takes nothing of its answer does not hold the pod for ever.
func TestCallerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	s := newStack(t, "", nil)
	gone := make(chan struct{})
	s.function("f", shortly(), s.pod(func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		_, _ = io.Copy(w, zeros{}) // ends with an error only
	}))
	conn, err := net.Dial("tcp", s.public.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /fn/ns/f HTTP/1.1\r\nHost: h\r\n\r\n")
	receive(t, "the pod is let go", gone)
	eventually(t, "it is logged", func() bool { return strings.Contains(s.log.String(), `"code":"idle_timeout"`) })
}

func TestSlowBody(t *testing.T) {
	s := newStack(t, "", func(o *Options) { o.BodyTimeout = 50 * time.Millisecond })
	s.function("f", open(), s.pod(echoBody))
	s.function("limited", &route.Spec{Access: route.Open, Concurrency: 1, Timeout: soon}, s.pod(echoBody))
	for _, name := range []string{"f", "limited"} {
		for what, rest := range map[string]string{"nothing": "", "a part": "part"} {
			got := s.read(s.raw("POST /fn/ns/" + name + " HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n" + rest))
			check(t, name+" sends "+what, []any{408, "body_timeout"}, []any{got.status, got.code(t)})
		}
	}
}

// TestTrickle: a byte now and then is not enough.
func TestTrickle(t *testing.T) {
	s := newStack(t, "", func(o *Options) { o.BodyTimeout = 300 * time.Millisecond })
	s.function("f", open(), s.pod(echoBody))
	conn, err := net.Dial("tcp", s.public.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /fn/ns/f HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
	go func() {
		for {
			if _, err := conn.Write([]byte("x")); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := s.read(response)
	check(t, "answer", []any{408, "body_timeout"}, []any{got.status, got.code(t)})
}

func TestBrokenBody(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", open(), s.pod(echoBody))
	got := s.read(s.raw("POST /fn/ns/f HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"))
	check(t, "answer", []any{400, "bad_request"}, []any{got.status, got.code(t)})
}

func TestBadUpgrade(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", open(), s.pod(echoBody))
	got := s.read(s.raw("GET /fn/ns/f HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, close\r\nUpgrade: \xff\xfe\r\n\r\n"))
	check(t, "answer", []any{400, "bad_request"}, []any{got.status, got.code(t)})
}
