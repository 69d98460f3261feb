package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cenkalti/backoff/v5"

	"kubecdc/change"
	"kubecdc/redact"
	"kubecdc/source/apiclient"
)

// ExactReads is the History of an API server, which has it until etcd is compacted: every five minutes by default. All reads use
// resourceVersionMatch=Exact. No cache may answer them with another revision
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions). Nothing can be recovered from a server that
// ignores the parameter (apiclient.ErrNotExact).
type ExactReads struct {
	client       *apiclient.Client
	stream       *change.Stream
	metadataOnly bool
	redactor     *redact.Redactor
	aggregated   bool
	limiter      *Limiter
	requests     *atomic.Int64
	optional     bool            // a refusal is not waited out
	bodyBytes    atomic.Int64    // the average size of a body
	bodies       atomic.Int64    // that were read
	large        chan struct{}   // an element for each read of large bodies that runs
	names, full  *apiclient.Pace // the paces of lists of identities, and of lists with bodies
	unreadable   atomic.Bool     // a revision was found that the server fails to read

	// Failed, if not nil, is called after each failed request.
	Failed func()
}

// Bodies of largeBody bytes and more are read largeAtOnce at a time, since they are held in memory.
const largeBody, largeAtOnce = 64 << 10, 4

// errUnreadable reports a revision that the server has and can't read, although it lists the present. The collection then had an
// object in a version of its resource that the server does not know any more.
var errUnreadable = errors.New("the server can't read its collection as it was at a revision")

// IsLost reports that the collection's state at a revision can't be read any more.
func IsLost(err error) bool { return apiclient.IsGone(err) || errors.Is(err, errUnreadable) }

// NewExactReads returns the history of a stream's collection, read through its API server. aggregated says that another API
// server keeps the collection, whose remainingItemCount is an estimate. pace knows how long lists of the collection take, or is
// nil.
func NewExactReads(client *apiclient.Client, stream *change.Stream, metadataOnly bool, redactor *redact.Redactor, aggregated bool,
	limiter *Limiter, pace *apiclient.Pace) *ExactReads {
	h := &ExactReads{client: client, stream: stream, metadataOnly: metadataOnly, redactor: redactor, aggregated: aggregated,
		limiter: limiter, requests: &atomic.Int64{}, large: make(chan struct{}, largeAtOnce),
		names: pace.Upto(largestPage), full: pace.Upto(largestPage)}
	h.bodyBytes.Store(firstBodyBytes)
	return h
}

// SameCluster makes sure that all that was read came from the exported cluster. Each later read makes sure of that itself
// (apiclient.Client.Loosely).
func (h *ExactReads) SameCluster(ctx context.Context) error {
	h.client = h.client.Strictly()
	return h.client.SameCluster(ctx)
}

// ForWitness returns the history of another collection, without bodies. It does not wait for the end of a refusal, since the
// collection need not be readable. Its requests are counted with the requests of h.
func (h *ExactReads) ForWitness(s *change.Stream) *ExactReads {
	other := NewExactReads(h.client, s, true, nil, false, h.limiter, nil)
	other.requests, other.optional = h.requests, true
	return other
}

// Requests returns how many requests were made, including those of its witnesses.
func (h *ExactReads) Requests() int { return int(h.requests.Load()) }

// errNoSize reports that the server does not return the size of the collection, and that the collection is too large to count.
var errNoSize = errors.New("the server does not return the size of the collection (with selectors it never does), " +
	"and the collection is too large to be listed at every revision")

// countMost is how many objects are listed to count a collection.
const countMost = 2000

// pageTries take half a minute: the pauses between them grow from half a second. Waiting for the limiter is not counted.
const pageTries = 10

// internalTries is how often a read gets a 500, while the present can be listed, until its revision counts as unreadable. Once is
// enough if the collection already has such a revision.
const internalTries = 3

