package query

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
)

// Changes are seen a moment after they happened, but for those that happen while nobody reads: those are seen when the stream goes
// on, or when its gap is recovered.
const (
	// latency is within which time a watch delivers a change.
	latency = time.Second
	// catchUp is within which time a stream that goes on is delivered what happened before.
	catchUp = 30 * time.Second
	// silence is after which time without a position a stream counts as not read: API servers send a bookmark each minute.
	silence = 90 * time.Second
)

// Of a network that is gone for a while the log says nothing; but then no stream of the slot has a position, and none is known to be current.
const (
	// hush is after which time without a sign of any stream of a slot none may have been read.
	hush = 5 * time.Second
	// around is how far from a time signs are noted.
	around = 5 * time.Minute
)

// pulses are the seconds around a time in which some stream of a slot had a position, or was known to be current.
type pulses map[int64]bool

// pulse notes the seconds from one time to another.
func (s *stories) pulse(slot int, from, to time.Time) {
	t := s.target.Happened
	if t.IsZero() || to.Before(t.Add(-around)) || from.After(t.Add(around)) {
		return
	}
	if s.pulses[slot] == nil {
		s.pulses[slot] = pulses{}
	}
	for at := max(from.Unix(), t.Add(-around).Unix()); at <= min(to.Unix(), t.Add(around).Unix()); at++ {
		s.pulses[slot][at] = true
	}
}

// seenBy is when a change is seen at the latest that happened by a time, if no stream was read then or shortly before.
func (p pulses) seenBy(t time.Time) time.Time {
	by, seconds := t, slices.Sorted(maps.Keys(p))
	for i := range seconds[min(1, len(seconds)):] {
		from, to := time.Unix(seconds[i], 0), time.Unix(seconds[i+1], 0).Add(time.Second)
		if end := to.Add(2 * hush); to.Sub(from) > hush+time.Second && !from.After(t) && end.After(by) && end.After(t) {
			by = end
		}
	}
	return by
}

// span is a time, both ends included.
type span struct{ from, to time.Time }

// delays are the times of a stream in which changes may have happened that were seen only later, at the end of the time at the
// latest.
type delays struct {
	spans   []span
	stays   []*stay
	stopped bool                   // since the last position
	until   change.ResourceVersion // the end of the gap that is being recovered; empty: none is
}

// stay is a stream's time under one owner of a slot.
type stay struct {
	slot        int
	epoch       int64
	first, last Mark
}

// gap notes a gap up to a version.
func (d *delays) gap(to change.ResourceVersion) { d.stopped, d.until = true, to }

// mark notes the next position of the stream in a slot.
func (d *delays) mark(m Mark, epoch int64) {
	i := slices.IndexFunc(d.stays, func(s *stay) bool { return s.slot == m.slot && s.epoch == epoch })
	if i < 0 {
		d.stays, i = append(d.stays, &stay{m.slot, epoch, m, m}), len(d.stays)
	}
	s := d.stays[i]
	if d.stopped || d.until != "" || m.Time.Sub(s.last.Time) > silence {
		d.add(span{s.last.Time, m.Time})
	}
	if d.stopped = false; m.Version.Compare(d.until) >= 0 {
		d.until = ""
	}
	s.last = m
}

// add adds a time, and what a stream needs to catch up with it.
func (d *delays) add(s span) {
	s = span{s.from.Add(-latency), s.to.Add(catchUp)}
	if n := len(d.spans); n > 0 && !s.from.Before(d.spans[n-1].from) && !s.from.After(d.spans[n-1].to) {
		d.spans[n-1].to = s.to
		return
	}
	d.spans = append(d.spans, s)
}

// late adds a time of which the log says that what happened in it was seen by its end.
func (d *delays) late(s span) { d.spans = append(d.spans, span{s.from.Add(-latency), s.to}) }

// seenBy is when a change is seen at the latest that happened by a time.
func (d *delays) seenBy(t time.Time) time.Time {
	all := delays{spans: slices.Clone(d.spans)}
	stays := slices.SortedFunc(slices.Values(d.stays), func(a, b *stay) int { return cmp.Compare(a.first.n, b.first.n) })
	for i := range stays[min(1, len(stays)):] {
		all.add(span{stays[i].last.Time, stays[i+1].first.Time})
	}
	slices.SortFunc(all.spans, func(a, b span) int { return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to)) })
	by := t
	for _, s := range all.spans {
		if !s.from.After(by) && s.to.After(by) {
			by = s.to
		}
	}
	if by.Equal(t) {
		return t.Add(latency)
	}
	return by
}
