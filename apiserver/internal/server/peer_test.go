package server

import (
	"net/http"
	"net/netip"
	"testing"
)

func TestPeer(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for about, test := range map[string]struct {
		remote string
		hops   []string
		want   string
	}{
		"nothing before":             {"203.0.113.1:99", nil, "203.0.113.1"},
		"whoever says so himself":    {"203.0.113.1:99", []string{"198.51.100.7"}, "203.0.113.1"},
		"a proxy":                    {"10.1.1.1:99", []string{"198.51.100.7"}, "198.51.100.7"},
		"a caller who adds a hop":    {"10.1.1.1:99", []string{"192.0.2.9, 198.51.100.7"}, "198.51.100.7"},
		"two proxies":                {"10.1.1.1:99", []string{"192.0.2.9, 198.51.100.7, 10.2.2.2"}, "198.51.100.7"},
		"two headers":                {"10.1.1.1:99", []string{"192.0.2.9", "198.51.100.7"}, "198.51.100.7"},
		"a proxy that says nothing":  {"10.1.1.1:99", nil, "10.1.1.1"},
		"a proxy that says nonsense": {"10.1.1.1:99", []string{"192.0.2.9, unknown"}, "10.1.1.1"},
		"IPv6":                       {"[fd00::1]:99", []string{"2001:db8::7"}, "2001:db8::7"},
		"IPv4 in IPv6":               {"[::ffff:10.1.1.1]:99", []string{"::ffff:198.51.100.7"}, "198.51.100.7"},
	} {
		request := &http.Request{RemoteAddr: test.remote, Header: http.Header{"X-Forwarded-For": test.hops}}
		if got := peer(request, trusted); got != netip.MustParseAddr(test.want) {
			t.Errorf("%s: got %v, want %s", about, got, test.want)
		}
	}
}
