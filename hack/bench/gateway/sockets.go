package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"time"
)

// openSockets opens WebSockets through a proxy, says something over each, hears it back, and leaves them open.
func openSockets(address, path string, count int) (sockets []net.Conn, err error) {
	defer func() {
		if err != nil {
			closeSockets(sockets)
		}
	}()
	for range count {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return sockets, err
		}
		sockets = append(sockets, conn)
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: functions.example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", path)
		reader := bufio.NewReader(conn)
		status, err := reader.ReadString('\n')
		if err != nil || !strings.HasPrefix(status, "HTTP/1.1 101 ") {
			return sockets, fmt.Errorf("WebSocket answered %q: %w", status, err)
		}
		for line := status; len(line) > 2; {
			if line, err = reader.ReadString('\n'); err != nil {
				return sockets, err
			}
		}
		fmt.Fprintln(conn, "hello")
		if echo, err := reader.ReadString('\n'); err != nil || echo != "hello\n" {
			return sockets, fmt.Errorf("WebSocket says %q: %w", echo, err)
		}
	}
	return sockets, nil
}

func closeSockets(sockets []net.Conn) {
	for _, conn := range sockets {
		_ = conn.Close()
	}
}
