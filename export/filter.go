package export

import (
	"kubecdc/change"
	"kubecdc/redact"
)

// filter decides which updates are not written to the log. What the log has of an object stays its state: the body in the
// inventory, and the before-image of the next change that is written. The inventory's version is that of the update, so that the next
// session knows the object as the API server has it.
type filter struct {
	noUpdates bool
	mask      func(stream change.StreamID) *redact.Mask // nil: all fields count
}

// filter returns the slot's filter, for use by one goroutine; nil if everything is written.
func (s *slot) filter() *filter {
	if len(s.config.Content.Ignore) == 0 && !s.config.Content.NoUpdates {
		return nil
	}
	cache := map[change.StreamID]*redact.Mask{}
	return &filter{s.config.Content.NoUpdates, func(stream change.StreamID) *redact.Mask {
		mask, ok := cache[stream]
		if !ok {
			mask = s.config.Mask(change.ResourceOf(stream))
			cache[stream] = mask
		}
		return mask
	}}
}

// leavesOut reports whether a change is not written.
func (f *filter) leavesOut(c *change.Change) bool {
	switch {
	case c.Logged:
		return true
	case f == nil || c.Op != change.Update || c.Lost:
		return false
	case f.noUpdates:
		return true
	}
	mask := f.mask(c.Stream.ID())
	return mask != nil && c.Before != nil && mask.Equal(c.Before, c.After)
}
