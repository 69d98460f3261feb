package recovery

import (
	"context"
	"fmt"

	"kubecdc/source/apiclient"
)

// walkChanged walks back the objects that exist at To in another state than the log has.
func (s *search) walkChanged(ctx context.Context) error {
	all := make([]*incarnation, len(s.Changed))
	for i, o := range s.Changed {
		at, err := o.Version.Revision()
		if err != nil {
			return fmt.Errorf("read a resourceVersion: %w", err)
		}
		all[i] = s.newIncarnation(o.Key(), o.UID)
		all[i].lastSeen = at
		s.explain(at)
	}
	return s.each(ctx, all, func(ctx context.Context, l *incarnation) error { return s.walkBack(ctx, l, l.lastSeen, s.To) })
}

// walkBack finds the revisions of an incarnation, from the newest one back. The object did not change between the revisions at
// and last, so if at is compacted the object may be read at any revision up to last.
//
// After a revision of the object was found, the next read is at the newest revision before it that is not explained: those
// between are writes of other keys. If all revisions before it are explained, the walk ends without another read.
func (s *search) walkBack(ctx context.Context, l *incarnation, at, last uint64) error {
	for {
		if oldest := s.oldestReadable(); at < oldest && at > s.From {
			if last < oldest {
				l.truncated = true
				return nil
			}
			at = oldest // the object is in the same state there
		}
		if at <= s.From || l.logged && at <= l.version {
			break
		}
		o, exists, err := s.history.Object(ctx, l.key, at)
		if apiclient.IsGone(err) {
			if err := s.compacted(ctx, at); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if !exists || o.UID != l.uid {
			return s.noteCreation(l, at)
		}
		version, err := o.Version.Revision()
		if err != nil {
			return fmt.Errorf("read a resourceVersion: %w", err)
		}
		if version <= s.From || l.logged && version <= l.version {
			return nil
		}
		s.noteRevision(l, version, o.Raw)
		if !s.Aggregated && s.sizes.creation(version) {
			return s.noteCreation(l, version-1)
		}
		at, last = s.explained.highest(version-1), version-1
	}
	if !l.logged {
		return s.noteCreation(l, at)
	}
	return nil
}

// noteRevision records a revision of the incarnation.
func (s *search) noteRevision(l *incarnation, version uint64, body []byte) {
	s.mu.Lock()
	if s.bytes += int64(len(body)); s.bytes > bodiesKept {
		body = nil
	}
	l.revisions = append(l.revisions, revision{version, body})
	s.mu.Unlock()
	s.explain(version)
}

// noteCreation records that the oldest revision found is the creation: the object did not exist at the revision absent. If
// the log has the object before that, it left the collection and came back, as selectors make it do: it then has two
// incarnations under one uid.
func (s *search) noteCreation(l *incarnation, absent uint64) error {
	if n := len(l.revisions); n > 0 {
		l.created = l.revisions[n-1].version
	}
	if l.logged {
		earlier := s.newIncarnation(l.key, l.uid)
		l.logged, l.version = false, 0
		s.noteEnd(earlier, s.From, absent)
	}
	return nil
}
