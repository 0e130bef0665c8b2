package source

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/dial"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// HTTP fetches archives from addresses. It sends no credentials anywhere.
type HTTP struct {
	client *http.Client
	spool  spool
}

func newHTTP(guard *dial.Guard, spool spool) *HTTP {
	return &HTTP{client: &http.Client{Transport: guard.Transport(), CheckRedirect: checkRedirect}, spool: spool}
}

// Fetch returns the archive at an address, whose digest must be the one expected, as a file that has no name any more.
func (h *HTTP) Fetch(ctx context.Context, address, sha256 string) (*os.File, int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, fault.Terminal(v1alpha1.ReasonSourceInvalid, "source.http.url is no URL; write it as https://example.org/code.zip")
	}
	name := "the archive at " + display(request.URL)
	response, err := h.client.Do(request)
	if err != nil {
		return nil, 0, explainCall(ctx, name, "source.http.url", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, 0, explainStatus(name, "source.http.url", response)
	}
	file, size, sum, err := h.spool.take(response.Body, response.ContentLength)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, 0, h.spool.tooLarge(name)
	case err != nil:
		return nil, 0, explainCall(ctx, name, "source.http.url", err)
	case sum != sha256:
		file.Close()
		return nil, 0, otherBytes(name, sum, "source.http.sha256", sha256)
	}
	return file, size, nil
}

const mostRedirects = 5

// errRedirect is a redirect that is not followed.
type errRedirect string

func (e errRedirect) Error() string { return string(e) }

// checkRedirect bounds redirects. Where they lead is checked when the connection is made.
func checkRedirect(request *http.Request, via []*http.Request) error {
	// The address that one comes from may have a signature in its query.
	request.Header.Del("Referer")
	if len(via) > mostRedirects {
		return errRedirect(fmt.Sprintf("it redirects more than %d times", mostRedirects))
	}
	if scheme := request.URL.Scheme; scheme != "http" && scheme != "https" {
		return errRedirect(fmt.Sprintf("it redirects to %s, which is neither http nor https", scheme))
	}
	return nil
}

// display is an address as it may appear in a message: queries have signatures, and anything before an @ is a secret.
func display(address *url.URL) string {
	return (&url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path}).String()
}

// explainCall says what it means that a call to an address that a tenant named got no answer, or half of one. field is what named it.
func explainCall(ctx context.Context, name, field string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return known
	}
	if forbidden, ok := errors.AsType[*dial.ForbiddenError](err); ok {
		return fault.Terminal(v1alpha1.ReasonSourceInvalid, "%s: %v", field, forbidden)
	}
	if redirect, ok := errors.AsType[errRedirect](err); ok {
		return fault.Terminal(v1alpha1.ReasonSourceInvalid, "%s can't be read: %s; name the address that it is at", name, redirect)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // it quotes the whole address, signature and all
	}
	if certificate, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return untrusted(name, certificate)
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok && lookup.IsNotFound {
		return fault.Terminal(v1alpha1.ReasonSourceNotFound, "%s can't be read: there is no host %s; correct %s", name, lookup.Name, field)
	}
	return fault.Transient(v1alpha1.ReasonSourceUnavailable, "read %s: %.500v", name, err)
}

func untrusted(name string, certificate *tls.CertificateVerificationError) error {
	return fault.Terminal(v1alpha1.ReasonSourceInvalid, "%s can't be read: the server's certificate is not trusted (%v); mend the certificate, or ask the platform's operator to trust its authority (network.caFile)", name, certificate.Err)
}

// explainStatus says what an answer means that is not what was asked for.
func explainStatus(name, field string, response *http.Response) error {
	switch code := response.StatusCode; {
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= 500:
		return fault.Transient(v1alpha1.ReasonSourceUnavailable, "read %s: the server answers %d %s", name, code, http.StatusText(code))
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fault.Terminal(v1alpha1.ReasonSourceNotFound, "%s may not be read (the server answers %d %s); make it readable, or correct %s", name, code, http.StatusText(code), field)
	default:
		return fault.Terminal(v1alpha1.ReasonSourceNotFound, "%s is not there (the server answers %d %s); put it there, or correct %s", name, code, http.StatusText(code), field)
	}
}
