package dial

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
)

func TestForbidden(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "0.0.0.0": true, "0.1.2.3": true, "::": true,
		"10.1.2.3": true, "172.16.0.1": true, "192.168.1.1": true, "100.64.1.1": true, "fd00::1": true, "fd00:ec2::254": true,
		"169.254.169.254": true, "fe80::1": true, "224.0.0.1": true, "ff02::1": true, "255.255.255.255": true,
		"::ffff:127.0.0.1": true, "::ffff:169.254.169.254": true, "64:ff9b::7f00:1": true, "2002:7f00:1::": true,
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
		hosts, cidrs []string
		url          string
		forbidden    bool
	}{
		"address":             {url: "http://" + port, forbidden: true},
		"name":                {url: "http://localhost:" + localhost.Port(), forbidden: true},
		"allowed range":       {url: "http://" + port, cidrs: []string{"127.0.0.0/8"}},
		"another range":       {url: "http://" + port, cidrs: []string{"10.0.0.0/8"}, forbidden: true},
		"allowed host":        {url: "http://" + port, hosts: []string{"127.0.0.1"}},
		"host in other case":  {url: "http://" + port, hosts: []string{"127.0.0.1."}},
		"another host listed": {url: "http://" + port, hosts: []string{"localhost"}, forbidden: true},
	} {
		t.Run(name, func(t *testing.T) {
			guard, err := NewGuard(test.hosts, test.cidrs)
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
	guard, err := NewGuard([]string{"localhost"}, nil)
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
	if _, err := NewGuard(nil, []string{"10.0.0.1"}); err == nil {
		t.Error("an address without a length was taken for a range")
	}
}
