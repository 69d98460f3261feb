// Package apiclient implements the client side of an API server's list and watch protocol: requests, pages, events, errors. It
// returns the server's own bytes and finds in each object only what the protocol needs (namespace, name, uid,
// resourceVersion). It keeps no state of a stream: its callers decide how a stream answers a response.
package apiclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/internal/kubeapi"
	"kubecdc/internal/rawjson"
)

// DefaultIdle is the idle timeout of a new client: the time of three bookmarks, which come once a minute.
const DefaultIdle = 3 * time.Minute

// Client makes the requests. client-go provides the connection, TLS and credentials, and renews them.
type Client struct {
	http     *http.Client
	config   *rest.Config
	base     *url.URL
	idle     time.Duration // a connection without a byte for so long is half open
	withhold bool          // errors quote a response only if it is a Status: else it could be an object

	contact    *contact      // with the server (contact.go)
	road       *road         // to the server (road.go)
	cluster    *cluster      // that is read (cluster.go)
	checks     *checks       // whether it still is, over these connections
	checkedFor time.Duration // how long a check is valid, or 0 if each answer needs its own
}

// New prepares a client. It makes no request.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.DisableCompression = true // road.go decides
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
	return &Client{http: hc, config: config, base: base, idle: DefaultIdle,
		contact: newContact(), road: &road{},
		cluster: &cluster{found: make(chan struct{}), flows: map[string]bool{}, followed: map[string]map[string]int64{}},
		checks:  &checks{answers: map[net.Conn]time.Time{}}}, nil
}

// ProxyName returns the name of the proxy between client and server, for messages, or "" if there is none.
func (c *Client) ProxyName() string { return kubeapi.ProxyOf(c.config, c.base) }

// Host returns the API server's address, for messages.
func (c *Client) Host() string { return c.base.Host }

// With returns a client on the same connections with another idle timeout. withhold keeps responses out of errors, since they
// could be objects that must be redacted.
func (c *Client) With(idle time.Duration, withhold bool) *Client {
	same := *c
	same.idle, same.withhold = idle, withhold
	return &same
}

// ask makes one request and returns the body of a 200, unless it is HTML. Any other answer is an *apierrors.StatusError. Reads
// fail with ErrIdle if no byte comes for the client's idle timeout: the connection is then half open.
func (c *Client) ask(ctx context.Context, path string, query url.Values, accept string) (_ io.ReadCloser, from origin,
	err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(c.idle, func() { cancel(ErrIdle) })
	body, from, err := c.do(ctx, path, query, accept)
	timer.Stop()
	if err != nil {
		if errors.Is(context.Cause(ctx), ErrIdle) {
			err = ErrIdle
		}
		cancel(nil)
		return nil, from, err
	}
	return &idleBody{body: body, ctx: ctx, cancel: cancel, timer: timer, idle: c.idle, contact: c.contact}, from, nil
}

func (c *Client) do(ctx context.Context, path string, query url.Values, accept string) (_ io.ReadCloser, from origin, err error) {
	ctx, used := withConnection(ctx)
	asked := time.Now()
	resp, err := c.send(ctx, path, query, accept)
	if err != nil {
		return nil, from, err
	}
	from = originOf(resp)
	c.checks.answered(used.ifShared(from.multiplexed), asked)
	if resp.StatusCode == http.StatusOK && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		c.contact.record()
		return resp.Body, from, nil
	}
	defer resp.Body.Close()
	if err = readStatus(resp, c.withhold); isAnswer(err) {
		c.contact.record()
	}
	return nil, from, err
}

