package apiclient

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// contact is the time at which the API server was last heard, over all connections of a client and of the clients made from it.
// Any byte of an answer counts, and any event of a watch. So no request need be made for that while a stream is read.
type contact struct {
	created time.Time
	heard   atomic.Int64 // nanoseconds after created; 0: never
}

func newContact() *contact { return &contact{created: time.Now()} }

func (c *contact) record() { c.heard.Store(max(int64(time.Since(c.created)), 1)) }

// Heard returns when the API server last sent something, or zero if it never has.
func (c *Client) Heard() time.Time {
	if after := c.contact.heard.Load(); after > 0 {
		return c.contact.created.Add(time.Duration(after))
	}
	return time.Time{}
}

// usedConnection is how long a probe waits for an answer over a connection that is in use, before it makes a new one. Behind a
// load balancer that may lead to another API server.
const usedConnection = 2 * time.Second

// Probe returns nil if the API server answers. Any status is an answer, even 401 and 429. If a proxy answers that it can't reach
// the API server, that is no answer.
func (c *Client) Probe(ctx context.Context) error {
	used, cancel := context.WithTimeout(ctx, usedConnection)
	defer cancel()
	err := c.answers(used)
	if err == nil || used.Err() == nil {
		return err
	}
	fresh, err := c.Fresh()
	if err != nil {
		return err
	}
	return fresh.answers(ctx)
}

// answers asks for a document that costs the API server nothing, and that everybody may read.
func (c *Client) answers(ctx context.Context) error {
	body, _, err := c.ask(ctx, "/version", nil, acceptJSON)
	if err == nil {
		return body.Close()
	}
	if isAnswer(err) {
		return nil
	}
	return err
}

// isAnswer reports an error that the API server itself has sent: a proxy that can't reach it says 502, 503 or 504, and no Status.
func isAnswer(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && (status.Status().Kind == "Status" || status.Status().Code < http.StatusInternalServerError)
}
