package reflector

import (
	"cmp"
	"slices"
	"time"

	"kubecdc/change"
)

// progress is how far a stream was emitted.
type progress struct {
	position change.ResourceVersion // everything up to it was emitted. It is empty until the first list has ended.
	cursor   change.ResourceVersion // where the watch goes on: the position, except while the stream catches up with a list
	heldBack change.ResourceVersion // the revision of the last deletion, if more deletions of it may follow (leased.go)
	ahead    change.ResourceVersion // the newest version in the log, if it is newer than the position: a list is not complete
	inferred int                    // changes that were found by comparison
	unread   bool                   // an event could not be read, so the log may lack its object
	upToDate time.Time              // when all that had happened was last known to be read, if that is known
	since    time.Time              // the handled event happened after this time, or zero if that is unknown
}

// move says how far an item moves the stream. An empty version changes nothing.
type move struct{ position, cursor change.ResourceVersion }

func to(version change.ResourceVersion) move { return move{version, version} }

// apply records a move, and the change that was emitted with it, or nil.
func (p *progress) apply(m move, c *change.Change) {
	if m.cursor != "" {
		p.cursor = m.cursor
		if p.heldBack.Compare(m.cursor) <= 0 {
			p.heldBack = ""
		}
	}
	p.position = cmp.Or(m.position, p.position)
	if c == nil {
		return
	}
	if c.Inferred {
		p.inferred++
	}
	if c.Op != change.Delete && m.position == "" && c.ResourceVersion.Compare(p.newestEmitted()) > 0 {
		p.ahead = c.ResourceVersion
	}
}

// newestEmitted returns the newest revision of which something is in the log.
func (p *progress) newestEmitted() change.ResourceVersion {
	return slices.MaxFunc([]change.ResourceVersion{p.position, p.heldBack, p.ahead}, change.ResourceVersion.Compare)
}
