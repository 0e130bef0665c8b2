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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/naeel/sless/operator/internal/config"
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
	return fmt.Sprintf("%s is at %s, an address that functions may not name; use a public address, or ask the platform's operator to allow it (network.allowedHosts, network.allowedCIDRs, network.deniedCIDRs)", e.Host, e.Address)
}

// Guard knows which addresses tenants may name.
type Guard struct {
	hosts           map[string]bool
	allowed, denied []netip.Prefix
	tls             *tls.Config
}

// NewGuard returns a Guard that allows public addresses, the configuration's hosts wherever they are, and its ranges.
func NewGuard(network config.Network) (*Guard, error) {
	guard := &Guard{hosts: map[string]bool{}}
	for _, host := range network.AllowedHosts {
		guard.hosts[normalHost(host)] = true
	}
	var err error
	if guard.allowed, err = prefixes(network.AllowedCIDRs); err != nil {
		return nil, fmt.Errorf("network.allowedCIDRs: %w", err)
	}
	if guard.denied, err = prefixes(network.DeniedCIDRs); err != nil {
		return nil, fmt.Errorf("network.deniedCIDRs: %w", err)
	}
	if guard.tls, err = trusting(network.CAFile); err != nil {
		return nil, fmt.Errorf("network.caFile: %w", err)
	}
	return guard, nil
}

func prefixes(cidrs []string) ([]netip.Prefix, error) {
	var parsed []netip.Prefix
	for _, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, prefix.Masked())
	}
	return parsed, nil
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func normalHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// Transport returns a transport for addresses that tenants name. Every connection is checked when it is made, so that neither a
// redirect nor a name that resolves differently the second time gets around it. It uses no proxy: a proxy would make the connection
// out of sight. It decompresses nothing, so that what is counted is what came.
func (g *Guard) Transport() *http.Transport {
	transport := base()
	transport.Proxy = nil
	transport.DialContext = g.dialContext
	transport.DisableCompression = true
	transport.TLSClientConfig = g.tls.Clone()
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
	if contains(g.denied, addr) || contains(g.denied, inner(addr)) {
		return &ForbiddenError{Host: host, Address: addr}
	}
	if !contains(g.allowed, addr) && Forbidden(addr) {
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
	netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2001::/32"), // Teredo: a way to IPv4 addresses through somebody's relay
	netip.MustParsePrefix("fec0::/10"),
}

var (
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
	sixToV4 = netip.MustParsePrefix("2002::/16")
)

// Forbidden says whether an address is loopback, link-local, private or otherwise not public.
func Forbidden(addr netip.Addr) bool {
	addr = inner(addr)
	return addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsUnspecified() ||
		!addr.IsValid() || contains(special, addr)
}

// inner is the IPv4 address that an IPv6 address stands for, or the address itself.
func inner(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	bytes := addr.As16()
	switch {
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(bytes[12:16]))
	case sixToV4.Contains(addr):
		return netip.AddrFrom4([4]byte(bytes[2:6]))
	}
	return addr
}

const dialTimeout = 10 * time.Second

func base() *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 60 * time.Second
	return transport
}

// idlePerHost is how many connections to the registry, or to the object store, are kept: as many as builds with the default of
// build.maxConcurrent, each of which pushes four blobs at a time, have open. More than two would else be made anew for every build.
const idlePerHost = 16

// Trusted returns a transport for addresses that the platform's configuration names. It trusts the certificates in caFile besides the
// system's; an empty caFile adds none.
func Trusted(caFile string) (*http.Transport, error) {
	transport := base()
	transport.MaxIdleConnsPerHost = idlePerHost
	trust, err := trusting(caFile)
	if err != nil {
		return nil, err
	}
	transport.TLSClientConfig = trust
	return transport, nil
}

// trusting returns the system's trust, and that in caFile besides.
func trusting(caFile string) (*tls.Config, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return trust, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read CA bundle: %w", err)
	}
	if trust.RootCAs, err = x509.SystemCertPool(); err != nil {
		trust.RootCAs = x509.NewCertPool()
	}
	if !trust.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("CA bundle %s has no certificate in PEM", caFile)
	}
	return trust, nil
}