func (c *Client) send(ctx context.Context, path string, query url.Values, accept string) (*http.Response, error) {
	u := *c.base
	u.Path = strings.TrimRight(u.Path, "/") + path
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(c.checks.noticeConnections(ctx), http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	if c.compresses(query) {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	resp, err := c.roundTrip(req)
	if err == nil {
		decompress(resp)
	}
	return resp, err
}

// readStatus returns the error of any response but a 200, and of a page that a proxy sends as 200. A body that is not a Status
// (plain text, or a page) becomes the message.
func readStatus(resp *http.Response, withhold bool) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	status := metav1.Status{}
	if json.Unmarshal(body, &status) != nil || status.Kind != "Status" {
		message := snippet(body)
		switch {
		case withhold:
			message = fmt.Sprintf("an answer of %d bytes that is no Status, not shown since objects of this stream are redacted",
				len(body))
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

// snippet returns the beginning of a body on one line.
func snippet(body []byte) string {
	return strings.Join(strings.Fields(string(body[:min(len(body), 300)])), " ")
}

// CollectionPath returns the URL path of a collection, or of the part of it in one namespace.
func CollectionPath(s *change.Stream, namespace string) string {
	if s.Namespace != "" {
		namespace = s.Namespace
	}
	path := VersionPath(s.Resource.Group, s.Resource.Version)
	if namespace != "" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	return path + "/" + s.Resource.Plural
}

// VersionPath returns the URL path of a version of a group.
func VersionPath(group, version string) string {
	if group == "" {
		return "/api/" + version
	}
	return "/apis/" + group + "/" + version
}

// Fresh returns a client with new connections: behind a load balancer they may lead to another API server. All that ask within a
// second share them, as the streams of a process do after a restart of an API server.
func (c *Client) Fresh() (*Client, error) {
	defer c.http.CloseIdleConnections()
	s := c.cluster
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil || s.newest.checks == c.checks || time.Since(s.newestSince) > freshFor {
		config := rest.CopyConfig(c.config)
		if config.Proxy == nil {
			// the default. Set explicitly, it prevents that client-go shares the transport
			config.Proxy = http.ProxyFromEnvironment
		}
		newest, err := New(config)
		if err != nil {
			return nil, err
		}
		s.newest, s.newestSince = newest, time.Now()
	}
	fresh := *s.newest
	fresh.idle, fresh.withhold, fresh.contact, fresh.cluster, fresh.checkedFor, fresh.road =
		c.idle, c.withhold, c.contact, c.cluster, c.checkedFor, c.road
	return &fresh, nil
}

// freshFor is how long new connections count as fresh for others.
const freshFor = time.Second

// maxDocument is the largest answer in bytes that is read as one document.
const maxDocument = 64 << 20

// Read returns the JSON answer to a GET of the path. An answer above maxDocument is an error.
func (c *Client) Read(ctx context.Context, path string) ([]byte, error) {
	return c.readAs(ctx, path, acceptJSON)
}

func (c *Client) readAs(ctx context.Context, path, accept string) ([]byte, error) {
	body, _, err := c.get(ctx, path, nil, accept)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxDocument+1))
	if len(text) > maxDocument {
		return nil, fmt.Errorf("read %s: the answer has more than %d MiB", path, maxDocument>>20)
	}
	return text, err
}

// ReadJSON reads one document and decodes it. accept is the Accept header, or "" for plain JSON.
func (c *Client) ReadJSON(ctx context.Context, path, accept string, into any) error {
	if accept == "" {
		accept = acceptJSON
	}
	raw, err := c.readAs(ctx, path, accept)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read %s: %w", path, errors.Join(rawjson.ErrMalformed, err))
	}
	return nil
}

// AtLeast reports whether the server's version is at least this one.
func (c *Client) AtLeast(ctx context.Context, major, minor int) (bool, error) {
	var v struct{ Major, Minor string }
	if err := c.ReadJSON(ctx, "/version", "", &v); err != nil {
		return false, err
	}
	gotMajor, err1 := strconv.Atoi(v.Major)
	gotMinor, err2 := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	return err1 == nil && err2 == nil && (gotMajor > major || gotMajor == major && gotMinor >= minor), nil
}
