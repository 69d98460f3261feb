package source

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/time/rate"

	"kubecdc/change"
	"kubecdc/redact"
)

// history reads a collection's past, revision by revision, while the server still has it: until etcd is compacted,
// every five minutes by default. All reads are resourceVersionMatch=Exact, which no cache may answer with another
// revision (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions). A server that does not know
// the parameter ignores it in silence, so every answer is checked: the list has the resourceVersion that was asked for,
// and no object is newer.
type history struct {
	client       *Client
	stream       *change.Stream
	metadataOnly bool
	redactor     *redact.Redactor
	foreign      bool // kept by an aggregated server (foreign.go)
	limiter      *rate.Limiter
	requests     atomic.Int64
}

// errNoCount: the server does not say how many objects a collection holds, and it is too large to count.
var errNoCount = errors.New("the server does not count the collection (it does not with selectors), and it is too large to be listed at every revision")

// countPages bounds how many pages are read to count a collection that the server does not count.
const countPages = 4

// size is the number of objects in the collection at the revision: one request of one object, whose
// remainingItemCount tells the rest.
func (h *history) size(ctx context.Context, namespace string, revision uint64) (int64, error) {
	n, at := int64(0), strconv.FormatUint(revision, 10)
	if h.foreign {
		return h.countNames(ctx, namespace, at)
	}
	p, err := h.page(ctx, namespace, at, exactParams(h.stream, at, 1), acceptListMeta, func(object) error { n++; return nil })
	switch {
	case err != nil:
		return 0, err
	case p.continueToken == "":
		return n, nil
	case p.remaining < 0: // not counted
		return h.countNames(ctx, namespace, at)
	}
	return n + p.remaining, nil
}

func (h *history) countNames(ctx context.Context, namespace, at string) (int64, error) {
	n := int64(0)
	q := exactParams(h.stream, at, 500)
	for range countPages {
		p, err := h.page(ctx, namespace, at, q, acceptListMeta, func(object) error { n++; return nil })
		if err != nil {
			return 0, err
		}
		if p.continueToken == "" {
			return n, nil
		}
		q = listParams(h.stream, 500, p.continueToken)
	}
	return 0, errNoCount
}

// objectAt is one object as it stood at the revision: a read of one key.
func (h *history) objectAt(ctx context.Context, key string, revision uint64) (o object, exists bool, err error) {
	namespace, name := change.SplitKey(key)
	at := strconv.FormatUint(revision, 10)
	q := exactParams(h.stream, at, 0)
	q.Set("fieldSelector", joinSelectors("metadata.name="+name, h.stream.FieldSelector))
	accept := acceptJSON
	if h.metadataOnly {
		accept = acceptListMeta
	}
	_, err = h.page(ctx, namespace, at, q, accept, func(found object) error {
		if found.key() != key {
			return fmt.Errorf("%w: asked for %s by its name, the server answers with %s", errNotRecoverable, key, found.key())
		}
		o, exists = found, true
		return nil
	})
	if exists {
		err = o.tell(h.redactor, &h.stream.Resource)
	}
	return o, exists, err
}

// namesAt calls visit for every object of the collection as it stood at the revision: identities only.
func (h *history) namesAt(ctx context.Context, namespace string, revision uint64, visit func(object) error) error {
	at := strconv.FormatUint(revision, 10)
	q := exactParams(h.stream, at, onePage)
	for {
		p, err := h.page(ctx, namespace, at, q, acceptListMeta, visit)
		if err != nil || p.continueToken == "" {
			return err
		}
		q = listParams(h.stream, onePage, p.continueToken)
	}
}

// page makes one request of what was at a resourceVersion, under the budget. What may pass (429, 5xx, a lost connection)
// is tried again for a while; nothing is visited twice by that, since a page is collected before it is visited.
func (h *history) page(ctx context.Context, namespace, at string, q url.Values, accept string, visit func(object) error) (page, error) {
	if h.stream.Namespace != "" {
		namespace = h.stream.Namespace
	}
	path := collectionPath(h.stream.Resource, namespace)
	var items [][]byte
	read := func() (page, error) {
		if err := h.limiter.Wait(ctx); err != nil {
			return page{}, backoff.Permanent(err)
		}
		h.requests.Add(1)
		items = items[:0]
		p, err := h.readOnce(ctx, path, q, accept, func(_ *page, raw []byte) error {
			items = append(items, raw)
			return nil
		})
		if after := retryAfter(err); after > 0 {
			return p, backoff.RetryAfter(int(after.Seconds()))
		}
		if isGone(err) || isRefused(err) || isInvalid(err) || isUnreadable(err) {
			return p, backoff.Permanent(err)
		}
		return p, err
	}
	p, err := backoff.Retry(ctx, read, backoff.WithMaxElapsedTime(30*time.Second))
	if err != nil {
		return p, fmt.Errorf("read the past of %s: %w", path, err)
	}
	if change.CompareVersions(p.version, at) != 0 {
		return p, fmt.Errorf("%w: asked for %s at resourceVersion %s, the server answers with %s: it ignores resourceVersionMatch=Exact",
			errNotRecoverable, path, at, p.version)
	}
	for _, raw := range items {
		o, err := parseObject(raw)
		if err == nil && change.CompareVersions(o.version, at) > 0 {
			err = fmt.Errorf("%w: asked for %s at resourceVersion %s, the server answers with %s at %s: it ignores resourceVersionMatch=Exact",
				errNotRecoverable, path, at, o.key(), o.version)
		}
		if err == nil {
			err = visit(o)
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

func (h *history) readOnce(ctx context.Context, path string, q url.Values, accept string, visit func(*page, []byte) error) (page, error) {
	body, err := h.client.get(ctx, path, q, accept)
	if err != nil {
		return page{}, err
	}
	defer body.Close()
	return readPage(body, visit)
}
