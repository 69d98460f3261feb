package past

import (
	"cmp"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/internal/plain"
	"kubecdc/sinks"
)

// line is a change as it is printed. at is the time that changes are sorted by, and seen is when the exporter read it.
type line struct {
	at, seen time.Time
	key      string // of the object
	text     plain.Own
	deletion *deletion // whose text is not made yet; else nil
}

func (l line) compare(other line) int {
	return cmp.Or(l.at.Compare(other.at), l.seen.Compare(other.seen))
}

// lines collects the changes of the past, of which a log has the order of each object alone. They are sorted by time when all were read.
type lines struct {
	most int // keeps the newest of them; 0: all
	all  []line
	last map[string]line // of each object in all. No later change of the object is sorted before it
	gone line            // the newest one that was dropped
}

// begin returns the line of a change that happened, or was logged, at a time; its text is still missing. It reports false if there are
// enough newer ones.
func (s *lines) begin(l *sinks.Logged, at time.Time) (now line, wanted bool) {
	now = line{at: at, seen: l.Time, key: change.ResourceOf(l.Stream.ID()).ID() + "\x00" + l.Change.Key()}
	if before := s.last[now.key]; now.compare(before) < 0 {
		now.at, now.seen = before.at, before.seen
	}
	return now, s.gone.at.IsZero() || now.compare(s.gone) >= 0
}

// add adds a line. Now and then it drops those of which there are enough newer ones, so that memory does not grow with the log.
func (s *lines) add(l line) {
	if s.last == nil {
		s.last = map[string]line{}
	}
	s.last[l.key] = l
	if s.all = append(s.all, l); s.most > 0 && len(s.all) >= 2*s.most+100 {
		s.sorted()
	}
}

// sorted sorts the lines, and drops all but the newest.
func (s *lines) sorted() []line {
	slices.SortStableFunc(s.all, line.compare)
	if n := len(s.all) - s.most; s.most > 0 && n > 0 {
		s.gone = s.all[n-1]
		s.all = slices.Delete(s.all, 0, n)
		clear(s.last)
		for _, l := range s.all {
			s.last[l.key] = l
		}
	}
	return s.all
}
