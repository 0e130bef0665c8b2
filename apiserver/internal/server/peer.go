package server

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// peer is the address of whoever calls. What stands before the server is believed only when it is one of the trusted proxies: then the
// caller is the last hop of X-Forwarded-For that is none of them.
func peer(r *http.Request, trusted []netip.Prefix) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address := from.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !slices.ContainsFunc(trusted, func(known netip.Prefix) bool { return known.Contains(address) }) {
			break
		}
		before, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		address = before.Unmap()
	}
	return address
}
