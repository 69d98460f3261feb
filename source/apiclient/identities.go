package apiclient

import (
	"context"
	"errors"
	"fmt"

	"kubecdc/change"
)

// ErrNotExact reports a server that answers an exact read with another resourceVersion: it ignores resourceVersionMatch=Exact.
var ErrNotExact = errors.New("the server ignores resourceVersionMatch=Exact")

// Identities calls visit for the identity of each object that a collection had at a resourceVersion, but for those that no record
// takes; empty: now. It returns the resourceVersion. A list that can't be read to its end at one version is an error, which may come
// after some of the calls. After each page it calls read, if that is not nil, with the options that have read the page.
func (c *Client) Identities(ctx context.Context, s *change.Stream, at change.ResourceVersion, pageSize int,
	visit func(o *Object) error, read func(page ListOptions)) (change.ResourceVersion, error) {
	o := ListOptions{MetadataOnly: true, Limit: pageSize, Exact: at}
	for {
		p, err := c.List(ctx, s, o, func(_ *Page, o *Object, unreadable error) error {
			switch {
			case IsUnloggable(o, unreadable):
				return nil // the log does not have it
			case unreadable != nil:
				return unreadable
			case at != "" && o.Version.Compare(at) > 0:
				return fmt.Errorf("%w: asked for resourceVersion %s, it answers with an object at %s", ErrNotExact, at, o.Version)
			}
			return visit(o)
		})
		if err != nil {
			return "", fmt.Errorf("list the identities of %s: %w", s.ID(), err)
		}
		if at == "" {
			at = p.Version
		}
		if p.Version.Compare(at) != 0 {
			return "", fmt.Errorf("list the identities of %s: %w: asked for resourceVersion %s, it answers with %s", s.ID(), ErrNotExact,
				at, p.Version)
		}
		if read != nil {
			read(o)
		}
		if o.Continue = p.Continue; o.Continue == "" {
			return at, nil
		}
	}
}
