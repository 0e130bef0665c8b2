package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// certificateEvery is how often the files of the certificate are read again. A Secret that is mounted changes by itself; no signal tells of it.
const certificateEvery = 10 * time.Second

// certificate is that of the public listener with TLS. It is what the files last had that went together.
type certificate struct {
	certFile, keyFile string
	every             time.Duration
	// cert and key are what the files had.
	cert, key []byte
	current   atomic.Pointer[tls.Certificate]
}

// newCertificate reads the files. They may be absent: a Secret may come after the gateway, and until then handshakes fail.
func newCertificate(certFile, keyFile string) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, every: certificateEvery}
	if _, err := c.load(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return c, nil
}

// load reads the files and says whether they have changed.
func (c *certificate) load() (changed bool, err error) {
	cert, err := os.ReadFile(c.certFile)
	if err != nil {
		return false, fmt.Errorf("read certificate: %w", err)
	}
	key, err := os.ReadFile(c.keyFile)
	if err != nil {
		return false, fmt.Errorf("read key of the certificate: %w", err)
	}
	if bytes.Equal(cert, c.cert) && bytes.Equal(key, c.key) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, fmt.Errorf("certificate %s with key %s: %w", c.certFile, c.keyFile, err)
	}
	c.cert, c.key = cert, key
	c.current.Store(&pair)
	return true, nil
}

// follow reads the files again and again until ctx ends. What can't be used is logged, and the certificate before it stays.
func (c *certificate) follow(ctx context.Context, logger *slog.Logger) {
	ticker := time.NewTicker(c.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		switch changed, err := c.load(); {
		case errors.Is(err, fs.ErrNotExist) && c.current.Load() == nil:
			// There never was one, and that may be meant.
		case err != nil:
			logger.Error("the listener with TLS keeps the certificate that it has", "error", err)
		case changed:
			logger.Info("the listener with TLS has a new certificate", "notAfter", c.current.Load().Leaf.NotAfter)
		}
	}
}

// config returns what the listener needs.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if current := c.current.Load(); current != nil {
				return current, nil
			}
			return nil, fmt.Errorf("there is no certificate %s yet", c.certFile)
		},
	}
}