// Size returns the number of objects in the collection at the revision. It requests one object, and adds the
// remainingItemCount. Without that count, and on an aggregated API server, it reads and counts all names, up to countMost. It
// fails with errNoSize if there are more.
func (h *ExactReads) Size(ctx context.Context, revision uint64) (int64, error) {
	if h.aggregated {
		return h.countNames(ctx, revision)
	}
	n, one := int64(0), apiclient.ListOptions{MetadataOnly: true, Limit: 1}
	p, err := h.page(ctx, change.VersionOf(revision), one, noBody, func(apiclient.Object) error { n++; return nil })
	switch {
	case err != nil:
		return 0, err
	case p.Continue == "":
		return n, nil
	case p.Remaining < 0: // not counted
		return h.countNames(ctx, revision)
	}
	return n + p.Remaining, nil
}

func (h *ExactReads) countNames(ctx context.Context, revision uint64) (n int64, err error) {
	err = h.Names(ctx, "", revision, func(apiclient.Object) error {
		if n++; n > countMost {
			return errNoSize
		}
		return nil
	})
	return n, err
}

func (h *ExactReads) Object(ctx context.Context, key string, revision uint64) (o apiclient.Object, exists bool, err error) {
	namespace, name := change.SplitKey(key)
	version := change.VersionOf(revision)
	byName := apiclient.ListOptions{Namespace: namespace, Name: name, MetadataOnly: h.metadataOnly}
	_, err = h.page(ctx, version, byName, anyBody, func(found apiclient.Object) error {
		if found.Key() != key {
			return fmt.Errorf("%w: asked for an object by its name, the server answers with another one", ErrNotPossible)
		}
		o, exists = found, true
		return nil
	})
	if exists {
		err = o.Prepare(h.redactor, &h.stream.Resource)
	}
	return o, exists, err
}

// Names calls visit for the identity of every object that the collection had at the revision.
func (h *ExactReads) Names(ctx context.Context, namespace string, revision uint64, visit func(apiclient.Object) error) error {
	o := apiclient.ListOptions{Namespace: namespace, MetadataOnly: true}
	return h.pages(ctx, revision, o, noBody, visit)
}

// Objects calls visit for every object that the collection had at the revision, or one namespace of it.
func (h *ExactReads) Objects(ctx context.Context, namespace string, revision, newerThan uint64,
	visit func(apiclient.Object) error) error {
	after := change.VersionOf(newerThan)
	o := apiclient.ListOptions{Namespace: namespace, MetadataOnly: h.metadataOnly}
	changed := func(o *apiclient.Object) bool { return o.Version.Compare(after) > 0 }
	return h.pages(ctx, revision, o, changed, func(found apiclient.Object) error {
		if found.Raw != nil {
			if err := found.Prepare(h.redactor, &h.stream.Resource); err != nil {
				return err
			}
		}
		return visit(found)
	})
}

// The server counts, for each page, all objects that follow, so a list costs less in larger pages. But a page is read at once, by
// the server and by a caller that wants bodies, so its size is about pageBytes.
const smallestPage, largestPage, pageBytes = 4, 10_000, 4 << 20

// firstPage is how many bodies are read until it is known how large they are.
const firstPage = 16

const firstBodyBytes = 2000

// isFull reports whether a request reads objects as they are exported, and not only their identities.
func (h *ExactReads) isFull(o *apiclient.ListOptions) bool { return !o.MetadataOnly || h.metadataOnly }

func (h *ExactReads) pageLimit(full bool) int {
	size := max(h.bodyBytes.Load(), 1)
	switch {
	case !full:
		size = min(size, firstBodyBytes)
	case h.bodies.Load() == 0:
		return firstPage
	}
	return int(min(max(pageBytes/size, smallestPage), largestPage))
}

func (h *ExactReads) recordBody(o *apiclient.Object) {
	average := h.bodyBytes.Load()
	h.bodyBytes.Store(average + (int64(len(o.Raw))-average)/min(h.bodies.Add(1), 16))
}

