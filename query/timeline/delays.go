package timeline

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
)

// An open watch delivers a change a moment after it happened. If no watch is open, the change is seen when the watch resumes, or
// when its gap is recovered.
const (
	// latency is how long a watch takes to deliver a change.
	latency = time.Second
	// catchUp is how long a resumed stream takes to deliver what happened before.
	catchUp = 30 * time.Second
	// silence is how long a stream may have no position before it counts as not read. API servers send a bookmark each minute.
	silence = 90 * time.Second
)

// The log does not record that a network failed for a while. In that case no stream of the slot has a position, or is reported as
// current.
const (
	// quietLimit is how long all streams of a slot may be silent before they count as not read.
	quietLimit = 5 * time.Second
	// around is how far from the target's time activity is recorded.
	around = 5 * time.Minute
)

// activity is the seconds, in Unix time, in which some stream of a slot had a position or was reported as current.
type activity map[int64]bool

// addActivity records activity from one time to another, as far as it is near the target.
func (s *Set) addActivity(slot int, from, to time.Time) {
	s.include(from)
	s.include(to)
	t := s.target.Happened
	if t.IsZero() || to.Before(t.Add(-around)) || from.After(t.Add(around)) {
		return
	}
	if s.activity[slot] == nil {
		s.activity[slot] = activity{}
	}
	for second := max(from.Unix(), t.Add(-around).Unix()); second <= min(to.Unix(), t.Add(around).Unix()); second++ {
		s.activity[slot][second] = true
	}
}

// include extends the times of the records by one.
func (s *Set) include(t time.Time) {
	if s.earliest.IsZero() || t.Before(s.earliest) {
		s.earliest = t
	}
	if t.After(s.latest) {
		s.latest = t
	}
}

// seenBy returns by when a change that happened by t was seen, if no stream was read at t or shortly before.
func (p activity) seenBy(t time.Time) time.Time {
	latest, seconds := t, slices.Sorted(maps.Keys(p))
	for i := range seconds[min(1, len(seconds)):] {
		from, to := time.Unix(seconds[i], 0), time.Unix(seconds[i+1], 0).Add(time.Second)
		if end := to.Add(2 * quietLimit); to.Sub(from) > quietLimit+time.Second && !from.After(t) && end.After(latest) &&
			end.After(t) {
			latest = end
		}
	}
	return latest
}

// span is a time with both ends included.
type span struct{ from, to time.Time }

// lateSpan returns the time that a control record calls late.
func lateSpan(c *change.Control) span {
	return span{time.UnixMilli(c.SinceMs), time.UnixMilli(c.TimeMs + 1)}
}

// delays are the times in which a stream's changes may have been seen late, at the latest at the end of each time.
type delays struct {
	unread  []span // the stream was not read, and then caught up
	lates   []span // the log has recorded that batches waited, and when they were read
	tenures []tenure
	stopped bool                   // after the last position
	until   change.ResourceVersion // the end of the gap that is being recovered, or empty
}

// tenure is a stream's time under one owner of a slot.
type tenure struct {
	slot        int
	epoch       int64
	first, last Mark
}

// startGap records a gap up to a version.
func (d *delays) startGap(to change.ResourceVersion) { d.stopped, d.until = true, to }

// addMark records the stream's next position in a slot.
func (d *delays) addMark(m Mark, epoch int64) {
	i := slices.IndexFunc(d.tenures, func(s tenure) bool { return s.slot == m.slot && s.epoch == epoch })
	if i < 0 {
		d.tenures, i = append(d.tenures, tenure{m.slot, epoch, m, m}), len(d.tenures)
	}
	s := &d.tenures[i]
	if d.stopped || d.until != "" || m.Time.Sub(s.last.Time) > silence {
		d.addUnread(span{s.last.Time, m.Time})
	}
	if d.stopped = false; m.Version.Compare(d.until) >= 0 {
		d.until = ""
	}
	s.last = m
}

// addNear replaces what is known of the times up to a position by what was read near the target.
func (d *delays) addNear(near *delays, last Mark) {
	unread, tenures := slices.Clone(near.unread), slices.Clone(near.tenures)
	for _, s := range d.unread {
		if s.to.Add(-catchUp).After(last.Time) {
			if from := last.Time.Add(-latency); s.from.Before(from) {
				s.from = from
			}
			unread = append(unread, s)
		}
	}
	for _, t := range d.tenures {
		i := slices.IndexFunc(tenures, func(o tenure) bool { return o.slot == t.slot && o.epoch == t.epoch })
		switch {
		case i >= 0:
			tenures[i].last = later(tenures[i].last, t.last)
		case t.first.n > last.n:
			tenures = append(tenures, t)
		}
	}
	d.unread, d.tenures = unread, tenures
}

// addUnread adds a time in which the stream was not read, and the time that it needs to catch up.
func (d *delays) addUnread(s span) {
	s = span{s.from.Add(-latency), s.to.Add(catchUp)}
	if n := len(d.unread); n > 0 && !s.from.Before(d.unread[n-1].from) && !s.from.After(d.unread[n-1].to) {
		d.unread[n-1].to = s.to
		return
	}
	d.unread = append(d.unread, s)
}

// spans returns the times in which changes may have been seen late, in their order.
func (d *delays) spans() []span {
	all := delays{unread: slices.Clone(d.unread)}
	tenures := slices.SortedFunc(slices.Values(d.tenures), func(a, b tenure) int { return cmp.Compare(a.first.n, b.first.n) })
	for i := range tenures[min(1, len(tenures)):] {
		all.addUnread(span{tenures[i].last.Time, tenures[i+1].first.Time})
	}
	for _, s := range d.lates {
		all.unread = append(all.unread, span{s.from.Add(-latency), s.to})
	}
	slices.SortFunc(all.unread, func(a, b span) int { return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to)) })
	return all.unread
}

// liveBy returns the last time by t at which a stream was read live. It was read late in the spans.
func liveBy(spans []span, t time.Time) time.Time {
	for _, s := range slices.Backward(spans) {
		if from := s.from.Add(latency); t.After(from) && !t.After(s.to) {
			t = from
		}
	}
	return t
}

// seenBy returns by when a change that happened by t was seen.
func (d *delays) seenBy(t time.Time) time.Time {
	latest := t
	for _, s := range d.spans() {
		if !s.from.After(latest) && s.to.After(latest) {
			latest = s.to
		}
	}
	if latest.Equal(t) {
		return t.Add(latency)
	}
	return latest
}

// seenBy returns by when a change of a stream that happened by t was seen.
func (s *Set) seenBy(st *Timeline, t time.Time) time.Time {
	latest := st.delays.seenBy(t)
	if silent := s.activity[st.atTarget.slot].seenBy(t); silent.After(latest) {
		return silent
	}
	return latest
}
