// Command upstream is the pod of the benchmark: it answers every request with 1 KiB as cheaply as Go can, keeps the runtime contract as far as the
// gateway looks, and echoes what comes over a connection that changes protocol.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"strings"
)

func main() {
	address := flag.String("address", "", "where to listen")
	flag.Parse()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(conn)
	}
}

var answer = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nSless-Revision: r1\r\nContent-Length: 1024\r\n\r\n%s", strings.Repeat("x", 1024))

const upgraded = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

// serve answers requests without a body until the connection ends.
func serve(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	upgrade := false
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return
		}
		switch {
		case len(line) > 2:
			upgrade = upgrade || bytes.HasPrefix(line, []byte("Upgrade:"))
		case upgrade:
			_, _ = io.WriteString(conn, upgraded)
			_, _ = io.Copy(conn, reader)
			return
		default:
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	}
}
