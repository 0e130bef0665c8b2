package proxy

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/naeel/sless/api/names"
)

// invokeHeaders are what goes on from an internal caller. Above all not its token: the pod is a tenant's.
var invokeHeaders = []string{"Accept", "Content-Type", "Traceparent", "Tracestate", "User-Agent"}

// rewrite makes the request for the pod. ReverseProxy has removed hop-by-hop headers and what the caller said of forwarding.
func (g *Gateway) rewrite(p *httputil.ProxyRequest) {
	c := callOf(p.In.Context())
	out := p.Out
	out.URL.Scheme = "http"
	setRawPath(out.URL, c.target)
	out.URL.RawQuery = p.In.URL.RawQuery // ReverseProxy drops what it can't parse; the function gets what was sent
	out.Trailer = p.In.Trailer           // the server fills this very map after the body
	if c.invoke {
		c.writeInvokeHeaders(out)
		return
	}
	out.Host = p.In.Host
	c.writeHeaders(out.Header)
}

// setRawPath makes a URL that is written to the wire with exactly this path. Opaque is written as it is, unless it begins with two slashes, when
// it would be taken for a host: then RawPath is used, which is as good for all that RFC 3986 allows in a path.
func setRawPath(u *url.URL, raw string) {
	if !strings.HasPrefix(raw, "//") {
		u.Opaque = raw
		return
	}
	u.Opaque, u.RawPath = "", raw
	if path, err := url.PathUnescape(raw); err == nil {
		u.Path = path
	}
}

func (c *call) writeHeaders(h http.Header) {
	in := c.inbound
	for name := range h {
		if isPlatforms(name) || !c.peer.trusted && isForwarding(name) {
			delete(h, name)
		}
	}
	host, proto := in.Host, "http"
	if in.TLS != nil {
		proto = "https"
	}
	if c.peer.trusted {
		if said := in.Header.Get("X-Forwarded-Host"); said != "" {
			host = said
		}
		if said := in.Header.Get("X-Forwarded-Proto"); said == "http" || said == "https" {
			proto = said
		}
	}
	delete(h, "Expect") // the gateway asks for the body itself, once it takes the request
	values := [...]string{c.peer.chain, host, proto, c.id, c.prefix, "body"}
	h["X-Forwarded-For"] = values[0:1:1]
	h["X-Forwarded-Host"] = values[1:2:2]
	h["X-Forwarded-Proto"] = values[2:3:3]
	h["X-Request-Id"] = values[3:4:4]
	delete(h, "X-Forwarded-Prefix")
	if c.prefix != "" {
		h["X-Forwarded-Prefix"] = values[4:5:5]
	}
	if c.spec.PayloadBody {
		h[names.PayloadHeader] = values[5:6:6]
	}
}

func (c *call) writeInvokeHeaders(out *http.Request) {
	in := out.Header
	out.Header = http.Header{"X-Request-Id": {c.id}, "User-Agent": {""}}
	for _, name := range invokeHeaders {
		if values := in[name]; values != nil {
			out.Header[name] = values
		}
	}
	out.Host = c.route.Name + "." + names.FunctionNamespace(c.route.Namespace)
	out.URL.RawQuery, out.URL.ForceQuery = "", false
}

// isPlatforms says whether a header is one that only sless sets. Servers that turn header names into variable names don't tell an underscore
// from a hyphen, so neither does this.
func isPlatforms(name string) bool {
	return hasPrefix(name, "sless-") || hasPrefix(name, "x-sless-") || hasPrefix(name, "x-request-id") && len(name) == len("x-request-id")
}

// isForwarding says whether a header speaks of where a request came from.
func isForwarding(name string) bool {
	return hasPrefix(name, "x-forwarded-") || hasPrefix(name, "x-real-ip") || hasPrefix(name, "forwarded")
}

// hasPrefix compares without regard to case, and takes an underscore for a hyphen. prefix is in lower case.
func hasPrefix(name, prefix string) bool {
	if len(name) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		c := name[i]
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c == '_':
			c = '-'
		}
		if c != prefix[i] {
			return false
		}
	}
	return true
}

// cleanResponse takes the platform's own headers off an answer before it goes out.
func cleanResponse(response *http.Response) error {
	c := callOf(response.Request.Context())
	if code := response.Header.Get(errorHeader); isID(code) {
		c.said = shorten(code, 32)
	}
	for name := range response.Header {
		if isPlatforms(name) {
			delete(response.Header, name)
		}
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		response.Header.Set("X-Request-Id", c.id) // the recorder puts these on every other answer
		if c.gateway.ServerTiming {
			response.Header.Add("Server-Timing", c.serverTiming())
		}
	}
	return nil
}

// errorHeader is on answers that the runtime made and not the handler; its value is the problem's code.
const errorHeader = "Sless-Error"
