package apiclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/cenkalti/backoff/v5"

	"kubecdc/change"
)

// requestTries take half a minute: the pauses between them grow from half a second. internalTries is how often the answer may be
// a 500, since the server may answer this request so for ever.
const requestTries, internalTries = 10, 3

// Repeat makes a request, and repeats it after an error that may pass. So an operation of many requests need not begin again when
// one of them fails. It does not repeat a request after ErrIdle, since the connection is lost.
func Repeat[T any](ctx context.Context, request func() (T, error)) (T, error) {
	internal := 0
	return backoff.Retry(ctx, func() (T, error) {
		result, err := request()
		if IsInternal(err) {
			internal++
		}
		after := RetryAfter(err)
		switch {
		case err == nil:
		case !IsOverload(err) || errors.Is(err, ErrIdle) || internal >= internalTries:
			err = backoff.Permanent(err)
		case after > 0:
			err = backoff.RetryAfter(int(after.Seconds()))
		}
		return result, err
	}, backoff.WithMaxTries(requestTries), backoff.WithMaxElapsedTime(0))
}

// IdentityPage reads the identities of a page, repeatedly if need be, and visits them once all were read. Objects have no bodies.
// do makes each request. If do is nil, requests are made at once.
func (c *Client) IdentityPage(ctx context.Context, s *change.Stream, o ListOptions, do func(request func() error) error,
	visit Visit) (Page, error) {
	type item struct {
		object     Object
		unreadable error
	}
	var items []item
	o.MetadataOnly = true
	if do == nil {
		do = func(request func() error) error { return request() }
	}
	p, err := Repeat(ctx, func() (p Page, err error) {
		err = do(func() error {
			items = items[:0]
			p, err = c.List(ctx, s, o, func(_ *Page, o *Object, unreadable error) error {
				o.Raw = nil
				items = append(items, item{*o, unreadable})
				return nil
			})
			return err
		})
		return p, err
	})
	for i := 0; i < len(items) && err == nil; i++ {
		err = visit(&p, &items[i].object, items[i].unreadable)
	}
	return p, err
}

// Identities calls visit for the identity of each object that a collection had at a resourceVersion, or has now if version is
// empty. It leaves out objects that no record takes. It returns the list's resourceVersion. A list that can't be read to its end
// at one version is an error, which may come after some of the calls. After each page it calls read, unless that is nil, with the
// options that have read the page.
func (c *Client) Identities(ctx context.Context, s *change.Stream, version change.ResourceVersion, pace *Pace,
	visit func(o *Object),
	read func(page ListOptions)) (change.ResourceVersion, error) {
	o := ListOptions{MetadataOnly: true, Pace: pace, Exact: version}
	for {
		p, err := c.IdentityPage(ctx, s, o, nil, func(_ *Page, o *Object, unreadable error) error {
			if IsUnloggable(o, unreadable) { // the log does not have it
				return nil
			}
			if unreadable == nil {
				visit(o)
			}
			return unreadable
		})
		if err != nil {
			return "", fmt.Errorf("list the identities of %s: %w", s.ID(), err)
		}
		if read != nil {
			o.Limit = p.Limit
			read(o)
			o.Limit = 0
		}
		if o.Continue, o.Exact = p.Continue, p.Version; o.Continue == "" {
			return p.Version, nil
		}
	}
}
