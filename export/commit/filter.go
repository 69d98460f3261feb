package commit

import (
	"time"

	"kubecdc/change"
	"kubecdc/export/plan"
	"kubecdc/redact"
)

// Filter decides which updates are not written to the log. The state of an object in the log remains the last written one. The
// inventory has its body, which is the before-image of the next written change. But the inventory has the version of the update
// that was left out, so that the next session knows which version the API server has.
type Filter struct {
	noUpdates bool
	mask      func(stream change.StreamID) *redact.Mask // nil: all fields count
	ignores   []string                                  // Content.Ignores
	recorded  time.Time                                 // when the log last got ignores
}

// NewFilter returns the filter of the settings, for use by one goroutine.
func NewFilter(config *plan.Config) *Filter {
	f := &Filter{noUpdates: config.Content.NoUpdates, ignores: config.Content.Ignores()}
	if f.noUpdates || len(config.Content.Ignore) > 0 {
		f.mask = plan.Cached(func(stream change.StreamID) *redact.Mask { return config.Mask(change.ResourceOf(stream)) })
	}
	return f
}

// recordEvery is the time between two records of what is ignored. So the records of the last hour always contain one.
const recordEvery = 30 * time.Minute

// tell adds a record of what is ignored to the first batch, and to a later one now and then. A nil filter adds no record: it
// writes the batches of other sessions.
func (f *Filter) tell(b *change.Batch) {
	if now := time.Now(); f != nil && now.Sub(f.recorded) >= recordEvery {
		f.recorded, b.Controls = now, append(b.Controls, change.SettingsControl(f.ignores))
	}
}

// leavesOut reports whether a change is not written.
func (f *Filter) leavesOut(c *change.Change) bool {
	switch {
	case c.Logged:
		return true
	case f == nil || c.Op != change.Update || c.Lost:
		return false
	case f.noUpdates:
		return true
	case f.mask == nil:
		return false
	}
	mask := f.mask(c.Stream.ID())
	return mask != nil && c.Before != nil && mask.Equal(c.Before, c.After)
}
