package proxy

import (
	"context"
	"net"
	"net/http"
	"time"
)

const (
	// dialTimeout is short: pods are near.
	dialTimeout = 3 * time.Second
	// idleConnTimeout is shorter than any runtime keeps an idle connection, so that none is closed under a request.
	idleConnTimeout = 30 * time.Second
	// maxAnswerHead bounds the head of a function's answer.
	maxAnswerHead = 256 << 10
)

// NewH2C returns the Transport to pods that ask for HTTP/2. It dials as the other one does, which must be made before, and has one connection to a pod, of whose
// health nothing but pings would tell.
func NewH2C(like *http.Transport) *http.Transport {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return like.DialContext(ctx, network, address)
		},
		Protocols:              protocols,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
		DisableCompression:     true,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxAnswerHead,
	}
}

// NewTransport returns the Transport that all requests to pods share.
func NewTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		DisableCompression:     true, // what is sent is what arrives
		MaxIdleConns:           8192,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxAnswerHead,
	}
}
