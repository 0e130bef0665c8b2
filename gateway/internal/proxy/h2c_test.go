package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/gateway/internal/backend"
)

// h2cPod is a pod that speaks both and asks for HTTP/2.
func (s *stack) h2cPod(handler http.HandlerFunc) *pod {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI == names.HealthPath {
			w.Header().Set(names.RevisionHeader, "r1")
			w.Header().Set(names.ProtocolHeader, names.H2C)
			return
		}
		handler(w, r)
	}))
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	s.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &pod{Server: server, address: server.Listener.Addr().String()}
}

// TestPodThatAsksForHTTP2 holds that everything passes over HTTP/2 as it does over HTTP/1.1, and that WebSockets still find a way.
func TestPodThatAsksForHTTP2(t *testing.T) {
	s := newStack(t, "", nil)
	route := s.function("f", open(), s.h2cPod(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			echoTunnel(w, r)
			return
		}
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("Proto", r.Proto)
		w.Header().Set("Got-Te", r.Header.Get("Te"))
		fmt.Fprintf(w, "%s %s %s ", r.Method, r.RequestURI, r.Host)
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("X-Sum", "7")
	}))
	eventually(t, "the pod has said so", func() bool { return route.Pool.Revisions()["r1"] == 1 })
	request := s.request(http.MethodPost, "/fn/ns/f/a%2Fb//..?x=%2F&x=2", strings.NewReader("body"))
	request.Host = "h"
	request.Header.Set("Te", "trailers")
	got := s.call(request)
	check(t, "answer", []string{"HTTP/2.0", "POST /a%2Fb//..?x=%2F&x=2 h body", "7", "trailers"},
		[]string{got.header.Get("Proto"), got.body, got.trailer.Get("X-Sum"), got.header.Get("Got-Te")})
	conn, reader, _ := s.tunnel()
	s.exchange(conn, reader)
}

// A pod that asked for HTTP/2 and can't be reached any more is like any other.
func TestHTTP2PodThatIsGone(t *testing.T) {
	s := newStack(t, "", nil)
	gone, there := s.h2cPod(echoBody), s.h2cPod(echoBody)
	route := s.function("f", open(), gone, there)
	eventually(t, "both have said so", func() bool { return route.Pool.Revisions()["r1"] == 2 })
	gone.Close()
	eventually(t, "chance has chosen the one that is gone", func() bool {
		request := s.request(http.MethodPost, "/fn/ns/f", strings.NewReader("body"))
		check(t, "answer", "body", s.call(request).body)
		return route.Pool.Revisions()["r1"] == 1
	})
}

// When too many requests wait already, whoever waits for them, the next is refused at once.
func TestRoomOfAllFunctions(t *testing.T) {
	s := newStack(t, "", nil)
	s.room = backend.NewRoom(1)
	s.function("f", open())
	s.function("g", open())
	first := s.request(http.MethodGet, "/fn/ns/f", nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		if response, err := transport.RoundTrip(first); err == nil {
			response.Body.Close()
		}
	}()
	eventually(t, "one waits", func() bool { return s.series()["sless_gateway_requests_waiting{}"] == 1 })
	began := time.Now()
	got := s.get("/fn/ns/g")
	check(t, "answer", []any{503, "gateway_busy", "1"}, []any{got.status, got.code(t), got.header.Get("Retry-After")})
	if took := time.Since(began); took > soon/2 {
		t.Errorf("it took %s", took)
	}
	s.table.Lookup("ns/f").Pool.Close()
	receive(t, "the end of the one that waited", ended)
}
