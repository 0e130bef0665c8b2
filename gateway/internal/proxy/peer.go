package proxy

import (
	"net/http"
	"net/netip"
	"strings"
)

// peer is who speaks to the gateway, and on whose behalf.
type peer struct {
	// trusted says that its X-Forwarded-* and X-Request-Id are believed.
	trusted bool
	// client is the address of the caller: the peer's own, or the last one in the chain that is not a trusted proxy's.
	client string
	// chain is the X-Forwarded-For for the pod: from the client on. What stands before it nobody vouches for, and it is left out.
	chain string
}

// identify says who made a request.
func (g *Gateway) identify(r *http.Request) peer {
	address := r.RemoteAddr
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return peer{client: address, chain: address}
	}
	own := hostOf(address, parsed)
	if !g.trusts(parsed.Addr()) {
		return peer{client: own, chain: own}
	}
	client, chain := own, own
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		client = hop.Unmap().String()
		chain = client + ", " + chain
		if !g.trusts(hop) {
			break
		}
	}
	return peer{trusted: true, client: client, chain: chain}
}

// hostOf returns the address without the port, as a part of the text where that is possible.
func hostOf(text string, parsed netip.AddrPort) string {
	if addr := parsed.Addr(); addr.Is4() {
		return text[:strings.LastIndexByte(text, ':')]
	}
	return parsed.Addr().Unmap().WithZone("").String()
}

func (g *Gateway) trusts(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, prefix := range g.TrustedProxies {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}
