package source

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/time/rate"

	"kubecdc/change"
)

// history reads a collection's past, revision by revision, while the server still has it: until etcd is compacted,
// every five minutes by default. All reads are resourceVersionMatch=Exact, which no cache may answer with another
// revision (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions).
type history struct {
	client       *Client
	stream       *change.Stream
	metadataOnly bool
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
	n, version := int64(0), strconv.FormatUint(revision, 10)
	p, err := h.page(ctx, namespace, exactParams(h.stream, version, 1), acceptListMeta, func([]byte) error { n++; return nil })
	switch {
	case err != nil:
		return 0, err
	case p.continueToken == "":
		return n, nil
	case p.remaining < 0: // not counted
		return h.countNames(ctx, namespace, version)
	}
	return n + p.remaining, nil
}

func (h *history) countNames(ctx context.Context, namespace, version string) (int64, error) {
	n := int64(0)
	q := exactParams(h.stream, version, 500)
	for range countPages {
		p, err := h.page(ctx, namespace, q, acceptListMeta, func([]byte) error { n++; return nil })
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
	namespace, name := splitKey(key)
	q := exactParams(h.stream, strconv.FormatUint(revision, 10), 0)
	q.Set("fieldSelector", joinSelectors("metadata.name="+name, h.stream.FieldSelector))
	accept := acceptJSON
	if h.metadataOnly {
		accept = acceptListMeta
	}
	_, err = h.page(ctx, namespace, q, accept, func(raw []byte) error {
		o, err = parseObject(raw)
		exists = err == nil
		return err
	})
	if exists {
		o.raw = o.withType(&h.stream.Resource)
	}
	return o, exists, err
}

// namesAt calls visit for every object of the collection as it stood at the revision: identities only.
func (h *history) namesAt(ctx context.Context, namespace string, revision uint64, visit func(object) error) error {
	q := exactParams(h.stream, strconv.FormatUint(revision, 10), onePage)
	for {
		p, err := h.page(ctx, namespace, q, acceptListMeta, func(raw []byte) error {
			o, err := parseObject(raw)
			if err != nil {
				return err
			}
			return visit(o)
		})
		if err != nil || p.continueToken == "" {
			return err
		}
		q = listParams(h.stream, onePage, p.continueToken)
	}
}

// page makes one request, under the budget. What may pass (429, 5xx, a lost connection) is tried again for a while;
// nothing is visited twice by that, since a page is collected before it is visited.
func (h *history) page(ctx context.Context, namespace string, q url.Values, accept string, visit func([]byte) error) (page, error) {
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
		if isGone(err) || isRefused(err) || isInvalid(err) {
			return p, backoff.Permanent(err)
		}
		return p, err
	}
	p, err := backoff.Retry(ctx, read, backoff.WithMaxElapsedTime(30*time.Second))
	if err != nil {
		return p, fmt.Errorf("read the past of %s: %w", path, err)
	}
	for _, raw := range items {
		if err := visit(raw); err != nil {
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

// Claims are revisions that are known to be changes of some stream's objects. etcd writes one key at a revision
// (but for the expiry of a lease, which only Events use: many Events at one), so no other stream need look there.
type Claims struct {
	mu     sync.Mutex
	owners map[uint64]string
	older  map[uint64]string
}

// claimsKept bounds the memory: so many are remembered at least, twice as many at most.
const claimsKept = 200_000

func (c *Claims) add(revision uint64, stream string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owners == nil || len(c.owners) >= claimsKept {
		c.older, c.owners = c.owners, map[uint64]string{}
	}
	c.owners[revision] = stream
}

// between calls explained for every revision in (from, to] at which another stream's objects changed. The streams
// of a process have no object in common (each is another resource or namespace), so nothing of this one changed there.
func (c *Claims) between(from, to uint64, stream string, explained func(revision uint64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, owners := range []map[uint64]string{c.owners, c.older} {
		for revision, owner := range owners {
			if owner != stream && revision > from && revision <= to {
				explained(revision)
			}
		}
	}
}
