package server

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// HTTP returns the server of the public listener. It has no time-out for whole requests: bodies are paced, and answers may be long.
func (s *Server) HTTP(handler http.Handler) (*http.Server, error) {
	api := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
	}
	if s.TLS.CertFile == "" {
		return api, nil
	}
	certificate := &certificate{certFile: s.TLS.CertFile, keyFile: s.TLS.KeyFile}
	if _, err := certificate.get(nil); err != nil {
		return nil, err
	}
	api.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate.get}
	return api, nil
}

// Serve serves with TLS if the server has a certificate.
func Serve(server *http.Server, listener net.Listener) error {
	if server.TLSConfig == nil {
		return server.Serve(listener)
	}
	return server.ServeTLS(listener, "", "")
}

// certificate is read again when its file has changed.
type certificate struct {
	certFile, keyFile string

	mu       sync.Mutex // guards what follows
	loaded   *tls.Certificate
	modified time.Time
	checked  time.Time
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded != nil && time.Since(c.checked) < 10*time.Second {
		return c.loaded, nil
	}
	info, err := os.Stat(c.certFile)
	if err == nil && c.loaded != nil && info.ModTime().Equal(c.modified) {
		c.checked = time.Now()
		return c.loaded, nil
	}
	pair, loadErr := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	switch {
	case loadErr == nil && err == nil:
		c.loaded, c.modified, c.checked = &pair, info.ModTime(), time.Now()
	case c.loaded == nil && loadErr != nil:
		return nil, loadErr
	case c.loaded == nil:
		return nil, err
	}
	return c.loaded, nil // a pair that is half written is no reason to stop serving with the old one
}
