package timeline

import (
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Mark is a position of a stream, and its batch.
type Mark struct {
	Version change.ResourceVersion
	Time    time.Time // time of the event, bookmark or list that confirmed it
	current time.Time // when it was current at this version, which is before Time if it was read late
	Logged  time.Time
	slot    int
	batch   uint64
	*point  // the point before its batch
}

// later returns the mark that is later in the log.
func later(a, b Mark) Mark {
	if b.Version == "" || a.Version != "" && a.n >= b.n {
		return a
	}
	return b
}

// Timeline is what the control records say about one stream.
type Timeline struct {
	Stream   change.StreamID
	eras     []*era
	gaps     []gap // not recovered completely
	delays   delays
	late     time.Time // since when this batch was behind; zero: it was not
	hasEnded bool
	recorded []*change.Gap // all gaps
	last     Mark
	highest  change.ResourceVersion // the highest version of all positions
	retained Mark                   // the last position from before the time since which all is retained
	wentBack bool                   // the API server's history went back: the next position begins an era
	nearTarget
}

// nearTarget is the positions of a stream around a target.
type nearTarget struct {
	earliest     Mark // last position at the earliest time to which the target may be moved, or else the first after it
	atTarget     Mark // the last position by the target
	afterTarget  Mark // the first position after the target's version or time
	beforeTarget Mark // the last position before afterTarget
	// the first position at the version of beforeTarget. Events are deleted before a position reaches that version, so more may
	// follow
	firstOfVersion Mark
}

// era is the time from one first list to the next. A new era begins when a forgotten stream, or a removed resource, comes back.
// Its first list has all objects. It is unknown what happened to an object that only the previous era had.
//
// A restore of etcd begins an era, too. It inherits all objects, since its list is compared with them. The era before may have
// used the same resourceVersions for other states.
type era struct {
	begin       *point
	inherits    bool                   // it begins with the objects of the previous era
	full        *point                 // if it inherits, the point after its first position
	listed      change.ResourceVersion // the version at the end of the first list, or empty if its record is pruned
	first, last Mark
	removed     time.Time // when the log recorded that the resource was removed, or zero
	reached     time.Time // time of the last position at or before the target's version
}

// has reports whether the era may have a version. The present era has no end.
func (e *era) has(version change.ResourceVersion, isPresent bool) bool {
	return e.start() != "" && e.start().Compare(version) <= 0 && (isPresent || version.Compare(e.last.Version) <= 0)
}

// start returns the version from which on the era has every change.
func (e *era) start() change.ResourceVersion {
	if e.listed != "" {
		return e.listed
	}
	return e.first.Version
}

// point is the place in the log before a batch, by the order of the control records.
type point struct {
	n int // number of batches before it
	sinks.Point
}

// has reports whether a change was logged before the point. nil is the start of the log.
func (p *point) has(l *sinks.Logged) bool { return p != nil && p.Point.Has(l) }

// restores returns how often etcd was restored from a backup.
func (st *Timeline) restores() (n int) {
	for _, e := range st.eras {
		if e.inherits {
			n++
		}
	}
	if st.wentBack {
		n++
	}
	return n
}

// after returns the point after a position's batch.
func (m Mark) after() *point {
	p := &point{m.n + 1, sinks.Point{Place: maps.Clone(m.Place), Logged: m.Logged.Add(time.Millisecond)}}
	p.Place[m.slot] = m.batch
	return p
}

// gap is a gap that was not recovered completely. The changes that it lacks happened after since. If its beginning is unknown, as
// after a loss, it is open until the stream's next position. This is the position of the list that found the missing changes.
type gap struct {
	change.Gap
	since time.Time
	until time.Time // when the log recorded it
	open  bool
	era   int // in which it was recorded

	isHole bool // the gap is a hole: the log had the changes, and has lost them
}

// endsAfter reports whether the gap ends after a version.
func (g *gap) endsAfter(version change.ResourceVersion) bool {
	return g.open || g.To.Compare(version) > 0
}

// addGap records a gap that was not recovered completely.
func (st *Timeline) addGap(c *change.Control) {
	g := gap{Gap: *c.Gap, since: st.last.Time, until: time.UnixMilli(c.TimeMs), era: max(0, len(st.eras)-1)}
	switch {
	case g.Lost() && st.wentBack: // nothing is lost but the position
		g.From = st.last.Version
	case g.Lost():
		g.open, g.since = true, time.Time{}
	case !g.WentBack() && g.To.Compare(st.last.Version) < 0: // the log has lost it since
		g.isHole, g.since = true, time.Time{}
	}
	st.gaps = append(st.gaps, g)
	st.wentBack = st.wentBack || g.WentBack()
}

// gapsOf returns the gaps in which an era may lack changes. A loss that a later era has recorded may be of any of them.
func (st *Timeline) gapsOf(e *era) (all []gap) {
	own := slices.Index(st.eras, e)
	for _, g := range st.gaps {
		if isLater := g.era > own && (g.Lost() || g.isHole); isLater || g.era == own {
			g.open = g.open || isLater && !g.isHole
			all = append(all, g)
		}
	}
	return all
}

// isOpen reports whether a gap is open. Then the next list has only what the log lacks.
func (st *Timeline) isOpen() bool {
	return slices.ContainsFunc(st.gaps, func(g gap) bool { return g.open })
}

// closeGaps ends the open gaps at the next position.
func (st *Timeline) closeGaps(m Mark) {
	for i := range st.gaps {
		if g := &st.gaps[i]; g.open {
			if g.open = false; g.To.Compare(m.Version) < 0 {
				g.To = m.Version
			}
		}
	}
}

// beginEra begins an era, except in two cases. If the present era has no complete list, its first list goes on. After a loss the
// era goes on with what the log still has.
func (st *Timeline) beginEra(start *point) {
	if n := len(st.eras); n > 0 && st.eras[n-1].start() == "" {
		return
	}
	if st.delays.stopped = true; st.isOpen() {
		return
	}
	st.eras = append(st.eras, &era{begin: start})
}

func (st *Timeline) currentEra() *era {
	if len(st.eras) == 0 {
		st.eras = append(st.eras, &era{})
	}
	return st.eras[len(st.eras)-1]
}

// BeginsAfterTarget reports whether all positions are after the target.
func (st *Timeline) BeginsAfterTarget() bool {
	return st.beforeTarget.Version == "" && st.afterTarget.Version != ""
}

// first returns the stream's first position.
func (st *Timeline) first() (m Mark) {
	for _, e := range slices.Backward(st.eras) {
		if e.first.Version != "" {
			m = e.first
		}
	}
	return m
}

// copy returns a copy, which other records do not change.
func (st *Timeline) copy() *Timeline {
	own := *st
	own.gaps, own.eras, own.recorded, own.delays.lates =
		slices.Clone(st.gaps), slices.Clone(st.eras), slices.Clip(st.recorded), slices.Clip(st.delays.lates)
	own.delays.unread, own.delays.tenures = slices.Clone(st.delays.unread), slices.Clone(st.delays.tenures)
	for i, e := range own.eras {
		era := *e
		own.eras[i] = &era
	}
	return &own
}

// addMark adds a position to the stream and to its era. A position that goes back begins an era.
func (st *Timeline) addMark(m Mark) {
	e := st.currentEra()
	if e.last.Version != "" && (st.wentBack || m.Version.Compare(e.last.Version) < 0) {
		e = &era{begin: st.last.after(), inherits: true}
		st.eras = append(st.eras, e)
	}
	if st.wentBack = false; e.first.Version == "" {
		if e.first = m; e.inherits {
			e.full = m.after()
		}
	}
	if m.Version.Compare(st.highest) > 0 {
		st.highest = m.Version
	}
	st.last, e.last = m, m
	st.closeGaps(m)
}
