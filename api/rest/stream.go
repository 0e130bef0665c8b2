package rest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// setArchive makes an archive the body, with its digest, so that the server can refuse bytes that were damaged.
func (c *call) setArchive(archive io.ReadSeeker) error {
	hash := sha256.New()
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read archive: %w", err)
	}
	size, err := io.Copy(hash, archive)
	if err != nil {
		return fmt.Errorf("read archive: %w", err)
	}
	c.header.Set("Content-Type", "application/zip")
	c.header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(hash.Sum(nil))+":")
	c.body, c.size = archive, size
	return nil
}

// Upload stores a zip archive and returns the key for source.s3. The same bytes twice are stored once.
func (c *Client) Upload(ctx context.Context, namespace string, archive io.ReadSeeker) (SourceUpload, error) {
	var uploaded SourceUpload
	call := newCall(http.MethodPost, "namespaces", namespace, "sources")
	call.repeatable = true
	if err := call.setArchive(archive); err != nil {
		return uploaded, err
	}
	response, err := c.do(ctx, call)
	if err != nil {
		return uploaded, err
	}
	return uploaded, answer(response, &uploaded)
}

// PutCode uploads a zip archive and makes it the function's source. codeHash becomes its code_hash; empty stands for the archive's SHA-256.
func (c *Client) PutCode(ctx context.Context, namespace, name string, archive io.ReadSeeker, codeHash string, options ...Option) (Stored[Function], error) {
	functions := c.Functions(namespace)
	call := functions.call(http.MethodPut, name, "code")
	if codeHash != "" {
		call.query.Set("code_hash", codeHash)
	}
	if err := call.setArchive(archive); err != nil {
		return Stored[Function]{}, err
	}
	return functions.object(ctx, call, options)
}

// GetCode returns the function's code as a zip archive; the caller closes it.
func (c *Client) GetCode(ctx context.Context, namespace, name string) (io.ReadCloser, error) {
	response, err := c.do(ctx, c.Functions(namespace).call(http.MethodGet, name, "code"))
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// LogOptions choose what a log has.
type LogOptions struct {
	// Follow goes on with what is written from now, until the context ends.
	Follow bool
	// Tail is how many of the last lines of each replica to begin with; 0 is the server's default.
	Tail int
	// Since leaves out what is older; 0 is from the beginning.
	Since time.Duration
	// Build is for the log of the last build instead of that of the replicas.
	Build bool
	// RequestID leaves out all lines but those of one request, or of a job, whose uid it is (UID-N: of its run N). Tail counts these.
	RequestID string
}

// Logs returns the lines of all replicas of a function, each after its pod's name; the caller closes it.
func (c *Client) Logs(ctx context.Context, namespace, name string, options LogOptions) (io.ReadCloser, error) {
	call := c.Functions(namespace).call(http.MethodGet, name, "logs")
	if options.Follow {
		call.query.Set("follow", "true")
	}
	if options.Tail > 0 {
		call.query.Set("tail", strconv.Itoa(options.Tail))
	}
	if options.Since > 0 {
		call.query.Set("since", strconv.Itoa(int((options.Since+time.Second-1)/time.Second)))
	}
	if options.Build {
		call.query.Set("build", "true")
	}
	if options.RequestID != "" {
		call.query.Set("request_id", options.RequestID)
	}
	response, err := c.do(ctx, call)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// Invoke calls a function with a JSON event and returns the JSON of what it returned. It is never repeated by itself.
func (c *Client) Invoke(ctx context.Context, namespace, name string, event []byte) ([]byte, error) {
	call := c.Functions(namespace).call(http.MethodPost, name, "invoke")
	call.header.Set("Content-Type", "application/json")
	call.body, call.size = bytes.NewReader(event), int64(len(event))
	response, err := c.do(ctx, call)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	result, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return result, nil
}
