package timeline

import (
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// owners is what the log says of the owners of its slots, as far as control records were read.
type owners struct {
	since time.Time // the earliest record
	all   map[ownerID]*slotOwner
}

type ownerID struct {
	slot  int
	epoch int64
}

// slotOwner is a slot's owner: when it wrote, and the resources whose updates it may have left out. "*" stands for all.
type slotOwner struct {
	first, last time.Time
	said        bool // false: the owner's release does not record it, or the record has expired
	ignores     []string
}

func newOwners() *owners { return &owners{all: map[ownerID]*slotOwner{}} }

// add adds a control record. Only batch records and settings matter.
func (o *owners) add(c *change.Control) {
	if c.Type != change.ControlBatch && c.Type != change.ControlSettings {
		return
	}
	id, t := ownerID{c.Slot, c.Epoch}, time.UnixMilli(c.TimeMs)
	w := o.all[id]
	if w == nil {
		w = &slotOwner{first: t, last: t}
		o.all[id] = w
	}
	if o.since.IsZero() || t.Before(o.since) {
		o.since = t
	}
	if t.Before(w.first) {
		w.first = t
	}
	if t.After(w.last) {
		w.last = t
	}
	if c.Type == change.ControlSettings {
		w.said, w.ignores = true, append(w.ignores, c.Ignores...)
	}
}

// ownerSlack is how far the clocks of owners and of the API server may differ. A change may also take so long until it is read.
const ownerSlack = time.Minute

// ignores reports whether updates of a resource may be left out that happened between a time and a change, and whether the log
// says so.
func (o *owners) ignores(resource string, since time.Time, l *sinks.Logged) (may, known bool) {
	if o == nil || o.all[ownerID{l.Slot, l.Epoch}] == nil {
		return false, false
	}
	known = !since.Before(o.since)
	for id, w := range o.all {
		if id != (ownerID{l.Slot, l.Epoch}) && (w.last.Before(since.Add(-ownerSlack)) ||
			w.first.After(l.Logged.Add(ownerSlack))) {
			continue
		}
		may, known = may || Ignores(w.ignores, resource), known && w.said
	}
	return may, known
}

// Ignores reports whether a resource is among those whose updates may be left out.
func Ignores(ids []string, resource string) bool {
	return slices.Contains(ids, resource) || slices.Contains(ids, "*")
}
