package proxy

import (
	"errors"
	"net/http"
	"strings"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/gateway/internal/auth"
	"github.com/naeel/sless/gateway/internal/problem"
	"github.com/naeel/sless/gateway/internal/route"
)

// admit finds the function that a public request leads to and says why it may not go there, if it may not.
func (c *call) admit() *problem.Problem {
	if refusal := c.find(); refusal != nil {
		return refusal
	}
	switch c.spec.Access {
	case route.Closed:
		return problem.ErrNoRoute
	case route.Disabled:
		return problem.ErrDisabled
	}
	method := c.inbound.Method
	if method == http.MethodConnect || !c.spec.Allows(method) {
		return problem.NotAllowed(c.spec.Allow)
	}
	return c.accept()
}

// find takes the raw path (and the host) apart.
func (c *call) find() *problem.Problem {
	table := c.gateway.Table
	raw := route.RawPath(c.inbound.RequestURI)
	if to, under := table.LookupHost(c.inbound.Host); under {
		if to == nil || !strings.HasPrefix(raw, "/") || route.IsReserved(raw) {
			return problem.ErrNoRoute
		}
		c.lead(to, "", raw)
		return nil
	}
	path, ok := route.ParsePath(raw)
	if !ok || route.IsReserved(path.Rest) {
		return problem.ErrNoRoute
	}
	to := table.Lookup(path.Key)
	if to == nil {
		return problem.ErrNoRoute
	}
	c.lead(to, path.Prefix, path.Rest)
	return nil
}

// admitInvoke is admit for the internal listener: who calls, and whether the function runs at all. Triggers don't count, but that all of
// them are disabled does.
func (c *call) admitInvoke() *problem.Problem {
	switch err := c.gateway.Auth.Check(c.inbound); {
	case errors.Is(err, auth.ErrUnauthorized):
		return problem.ErrUnauthorized
	case err != nil:
		return problem.ErrAuthUnavailable
	}
	c.peer.trusted, c.invoke = true, true
	c.id = requestID(c.inbound, true)
	key, found := strings.CutPrefix(route.RawPath(c.inbound.RequestURI), "/invoke/")
	to := c.gateway.Table.Lookup(key)
	if !found || to == nil {
		return problem.ErrNoFunction
	}
	if c.inbound.Method != http.MethodPost {
		return problem.NotAllowed(http.MethodPost)
	}
	c.lead(to, "", names.InvokePath)
	if c.spec.Off {
		return problem.ErrDisabled
	}
	return c.accept()
}

// accept says whether a request that leads to a function can be taken: the function has replicas and the body is not too large.
func (c *call) accept() *problem.Problem {
	if c.spec.ScaledToZero {
		return problem.ErrScaledToZero
	}
	r := c.inbound
	if r.ContentLength > c.gateway.MaxBodyBytes {
		return problem.ErrBodyTooLarge
	}
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 {
		c.body = &upload{call: c, source: r.Body, limit: c.gateway.MaxBodyBytes, began: c.began, size: r.ContentLength}
	}
	return nil
}
