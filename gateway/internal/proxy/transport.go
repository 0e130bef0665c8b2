package proxy

import (
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
