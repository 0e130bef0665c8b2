// Package dial makes HTTP transports: one for what the platform's configuration names, and one for what tenants name, which connects to
// no address that the platform does not allow.
package dial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"
)

// ForbiddenError is a connection that was refused because of its address.
type ForbiddenError struct {
	// Host is the host as it was named.
	Host string
	// Address is what it resolved to.
	Address netip.Addr
}

// Error implements error.
func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("%s is at %s, an address that functions may not name; use a public address, or ask the platform's operator to allow it (network.allowedHosts, network.allowedCIDRs)", e.Host, e.Address)
}

// Guard knows which addresses tenants may name.
type Guard struct {
	hosts    map[string]bool
	prefixes []netip.Prefix
}

// NewGuard returns a Guard that allows public addresses, the given hosts wherever they are, and the given ranges.
func NewGuard(hosts, cidrs []string) (*Guard, error) {
	guard := &Guard{hosts: map[string]bool{}}
	for _, host := range hosts {
		guard.hosts[normalHost(host)] = true
	}
	for _, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, fmt.Errorf("allowed range %q: %w", cidr, err)
		}
		guard.prefixes = append(guard.prefixes, prefix.Masked())
	}
	return guard, nil
}

func normalHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// Transport returns a transport for addresses that tenants name. Every connection is checked when it is made, so that neither a
// redirect nor a name that resolves differently the second time gets around it. It uses no proxy: a proxy would make the connection
// out of sight.
func (g *Guard) Transport() *http.Transport {
	transport := base()
	transport.Proxy = nil
	transport.DialContext = g.dialContext
	return transport
}

func (g *Guard) dialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	if !g.hosts[normalHost(host)] {
		dialer.Control = func(_, resolved string, _ syscall.RawConn) error { return g.check(host, resolved) }
	}
	return dialer.DialContext(ctx, network, address)
}

// check looks at the very address that is about to be connected to.
func (g *Guard) check(host, resolved string) error {
	addrPort, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return fmt.Errorf("address of %s: %w", host, err)
	}
	addr := addrPort.Addr().WithZone("").Unmap()
	for _, prefix := range g.prefixes {
		if prefix.Contains(addr) {
			return nil
		}
	}
	if Forbidden(addr) {
		return &ForbiddenError{Host: host, Address: addr}
	}
	return nil
}

// special are ranges that lead to no public address, besides those that net/netip knows.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // carrier-grade NAT; clouds keep metadata there, clusters pods
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
}

var (
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
	sixToV4 = netip.MustParsePrefix("2002::/16")
)

// Forbidden says whether an address is loopback, link-local, private or otherwise not public.
func Forbidden(addr netip.Addr) bool {
	addr = addr.Unmap()
	if addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsUnspecified() || !addr.IsValid() {
		return true
	}
	for _, prefix := range special {
		if prefix.Contains(addr) {
			return true
		}
	}
	bytes := addr.As16()
	switch { // an IPv4 address in IPv6 clothes
	case nat64.Contains(addr):
		return Forbidden(netip.AddrFrom4([4]byte(bytes[12:16])))
	case sixToV4.Contains(addr):
		return Forbidden(netip.AddrFrom4([4]byte(bytes[2:6])))
	}
	return false
}

const dialTimeout = 10 * time.Second

func base() *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 60 * time.Second
	return transport
}

// Trusted returns a transport for addresses that the platform's configuration names. It trusts the certificates in caFile besides the
// system's; an empty caFile adds none.
func Trusted(caFile string) (*http.Transport, error) {
	transport := base()
	if caFile == "" {
		return transport, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read CA bundle: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("CA bundle %s has no certificate in PEM", caFile)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return transport, nil
}
