package registry

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/naeel/sless/api/v1alpha1"
)

// An image that a tenant names leads to nothing inside: not by its own host, nor by where the registry redirects or has tokens from.
func TestImagesLeadNowhereInside(t *testing.T) {
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request got inside") }))
	defer inside.Close()
	insideAddress, err := url.Parse(inside.URL)
	if err != nil {
		t.Fatal(err)
	}
	var to string // inside
	redirects := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return
		}
		http.Redirect(w, r, to+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer redirects.Close()
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+to+`/token",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer tokens.Close()
	port := func(address string) string { return address[strings.LastIndex(address, ":"):] }
	s := newServer(t, false)
	for _, host := range []string{"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "[::ffff:169.254.169.254]", "10.0.0.1"} {
		to = "http://" + host + ":" + insideAddress.Port()
		for name, registry := range map[string]string{"redirect": "localhost" + port(redirects.URL), "token realm": "localhost" + port(tokens.URL)} {
			_, err := connect(t, configFor(t, s), "localhost").Resolve(t.Context(), registry+"/team/image:v1", "ns", "uid")
			if err == nil {
				t.Errorf("%s to %s: an image", name, host)
			}
		}
		if strings.Contains(host, "[") {
			continue // no image's name has such a host
		}
		_, err := connect(t, configFor(t, s)).Resolve(t.Context(), host+":"+insideAddress.Port()+"/team/image:v1", "ns", "uid")
		if reasonOf(err) != v1alpha1.ReasonImageNotAllowed {
			t.Errorf("%s itself: %v", host, err)
		}
	}
}
