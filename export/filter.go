package export

import (
	"kubecdc/change"
	"kubecdc/redact"
)

// filter decides which updates are not written to the log. An object's state in the log remains the last one that was written.
// The inventory has that body, and the next change that is written has it as its before-image. But the inventory gets the version
// of the update that was left out, so that the next session knows which version the API server has.
type filter struct {
	noUpdates bool
	mask      func(stream change.StreamID) *redact.Mask // nil: all fields count
}

// filter returns the slot's filter, for use by one goroutine, or nil if everything is written.
func (s *slot) filter() *filter {
	if !s.config.leavesOut() {
		return nil
	}
	return &filter{s.config.Content.NoUpdates, cached(func(stream change.StreamID) *redact.Mask {
		return s.config.Mask(change.ResourceOf(stream))
	})}
}

// leavesOut reports whether updates may be left out.
func (c *Config) leavesOut() bool { return len(c.Content.Ignore) > 0 || c.Content.NoUpdates }

// cached returns a function that remembers another function's results, for use by one goroutine.
func cached[T any](find func(stream change.StreamID) T) func(stream change.StreamID) T {
	known := map[change.StreamID]T{}
	return func(stream change.StreamID) T {
		t, ok := known[stream]
		if !ok {
			t = find(stream)
			known[stream] = t
		}
		return t
	}
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
