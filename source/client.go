package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kubecdc/change"
)

// Client makes the list and watch requests, and hands back the server's own bytes. Connection, TLS and
// credentials (their rotation too) are client-go's.
type Client struct {
	http   *http.Client
	config *rest.Config
	base   *url.URL
	quiet  time.Duration // a connection that says nothing for so long is half open
	mute   bool          // errors quote no answer that is no Status: it could be an object
}

// NewClient prepares a client; it makes no request.
func NewClient(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.DisableCompression = true // the list is read at memory speed on one network; gzip costs both sides CPU
	if config.UserAgent == "" {
		config.UserAgent = "kubecdc"
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address %q: %w", config.Host, err)
	}
	hc, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to %s: %w", config.Host, err)
	}
	hc.Timeout = 0
	return &Client{http: hc, config: config, base: base, quiet: DefaultOptions().Quiet}, nil
}

// Host is the API server's address, for messages.
func (c *Client) Host() string { return c.base.Host }

// patience is the same client, on the same connections, with another idea of how long is too long.
func (c *Client) patience(quiet time.Duration) *Client {
	same := *c
	same.quiet = quiet
	return &same
}

// get makes one request and returns the body of a 200; any other answer is an *apierrors.StatusError. Where no byte
// comes for the time quiet the connection is half open: errSilent.
func (c *Client) get(ctx context.Context, path string, query url.Values, accept string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	silent := time.AfterFunc(c.quiet, func() { cancel(errSilent) })
	body, err := c.do(ctx, path, query, accept)
	silent.Stop()
	if err != nil {
		if errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		cancel(nil)
		return nil, err
	}
	return &quietBody{body: body, ctx: ctx, cancel: cancel, silent: silent, quiet: c.quiet}, nil
}

func (c *Client) do(ctx context.Context, path string, query url.Values, accept string) (io.ReadCloser, error) {
	u := *c.base
	u.Path = singleSlash(u.Path, path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	return nil, readStatus(resp, c.mute)
}

func singleSlash(base, path string) string {
	for len(base) > 0 && base[len(base)-1] == '/' {
		base = base[:len(base)-1]
	}
	return base + path
}

// readStatus turns a refusal into an error; a body that is no Status (plain text, or a proxy's page) becomes its message.
func readStatus(resp *http.Response, mute bool) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	status := metav1.Status{}
	if json.Unmarshal(body, &status) != nil || status.Kind != "Status" {
		message := snippet(body)
		switch {
		case mute:
			message = fmt.Sprintf("an answer of %d bytes that is no Status, not shown since objects of this stream are redacted", len(body))
		case strings.HasPrefix(message, "<"): // an API server's own are plain text
			message = "an HTML page, as a proxy answers: " + message
		}
		status = metav1.Status{Status: metav1.StatusFailure, Reason: reasonOf(resp.StatusCode), Message: message}
	}
	status.Code = int32(resp.StatusCode)
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		if status.Details == nil {
			status.Details = &metav1.StatusDetails{}
		}
		status.Details.RetryAfterSeconds = max(status.Details.RetryAfterSeconds, int32(seconds))
	}
	return &apierrors.StatusError{ErrStatus: status}
}

func reasonOf(code int) metav1.StatusReason {
	reasons := map[int]metav1.StatusReason{
		http.StatusUnauthorized: metav1.StatusReasonUnauthorized, http.StatusForbidden: metav1.StatusReasonForbidden,
		http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusGone: metav1.StatusReasonExpired,
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusGatewayTimeout: metav1.StatusReasonTimeout,
		http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
	}
	if r, ok := reasons[code]; ok {
		return r
	}
	return metav1.StatusReasonInternalError
}

// snippet is the beginning of a body, on one line.
func snippet(body []byte) string {
	return strings.Join(strings.Fields(string(body[:min(len(body), 300)])), " ")
}

// collectionPath is the URL path of a stream's collection.
func collectionPath(r change.Resource, namespace string) string {
	path := versionPath(r.Group, r.Version)
	if namespace != "" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	return path + "/" + r.Plural
}

// versionPath is the URL path of a version of a group.
func versionPath(group, version string) string {
	if group == "" {
		return "/api/" + version
	}
	return "/apis/" + group + "/" + version
}

// fresh is the same client on connections of its own: behind a load balancer they may lead to another API server.
func (c *Client) fresh() (*Client, error) {
	config := rest.CopyConfig(c.config)
	if config.Proxy == nil {
		config.Proxy = http.ProxyFromEnvironment // the default, but said here it keeps client-go from sharing the transport
	}
	fresh, err := NewClient(config)
	if err != nil {
		return nil, err
	}
	fresh.quiet, fresh.mute = c.quiet, c.mute
	c.http.CloseIdleConnections()
	return fresh, nil
}

// read gets one small document whole.
func (c *Client) read(ctx context.Context, path string) ([]byte, error) {
	return c.readAs(ctx, path, acceptJSON)
}

func (c *Client) readAs(ctx context.Context, path, accept string) ([]byte, error) {
	body, err := c.get(ctx, path, nil, accept)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, 64<<20))
}