// pages reads all pages of the past. The objects that body selects have their bodies.
func (h *ExactReads) pages(ctx context.Context, revision uint64, o apiclient.ListOptions, body func(*apiclient.Object) bool,
	visit func(apiclient.Object) error) error {
	if o.Pace = h.names; h.isFull(&o) {
		o.Pace = h.full
	}
	for {
		o.Limit = h.pageLimit(h.isFull(&o))
		p, err := h.page(ctx, change.VersionOf(revision), o, body, visit)
		if err != nil || p.Continue == "" {
			return err
		}
		o.Continue = p.Continue
	}
}

func anyBody(*apiclient.Object) bool { return true }

func noBody(*apiclient.Object) bool { return false }

// page reads one page of the past when the limiter admits it. It repeats the request a few times after an error that may pass
// (5xx, a refusal, a lost connection, a proxy's answer that is no list). It calls visit after the complete page was read, so
// visit sees no item twice.
func (h *ExactReads) page(ctx context.Context, version change.ResourceVersion, o apiclient.ListOptions,
	body func(*apiclient.Object) bool, visit func(apiclient.Object) error) (apiclient.Page, error) {
	o.Exact = version
	path := apiclient.CollectionPath(h.stream, o.Namespace)
	var items []item
	full := h.isFull(&o)
	singleRead := o.Limit <= 1 // one object: by its name, or any
	internal := 0
	if full && h.bodyBytes.Load() >= largeBody {
		select {
		case h.large <- struct{}{}:
			defer func() { <-h.large }()
		case <-ctx.Done():
			return apiclient.Page{}, ctx.Err()
		}
	}
	read := func() (p apiclient.Page, err error) {
		err = h.limiter.Do(ctx, singleRead, func() error {
			h.requests.Add(1)
			items = items[:0]
			p, err = h.client.List(ctx, h.stream, o, func(_ *apiclient.Page, o *apiclient.Object, unreadable error) error {
				copied := *o
				if copied.Raw = nil; body(o) {
					copied.Raw = bytes.Clone(o.Raw)
				}
				if full {
					h.recordBody(o)
				}
				items = append(items, item{copied, unreadable})
				return nil
			})
			return err
		})
		if err != nil && h.Failed != nil {
			h.Failed()
		}
		if internal++; !apiclient.IsInternal(err) {
			internal = 0
		}
		switch after := apiclient.RetryAfter(err); {
		case (internal >= internalTries || apiclient.IsInternal(err) && h.unreadable.Load()) && h.listsPresent(ctx):
			h.unreadable.Store(true)
			return p, backoff.Permanent(fmt.Errorf("%w (%s): %w", errUnreadable, version, err))
		case after > 0:
			return p, backoff.RetryAfter(int(after.Seconds()))
		case errors.Is(err, apiclient.ErrNotExact):
			return p, backoff.Permanent(fmt.Errorf("%w: %w", ErrNotPossible, err))
		case h.optional && apiclient.IsRefused(err), apiclient.IsGone(err), apiclient.IsInvalid(err),
			errors.Is(err, apiclient.ErrUnsupported):
			return p, backoff.Permanent(err)
		}
		return p, err
	}
	p, err := backoff.Retry(ctx, read, backoff.WithMaxTries(pageTries), backoff.WithMaxElapsedTime(0))
	if err != nil {
		return p, fmt.Errorf("read the past of %s: %w", path, err)
	}
	for _, i := range items {
		err := i.unreadable
		if err == nil || apiclient.IsUnloggable(&i.object, err) { // that one counts, as any other
			err = visit(i.object)
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

// item is an object of a page, and why it can't be read.
type item struct {
	object     apiclient.Object
	unreadable error
}

func (h *ExactReads) listsPresent(ctx context.Context) bool {
	return nil == h.limiter.Do(ctx, false, func() error {
		h.requests.Add(1)
		_, err := h.client.First(ctx, h.stream)
		return err
	})
}
