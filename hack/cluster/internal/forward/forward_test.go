package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

func TestClusterIP(t *testing.T) {
	if ip, err := clusterIP([]byte(`{"spec":{"clusterIP":"10.96.0.9"}}`)); err != nil || ip != "10.96.0.9" {
		t.Errorf("got %q, %v", ip, err)
	}
	for _, service := range []string{`{"spec":{"clusterIP":"None"}}`, `{}`, `no JSON`} {
		if ip, err := clusterIP([]byte(service)); err == nil {
			t.Errorf("%s: got %q", service, ip)
		}
	}
}

// freePort gives a port that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// dial connects to a port that may not be listened on yet.
func dial(t *testing.T, port string) *net.TCPConn {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			return conn.(*net.TCPConn)
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestForwardsBothWaysAndKeepsHalfClosedConnections(t *testing.T) {
	service, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	go func() {
		conn, err := service.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		asked, _ := io.ReadAll(conn) // until the client has said all
		_, _ = conn.Write(append([]byte("you said "), asked...))
	}()
	get := func(_ context.Context, path string) ([]byte, error) {
		if path != "/api/v1/namespaces/ns/services/svc" {
			return nil, errors.New("unexpected " + path)
		}
		return []byte(`{"spec":{"clusterIP":"127.0.0.1"}}`), nil
	}
	target := Target{LocalPort: freePort(t), Namespace: "ns", Service: "svc", Port: service.Addr().(*net.TCPAddr).Port}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, get, []Target{target}) }()

	conn := dial(t, target.LocalPort)
	defer conn.Close()
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || string(answer) != "you said hello" {
		t.Errorf("got %q, %v", answer, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestAServiceThatIsNotThereClosesTheConnection(t *testing.T) {
	get := func(context.Context, string) ([]byte, error) { return nil, errors.New("not found") }
	target := Target{LocalPort: freePort(t), Namespace: "ns", Service: "svc", Port: 1}
	go func() { _ = Serve(t.Context(), get, []Target{target}) }()
	conn := dial(t, target.LocalPort)
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); len(got) != 0 || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAnAPIServerThatIsAwayKeepsNobodyFromAnAddressThatIsKnown(t *testing.T) {
	answer, asked := `{"spec":{"clusterIP":"10.96.0.9"}}`, 0
	f := forwarder{target: Target{Port: 80}, get: func(context.Context, string) ([]byte, error) {
		asked++
		if answer == "" {
			return nil, errors.New("too busy")
		}
		return []byte(answer), nil
	}}
	resolves := func(to string, times int) {
		t.Helper()
		if address, err := f.resolve(t.Context()); err != nil || address != to {
			t.Errorf("got %q, %v, want %s", address, err, to)
		}
		if asked != times {
			t.Errorf("asked %d times, want %d", asked, times)
		}
	}
	resolves("10.96.0.9:80", 1)
	resolves("10.96.0.9:80", 1)
	answer = ""
	f.doubt("10.96.0.9:80")
	resolves("10.96.0.9:80", 2)
	resolves("10.96.0.9:80", 2)
	answer = `{"spec":{"clusterIP":"10.96.0.10"}}`
	f.doubt("10.96.0.8:80") // an older one
	resolves("10.96.0.9:80", 2)
	f.doubt("10.96.0.9:80")
	resolves("10.96.0.10:80", 3)
}
