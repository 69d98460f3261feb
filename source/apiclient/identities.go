package apiclient

import (
	"context"
	"fmt"

	"kubecdc/change"
)

// Identities calls visit for the identity of each object that a collection had at a resourceVersion, but for those that no record
// takes; empty: now. It returns the resourceVersion. A list that can't be read to its end at one version is an error, which may come
// after some of the calls. After each page it calls read, as ListAll does.
func (c *Client) Identities(ctx context.Context, s *change.Stream, at change.ResourceVersion, pace *Pace, visit func(o *Object),
	read func(page ListOptions)) (change.ResourceVersion, error) {
	o := ListOptions{MetadataOnly: true, Pace: pace, Exact: at}
	version, err := c.ListAll(ctx, s, o, func(_ *Page, o *Object, unreadable error) error {
		switch {
		case IsUnloggable(o, unreadable): // the log does not have it
		case unreadable != nil:
			return unreadable
		default:
			visit(o)
		}
		return nil
	}, read)
	if err != nil {
		return "", fmt.Errorf("list the identities of %s: %w", s.ID(), err)
	}
	return version, nil
}
