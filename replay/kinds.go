package replay

import (
	"cmp"

	"kubecdc/change"
)

// kinds has each stream with the version and kind of its resource, which only an object tells. A deletion may come without one.
type kinds map[change.StreamID]*change.Stream

// of returns the stream of a change.
func (k kinds) of(c *change.Change) *change.Stream {
	image := c.After
	if image == nil {
		image = c.Before
	}
	id := c.Stream.ID()
	if image != nil {
		k[id] = c.Stream.WithKind(image)
	}
	return cmp.Or(k[id], c.Stream)
}
