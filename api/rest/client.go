package rest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// Config says how a Client reaches its server.
type Config struct {
	// Endpoint is the server's URL: https://api.functions.example.org.
	Endpoint string
	// Token is the bearer token.
	Token string
	// TokenFile is a file with the token, read again when the server does not take it any more. Used when Token is empty.
	TokenFile string
	// CACert is a PEM bundle to trust besides the system's.
	CACert []byte
	// Insecure takes any certificate of the server.
	Insecure bool
	// UserAgent names the program.
	UserAgent string
	// RetryFor is how long a call that may be repeated is repeated. Default 30 s; negative: never.
	RetryFor time.Duration
}

// Client calls the API. It may be used by many goroutines.
type Client struct {
	config   Config
	endpoint *url.URL
	http     *http.Client

	mu    sync.Mutex // guards token
	token string
}

// NewClient returns a client. It makes no call.
func NewClient(config Config) (*Client, error) {
	endpoint, err := url.Parse(strings.TrimRight(config.Endpoint, "/"))
	if err != nil || endpoint.Host == "" || (endpoint.Scheme != "http" && endpoint.Scheme != "https") {
		return nil, errors.New("endpoint must be an http or https URL")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 32
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: config.Insecure}
	if len(config.CACert) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(config.CACert) {
			return nil, errors.New("the CA bundle has no certificate")
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	if config.RetryFor == 0 {
		config.RetryFor = 30 * time.Second
	}
	client := &Client{config: config, endpoint: endpoint, token: config.Token, http: &http.Client{
		Transport: transport,
		// The token is for this server alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if config.Token == "" && config.TokenFile != "" {
		if _, err := client.reread(""); err != nil {
			return nil, err
		}
	}
	return client, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) currentToken() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token
}

// reread reads the token file and says whether the token is another than refused.
func (c *Client) reread(refused string) (bool, error) {
	if c.config.TokenFile == "" || c.config.Token != "" {
		return false, nil
	}
	text, err := os.ReadFile(c.config.TokenFile)
	if err != nil {
		return false, fmt.Errorf("read token: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = strings.TrimSpace(string(text))
	return c.token != refused, nil
}

// call is one request, which may be sent more than once.
type call struct {
	method string
	path   []string // segments, to be escaped
	query  url.Values
	header http.Header
	// body is read from its beginning for each attempt; nil for none.
	body io.ReadSeeker
	size int64
	// repeatable says that sending it twice does what sending it once does.
	repeatable bool
}

func newCall(method string, path ...string) *call {
	return &call{method: method, path: path, query: url.Values{}, header: http.Header{}, repeatable: method != http.MethodPost}
}

func (c *call) setJSON(media string, value any) error {
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	c.header.Set("Content-Type", media)
	c.body, c.size = bytes.NewReader(encoded), int64(len(encoded))
	return nil
}

// Option changes one call.
type Option func(*call)

// IfMatch makes a write fail with CodePreconditionFailed when the object's ETag is another.
func IfMatch(etag string) Option {
	return func(c *call) {
		c.header.Set("If-Match", etag)
		c.repeatable = false // the second would find the first's ETag
	}
}

// IfAbsent makes a Replace fail with CodePreconditionFailed when the object exists.
func IfAbsent() Option {
	return func(c *call) {
		c.header.Set("If-None-Match", "*")
		c.repeatable = false
	}
}

// WaitReady makes a write answer when the change serves or has failed, at the latest after the given time.
func WaitReady(atMost time.Duration) Option { return wait("ready", atMost) }

// WaitGone makes a Delete answer when the object is gone, at the latest after the given time.
func WaitGone(atMost time.Duration) Option { return wait("gone", atMost) }

func wait(word string, atMost time.Duration) Option {
	return func(c *call) {
		c.query.Set("wait", word)
		c.header.Set("Prefer", fmt.Sprintf("wait=%d", int((atMost+time.Second-1)/time.Second)))
	}
}

// IdempotencyKey makes the creation of a job happen once for the key, however often it is asked for.
func IdempotencyKey(key string) Option {
	return func(c *call) {
		c.header.Set("Idempotency-Key", key)
		c.repeatable = true
	}
}

// Fresh makes a Get read what others have written a moment ago too.
func Fresh() Option { return func(c *call) { c.header.Set("Cache-Control", "no-cache") } }

// answer reads the JSON of a good answer into value, if value is not nil.
func answer(response *http.Response, value any) error {
	defer response.Body.Close()
	if value == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // so that the connection can be used again
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(value); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}

// failure reads the problem of a bad answer.
func failure(response *http.Response) *Problem {
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // half a problem is none, see below
	problem := &Problem{}
	if json.Unmarshal(body, problem) != nil || problem.Code == "" {
		problem = NewProblem(response.StatusCode, "unknown", "the server, or something before it, answered "+response.Status)
	}
	problem.Status = response.StatusCode
	if problem.RequestID == "" {
		problem.RequestID = response.Header.Get("X-Request-Id")
	}
	return problem
}

// IsNotFound says whether err is that the object does not exist.
func IsNotFound(err error) bool { return hasCode(err, CodeNotFound) }

// IsAlreadyExists says whether err is that the name is taken.
func IsAlreadyExists(err error) bool { return hasCode(err, CodeAlreadyExists) }

func hasCode(err error, code string) bool {
	problem, ok := errors.AsType[*Problem](err)
	return ok && problem.Code == code
}

// do sends the call, again if need be, and returns a good answer.
func (c *Client) do(ctx context.Context, call *call) (*http.Response, error) {
	attempts := &attempts{until: time.Now().Add(c.config.RetryFor)}
	renewed := false
	for {
		token := c.currentToken()
		response, err := c.send(ctx, call, token)
		if err == nil && response.StatusCode < 300 {
			return response, nil
		}
		var problem *Problem
		var header http.Header
		if err == nil {
			header = response.Header
			problem = failure(response)
			err = problem
			if response.StatusCode == http.StatusUnauthorized && !renewed {
				renewed = true
				if changed, rereadErr := c.reread(token); rereadErr == nil && changed {
					continue
				}
			}
		}
		if ctx.Err() != nil || !retryable(call, problem) || !attempts.pause(ctx, header) {
			return nil, err
		}
	}
}

// send sends the call once.
func (c *Client) send(ctx context.Context, call *call, token string) (*http.Response, error) {
	target := *c.endpoint
	escaped := make([]string, len(call.path))
	for i, segment := range call.path {
		escaped[i] = url.PathEscape(segment)
	}
	target.RawPath = strings.TrimRight(target.EscapedPath(), "/") + "/v1/" + strings.Join(escaped, "/")
	target.Path = strings.TrimRight(target.Path, "/") + "/v1/" + strings.Join(call.path, "/")
	target.RawQuery = call.query.Encode()
	var body io.Reader
	if call.size > 0 {
		if _, err := call.body.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("read request body: %w", err)
		}
		body = io.NopCloser(call.body)
	}
	request, err := http.NewRequestWithContext(ctx, call.method, target.String(), body)
	if err != nil {
		return nil, err
	}
	if call.size > 0 {
		request.ContentLength = call.size
	}
	for name, values := range call.header {
		request.Header[name] = values
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if c.config.UserAgent != "" {
		request.Header.Set("User-Agent", c.config.UserAgent)
	}
	return c.http.Do(request)
}
