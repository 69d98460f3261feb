package replay

import (
	"cmp"

	"kubecdc/change"
)

// kinds holds each stream with its resource's version and kind, which only an object has. A deletion may come without an object.
type kinds map[change.StreamID]*change.Stream

// streamOf returns the stream of a change, with version and kind if an object was seen.
func (k kinds) streamOf(c *change.Change) *change.Stream {
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
