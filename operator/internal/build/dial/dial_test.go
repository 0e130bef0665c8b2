package dial

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/naeel/sless/operator/internal/config"
)

func TestForbidden(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "0.0.0.0": true, "0.1.2.3": true, "::": true,
		"10.1.2.3": true, "172.16.0.1": true, "192.168.1.1": true, "100.64.1.1": true, "fd00::1": true, "fd00:ec2::254": true,
		"169.254.169.254": true, "fe80::1": true, "224.0.0.1": true, "ff02::1": true, "255.255.255.255": true,
		"::ffff:127.0.0.1": true, "::ffff:169.254.169.254": true, "64:ff9b::7f00:1": true, "2002:7f00:1::": true,
		"::127.0.0.1": true, "64:ff9b::a9fe:a9fe": true, "2001::1": true, "fec0::1": true,
		"1.1.1.1": false, "8.8.8.8": false, "172.15.0.1": false, "2606:4700::1111": false, "64:ff9b::808:808": false,
	} {
		if got := Forbidden(netip.MustParseAddr(address)); got != want {
			t.Errorf("Forbidden(%s) = %v, want %v", address, got, want)
		}
	}
}

func TestGuardAtDialTime(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	port := server.Listener.Addr().String()
	localhost, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		hosts, cidrs, denied []string
		url                  string
		forbidden            bool
	}{
		"address":             {url: "http://" + port, forbidden: true},
		"name":                {url: "http://localhost:" + localhost.Port(), forbidden: true},
		"allowed range":       {url: "http://" + port, cidrs: []string{"127.0.0.0/8"}},
		"another range":       {url: "http://" + port, cidrs: []string{"10.0.0.0/8"}, forbidden: true},
		"allowed host":        {url: "http://" + port, hosts: []string{"127.0.0.1"}},
		"host in other case":  {url: "http://" + port, hosts: []string{"127.0.0.1."}},
		"denied in allowed":   {url: "http://" + port, cidrs: []string{"127.0.0.0/8"}, denied: []string{"127.0.0.1/32"}, forbidden: true},
		"denied elsewhere":    {url: "http://" + port, cidrs: []string{"127.0.0.0/8"}, denied: []string{"127.0.0.2/32"}},
		"denied, its host":    {url: "http://" + port, hosts: []string{"127.0.0.1"}, denied: []string{"127.0.0.0/8"}},
		"mapped":              {url: "http://[::ffff:127.0.0.1]:" + localhost.Port(), forbidden: true},
		"another host listed": {url: "http://" + port, hosts: []string{"localhost"}, forbidden: true},
	} {
		t.Run(name, func(t *testing.T) {
			guard, err := NewGuard(config.Network{AllowedHosts: test.hosts, AllowedCIDRs: test.cidrs, DeniedCIDRs: test.denied})
			if err != nil {
				t.Fatal(err)
			}
			transport := guard.Transport()
			defer transport.CloseIdleConnections()
			response, err := (&http.Client{Transport: transport}).Get(test.url)
			if err == nil {
				response.Body.Close()
			}
			if _, got := errors.AsType[*ForbiddenError](err); got != test.forbidden {
				t.Errorf("got %v, want forbidden %v", err, test.forbidden)
			}
		})
	}
}

// Connections to the registry are used again by as many requests at a time as builds make.
func TestTrustedKeepsConnections(t *testing.T) {
	var made atomic.Int32
	var here sync.WaitGroup
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		here.Done()
		here.Wait() // all at a time
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			made.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	transport, err := Trusted("")
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	for range 2 {
		here.Add(idlePerHost)
		var all sync.WaitGroup
		for range idlePerHost {
			all.Go(func() {
				response, err := (&http.Client{Transport: transport}).Get(server.URL)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			})
		}
		all.Wait()
	}
	// On a busy machine the transport gives up the one or the other: those whose writer has not told it within 50 ms that it is done.
	if got := made.Load(); got > idlePerHost*3/2 {
		t.Errorf("%d connections for two times %d requests", got, idlePerHost)
	}
}

// A public address that is the platform's own is refused in every form.
func TestDenied(t *testing.T) {
	guard, err := NewGuard(config.Network{DeniedCIDRs: []string{"203.0.113.0/24", "2001:db8::/32"}})
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{
		"203.0.113.9:80": true, "[::ffff:203.0.113.9]:80": true, "[64:ff9b::cb00:7109]:80": true, "[2002:cb00:7109::]:80": true, "[2001:db8::1]:80": true,
		"198.51.100.1:80": false, "[2606:4700::1111]:80": false,
	} {
		if got := guard.check("host", address); (got != nil) != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

func TestGuardFollowsNoRedirectInside(t *testing.T) {
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request got inside") }))
	defer inside.Close()
	outside := httptest.NewServer(http.RedirectHandler(inside.URL, http.StatusFound))
	defer outside.Close()
	// Only the first server is allowed, by a name of its own.
	address, err := url.Parse(outside.URL)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := NewGuard(config.Network{AllowedHosts: []string{"localhost"}})
	if err != nil {
		t.Fatal(err)
	}
	transport := guard.Transport()
	defer transport.CloseIdleConnections()
	_, err = (&http.Client{Transport: transport}).Get("http://localhost:" + address.Port())
	if _, forbidden := errors.AsType[*ForbiddenError](err); !forbidden {
		t.Errorf("got %v, want a forbidden address", err)
	}
}

func TestNewGuardRefusesWhatIsNoRange(t *testing.T) {
	for _, network := range []config.Network{{AllowedCIDRs: []string{"10.0.0.1"}}, {DeniedCIDRs: []string{"10.0.0.1"}}} {
		if _, err := NewGuard(network); err == nil {
			t.Errorf("an address without a length was taken for a range: %+v", network)
		}
	}
}
