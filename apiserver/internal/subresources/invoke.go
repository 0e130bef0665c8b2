package subresources

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/config"
	"github.com/naeel/sless/apiserver/internal/problem"
	"github.com/naeel/sless/apiserver/internal/request"
	"github.com/naeel/sless/apiserver/internal/resources"
)

// Gateway calls functions through the gateway's internal listener.
type Gateway struct {
	internal  *url.URL
	tokenFile string
	proxy     *httputil.ReverseProxy
}

type target struct{ namespace, name, token string }

type targetKey struct{}

// NewGateway returns a Gateway. fail answers a call that did not reach the gateway.
func NewGateway(settings config.Gateway, fail func(http.ResponseWriter, *request.Info, error), log *slog.Logger) (*Gateway, error) {
	internal, err := url.Parse(settings.InternalURL)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // it is in the cluster
	transport.MaxIdleConnsPerHost = 64
	g := &Gateway{internal: internal, tokenFile: settings.TokenFile}
	g.proxy = &httputil.ReverseProxy{
		Rewrite: g.rewrite, Transport: transport, FlushInterval: -1, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			info := request.From(r.Context())
			if r.Context().Err() == nil {
				info.Log.ErrorContext(r.Context(), "call gateway", "error", err)
			}
			fail(w, info, problem.New(http.StatusServiceUnavailable, rest.CodeGatewayUnavailable, "the gateway does not answer; try again").RetryAfter(2*time.Second))
		},
		ModifyResponse: func(response *http.Response) error {
			response.Header.Del("X-Request-Id") // ours is there already, and it is the same
			if response.StatusCode == http.StatusUnauthorized {
				return fmt.Errorf("the gateway refuses the token of this apiserver")
			}
			return nil
		},
	}
	return g, nil
}

func (g *Gateway) rewrite(r *httputil.ProxyRequest) {
	to := r.In.Context().Value(targetKey{}).(target)
	out := *g.internal
	out.Path = strings.TrimRight(out.Path, "/") + "/invoke/" + to.namespace + "/" + to.name
	r.Out.URL, r.Out.Host = &out, ""
	header := http.Header{"Authorization": {"Bearer " + to.token}, request.Header: {request.From(r.In.Context()).ID}, "User-Agent": {"sless-apiserver"}}
	for _, name := range []string{"Accept", "Content-Type", "Traceparent", "Tracestate"} {
		if values := r.In.Header[name]; values != nil {
			header[name] = values
		}
	}
	r.Out.Header = header
}

func (h *Handlers) invoke(ctx context.Context, in *struct{ resources.Named }) (*huma.StreamResponse, error) {
	fn, err := h.function(ctx, in.Named)
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(h.Gateway.tokenFile) // the kubelet renews it
	if err != nil {
		request.From(ctx).Log.ErrorContext(ctx, "read token for the gateway", "error", err)
		return nil, problem.New(http.StatusServiceUnavailable, rest.CodeGatewayUnavailable, "this server has no access to the gateway").RetryAfter(2 * time.Second)
	}
	to := target{fn.Namespace, fn.Name, strings.TrimSpace(string(token))}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		r, w := humago.Unwrap(ctx)
		h.Gateway.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), targetKey{}, to)))
	}}, nil
}
