package recovery

import (
	"context"
	"fmt"
)

// explainChanged records the versions that the list shows: these revisions need no read, whoever they are of.
func (s *search) explainChanged() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.Changed {
		version, err := o.Version.Revision()
		if err != nil {
			return fmt.Errorf("read a resourceVersion: %w", err)
		}
		s.recordChange(o.Namespace, version)
	}
	return nil
}

// newChanged returns the objects that exist at To in another state than the log has.
func (s *search) newChanged() []*incarnation {
	all := make([]*incarnation, len(s.Changed))
	for i, o := range s.Changed {
		all[i] = s.newIncarnation(o.Key(), o.UID)
		all[i].lastSeen, _ = o.Version.Revision()
	}
	return all
}

// walkBack finds the revisions of an incarnation, from the newest one back. The object did not change between the revisions first
// and last. So if first is compacted, the object may be read at any revision up to last.
//
// After a revision of the object was found, the next read is at the newest unexplained revision before it. The revisions between
// them are writes of other keys. If all revisions before it are explained, the walk ends without another read. What past-lists
// show is not read again.
func (s *search) walkBack(ctx context.Context, l *incarnation, first, last uint64) error {
	if !l.logged && len(l.seen) == 0 {
		l.floor = s.lastPastList(l.key, last) // no past list has it
	}
	for {
		if gone := s.goneAt(l, first, last); gone != 0 {
			return s.recordCreation(l, gone)
		}
		if l.doneAt(first, s.From) {
			break
		}
		if oldest := s.oldest.Load(); first < oldest {
			if last < oldest {
				l.truncated = true
				l.doubtful = last+1 == l.deleted && s.Kind.deletesOne()
				return nil
			}
			first = oldest // the object has the same state at the oldest revision
		}
		version, body := first, []byte(nil)
		if seen, ok := l.seenAt(first); ok && seen.version == first && (seen.body != nil || s.full() || s.witness) {
			body = seen.body
		} else {
			o, exists, err := s.history.Object(ctx, l.key, first)
			if IsLost(err) {
				if err := s.lose(ctx, first, err); err != nil {
					return err
				}
				continue
			}
			if err != nil {
				return err
			}
			if !exists || o.UID != l.uid {
				if l.deleted != 0 && last == l.deleted-1 && s.Kind.deletesOne() {
					return errSeveralKeys
				}
				return s.recordCreation(l, first)
			}
			if version, err = o.Version.Revision(); err != nil {
				return fmt.Errorf("read a resourceVersion: %w", err)
			}
			if l.doneAt(version, s.From) {
				return nil
			}
			body = s.keep(o.Raw)
		}
		s.recordRevision(l, version, body)
		if !s.Kind.Aggregated && s.sizes.creation(version) {
			return s.recordCreation(l, version-1)
		}
		first, last = s.before(l, version-1), version-1
	}
	if !l.logged && first > l.walked {
		return s.recordCreation(l, first)
	}
	return nil
}

// goneAt returns the newest revision in [lo, hi] at which another incarnation under the key is known to have been deleted, or 0.
// Two incarnations of one uid could else be taken for one, since a deletion explains its revision.
func (s *search) goneAt(l *incarnation, lo, hi uint64) (revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.incarnations[l.key] {
		if other != l && other.deleted >= lo && other.deleted <= hi {
			revision = max(revision, other.deleted)
		}
	}
	return revision
}

// doneAt reports whether everything is known of the incarnation up to the revision.
func (l *incarnation) doneAt(revision, from uint64) bool {
	return revision <= max(from, l.floor, l.walked) || l.logged && revision <= l.version
}

func (s *search) recordRevision(l *incarnation, version uint64, body []byte) {
	s.mu.Lock()
	l.revisions = append(l.revisions, revision{version, body})
	s.mu.Unlock()
	s.explain(version)
}

// recordCreation records that the oldest revision found is the creation: the object did not exist at the revision absent. If the
// log has the object before that, it left the collection and came back, as selectors make it do. It then has two incarnations
// under one uid.
func (s *search) recordCreation(l *incarnation, absent uint64) error {
	if n := len(l.revisions); n > 0 {
		l.created = l.revisions[n-1].version
		s.sizes.creation(l.created)
	}
	if l.logged {
		if len(s.pastLists) > 0 { // they were read as if this could not be, without selectors
			s.incomplete("an object was missing for a time, and has its uid again")
		}
		earlier := s.newIncarnation(l.key, l.uid)
		l.logged, l.version = false, 0
		s.recordEnd(earlier, s.From, absent)
	}
	return nil
}
