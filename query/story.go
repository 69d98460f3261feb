package query

import (
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Mark is a position of a stream.
type Mark struct {
	Version change.ResourceVersion
	Time    time.Time // of the event, bookmark or list that confirmed it
	current time.Time // when nothing was newer: that, or before it if the stream was read late
	Logged  time.Time
	slot    int
	batch   uint64
	*point  // before its batch
}

// story is what the control records tell of one stream.
type story struct {
	stream change.StreamID
	eras   []*era
	gaps   []gap // that were not recovered whole
	delays delays
	late   time.Time // since when this batch has it late; zero: it does not
	gone   bool      // it has ended
	last   Mark
	kept   Mark // the last one before everything that was logged is kept
	at     Mark // the last one by the target
	beyond Mark // the first one after the target's version, or its time
	base   Mark // the last one before that
	held   Mark // the first one of base's version. A deletion of Events is logged before a position has its version: perhaps more follow
	back   Mark // the last one that is older than the one before: the server's history went back
}

// era is the time from one first list to the next: that of a stream that was forgotten, or of a resource that was removed and is
// back. A first list has all objects; nothing tells what became of those that only the era before had.
type era struct {
	begin       *point
	listed      change.ResourceVersion // of the end of the first list; empty: the record is not kept
	first, last Mark
	removed     time.Time // when the log was told that the resource is gone; zero: it is not
}

// start is the version from which on the era has every change.
func (e *era) start() change.ResourceVersion {
	if e.listed != "" {
		return e.listed
	}
	return e.first.Version
}

// point is a place in the log: that before a batch. Control records come in the order of the log, so no clock decides what is before a
// point: clocks step back, and those of two slots differ.
type point struct {
	n      int            // how many batches were read before it
	last   map[int]uint64 // the last one of each slot
	logged time.Time      // when the batch was
}

// has reports whether a change was logged before the point. Its time tells that only where no batch record of its slot from before the point
// is retained.
func (p *point) has(l *sinks.Logged) bool {
	if p == nil {
		return false
	}
	if last, known := p.last[l.Slot]; known && l.Batch != 0 {
		return l.Batch <= last
	}
	return l.Logged.Before(p.logged)
}

// gap is one that was not recovered whole. What it lacks happened after since. One of an unknown beginning, as of a loss, is open
// until the stream has a position again: that of the list which found out what the log has.
type gap struct {
	change.Gap
	since time.Time
	until time.Time // when the log was told of it
	open  bool
}

// passes reports whether the gap ends after a version.
func (g *gap) passes(version change.ResourceVersion) bool { return g.open || g.To.Compare(version) > 0 }

// gap notes a gap that was not recovered whole.
func (st *story) gap(c *change.Control) {
	g := gap{Gap: *c.Gap, since: st.last.Time, until: time.UnixMilli(c.TimeMs)}
	if g.Lost() {
		g.open, g.since = true, time.Time{}
	}
	st.gaps = append(st.gaps, g)
}

// isOpen reports whether a gap is open: then a list shows only what the log lacks.
func (st *story) isOpen() bool {
	return slices.ContainsFunc(st.gaps, func(g gap) bool { return g.open })
}

// close ends the gaps that are open at the next position.
func (st *story) close(m Mark) {
	for i := range st.gaps {
		if g := &st.gaps[i]; g.open {
			if g.open = false; g.To.Compare(m.Version) < 0 {
				g.To = m.Version
			}
		}
	}
}

// begin begins an era, unless the present one has no complete list: then its first list goes on. Nor does one begin after a loss:
// what the log still has goes on.
func (st *story) begin(at *point) {
	if n := len(st.eras); n > 0 && st.eras[n-1].start() == "" {
		return
	}
	if st.delays.stopped = true; st.isOpen() {
		return
	}
	st.eras = append(st.eras, &era{begin: at})
}

func (st *story) era() *era {
	if len(st.eras) == 0 {
		st.eras = append(st.eras, &era{})
	}
	return st.eras[len(st.eras)-1]
}

// mark adds a position to those of the stream and of its era.
func (st *story) mark(m Mark) {
	e := st.era()
	if e.last.Version != "" && m.Version.Compare(e.last.Version) < 0 {
		st.back = m
	}
	if e.first.Version == "" {
		e.first = m
	}
	st.last, e.last = m, m
	st.close(m)
}
