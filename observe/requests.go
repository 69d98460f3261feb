package observe

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"kubecdc/source/reflector"
)

const (
	verbGet   = "get"
	verbList  = "list"
	verbWatch = "watch"
	codeError = "error"
)

type roundTripper struct {
	next http.RoundTripper
	*Metrics
}

// CountRequests returns a transport that counts the requests to the API server.
func (m *Metrics) CountRequests(next http.RoundTripper) http.RoundTripper {
	return &roundTripper{next, m}
}

// WrappedRoundTripper returns the transport below this one, for libraries that search for it.
func (t *roundTripper) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	switch {
	case err == nil:
		t.unanswered.Store(false)
		t.requests.WithLabelValues(verbOf(req), strconv.Itoa(resp.StatusCode)).Inc()
	case !isGivenUp(req.Context()):
		t.unanswered.Store(true)
		t.requests.WithLabelValues(verbOf(req), codeError).Inc()
	}
	return resp, err
}

// isGivenUp reports whether the exporter does not want the answer any more: it stops, hands over a slot, or a session fails.
func isGivenUp(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return cause != nil && !errors.Is(cause, reflector.ErrIdle) && !errors.Is(cause, context.DeadlineExceeded)
}

// verbOf returns the verb of a request in the API server's rules and metrics.
func verbOf(req *http.Request) string {
	switch req.Method {
	case http.MethodGet:
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	default:
		return strings.ToLower(req.Method)
	}
	query := req.URL.Query()
	switch {
	case query.Get("watch") != "":
		return verbWatch
	case query.Get("limit") != "":
		return verbList
	}
	return verbGet
}
