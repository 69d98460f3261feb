package past

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/plain"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// line is a printed change. Changes are sorted by batch, sortedBy, then by seen, which is when the exporter read them.
type line struct {
	batch          int // the number of its batch, if lines have the log's order, or 0
	sortedBy, seen time.Time
	version        change.ResourceVersion
	key            string // identifies the object
	text           plain.Own
	deletion       *deletion // nil unless it is a deletion whose text is not yet made
}

func (l line) compare(other line) int {
	return cmp.Or(cmp.Compare(l.batch, other.batch), l.sortedBy.Compare(other.sortedBy),
		l.seen.Compare(other.seen), l.version.Compare(other.version))
}

// lines collects past changes and sorts them by time, or by the log's order if that is known.
type lines struct {
	order   timeline.Order
	most    int // retains this many of the newest; 0: all
	all     []line
	last    map[string]line // the last line of each object in all: its later changes are sorted after it
	dropped line            // the newest dropped line
}

// newLine returns the line of a change at a time, without its text. It returns false if there are enough newer lines.
func (s *lines) newLine(l *sinks.Logged, t time.Time) (now line, wanted bool) {
	now = line{batch: s.order.Place(l), sortedBy: t, seen: l.Time,
		key: change.ResourceOf(l.Stream.ID()).ID() + "\x00" + l.Change.Key()}
	switch {
	case now.batch > 0 && l.Topic == "": // the changes of a batch are visited in their order
		now.seen = time.Time{}
	case now.batch > 0: // a batch in Kafka has several partitions, and no order between them
		now.version = change.ResourceVersion(strings.Clone(string(l.ResourceVersion)))
	}
	if before := s.last[now.key]; now.compare(before) < 0 {
		now.batch, now.sortedBy, now.seen, now.version = before.batch, before.sortedBy, before.seen, before.version
	}
	return now, s.dropped.sortedBy.IsZero() || now.compare(s.dropped) >= 0
}

// add adds a line. From time to time it drops the oldest lines above the limit, so memory does not grow with the log.
func (s *lines) add(l line) {
	if s.last == nil {
		s.last = map[string]line{}
	}
	s.last[l.key] = l
	if s.all = append(s.all, l); s.most > 0 && len(s.all) >= 2*s.most+100 {
		s.sorted()
	}
}

// sorted sorts the lines, and drops the oldest above the limit.
func (s *lines) sorted() []line {
	slices.SortStableFunc(s.all, line.compare)
	if n := len(s.all) - s.most; s.most > 0 && n > 0 {
		s.dropped = s.all[n-1]
		s.all = slices.Delete(s.all, 0, n)
		clear(s.last)
		for _, l := range s.all {
			s.last[l.key] = l
		}
	}
	return s.all
}
