// Command bare is the least that a reverse proxy written in Go can be: httputil.ReverseProxy with pooled buffers and a Transport with room for
// its connections. The gateway's cost is measured against it.
package main

import (
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen")
	to := flag.String("to", "", "host and port to forward to")
	flag.Parse()
	target := &url.URL{Scheme: "http", Host: *to}
	server := &http.Server{Addr: *address, ReadHeaderTimeout: time.Minute, Handler: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
		},
		Transport:  &http.Transport{DisableCompression: true, MaxIdleConns: 8192, MaxIdleConnsPerHost: 256, IdleConnTimeout: 30 * time.Second},
		BufferPool: &buffers{sync.Pool{New: func() any { return new([32 << 10]byte) }}},
		ErrorLog:   log.New(io.Discard, "", 0),
	}}
	log.Fatal(server.ListenAndServe())
}

type buffers struct{ pool sync.Pool }

// Get lends a buffer.
func (b *buffers) Get() []byte { return b.pool.Get().(*[32 << 10]byte)[:] }

// Put takes one back.
func (b *buffers) Put(buffer []byte) { b.pool.Put((*[32 << 10]byte)(buffer)) }
