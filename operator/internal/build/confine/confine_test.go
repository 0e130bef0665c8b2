package confine

import (
	"net"
	"strings"
	"testing"
	"time"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

func TestWaitsUntilNothingAnswers(t *testing.T) {
	open := listen(t)
	done := make(chan bool)
	go func() { done <- wait(open.Addr().String(), time.Minute) }()
	for range 3 { // it asks again as long as it is answered
		connection, err := open.Accept()
		if err != nil {
			t.Fatal(err)
		}
		connection.Close()
		select {
		case <-done:
			t.Fatal("ended while the address was open")
		default:
		}
	}
	open.Close()
	if !<-done {
		t.Error("says that it is open")
	}
}

func TestGoesOnInTheEnd(t *testing.T) {
	if wait(listen(t).Addr().String(), 0) {
		t.Error("says that an open address is closed")
	}
}

func TestRunWithoutAnAddress(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	var said strings.Builder
	if code := Run(&said); code != 0 || said.Len() > 0 {
		t.Errorf("exit code %d, says %q", code, &said)
	}
}
