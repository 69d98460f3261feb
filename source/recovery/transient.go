package recovery

import (
	"context"
	"fmt"

	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// findTransient finds objects that were created and deleted in the gap, if there are deletions of unknown objects. It reports
// whether it found any.
func (s *search) findTransient(ctx context.Context) (found bool, err error) {
	at := s.mostTransient()
	if at == 0 {
		return false, nil
	}
	namespace, err := s.suspectNamespace(ctx, at)
	if err == nil {
		found, err = s.transientAt(ctx, namespace, at)
	}
	if apiclient.IsGone(err) {
		return true, s.compacted(ctx, at) // the next round looks elsewhere
	}
	if err == nil && !found {
		s.incomplete(fmt.Sprintf("at revision %d an unknown object exists, and the list of names does not have it", at))
	}
	return found, err
}

// mostTransient returns the revision just before an open deletion at which most unknown objects exist; 0 if there is none.
func (s *search) mostTransient() (at uint64) {
	existing, most := int64(0), int64(0)
	before := map[uint64]int64{} // unknown objects just before a revision
	for _, r := range s.sizes.asked {
		before[r] = existing
		existing += s.sizes.creations[r] - s.sizes.deletions[r]
	}
	for _, r := range s.sizes.openDeletions(s.oldest, s.To) {
		if r-1 >= s.oldest && (at == 0 || before[r] > most) {
			at, most = r-1, before[r]
		}
	}
	return at
}

// transientAt reads the names at the revision and adds the incarnations that are not known yet.
func (s *search) transientAt(ctx context.Context, namespace string, at uint64) (found bool, err error) {
	err = s.history.Names(ctx, namespace, at, func(o apiclient.Object) error {
		if !s.existsAt(o.Key(), o.UID, at) {
			l := s.transient(o.Key(), o.UID)
			s.noteEnd(l, at, s.nextPastList(o.Key(), at))
			found = true
		}
		return nil
	})
	return found, err
}

// existsAt reports whether the object is known to exist at the revision.
func (s *search) existsAt(key, uid string, at uint64) bool {
	known := false
	for _, l := range s.incarnations[key] {
		if l.uid != uid {
			continue
		}
		if l.created <= at && (l.deleted == 0 || at < l.deleted) && !l.undated {
			return true
		}
		known = true
	}
	k, ok := s.log.Get(key)
	return !known && ok && k.UID == uid
}

// suspectNamespace narrows the search to one namespace of a large collection: one that has more objects at the revision than
// are known. An empty answer means all namespaces.
func (s *search) suspectNamespace(ctx context.Context, at uint64) (string, error) {
	if !s.Namespaced {
		return "", nil
	}
	expected := map[string]int64{}
	for key := range s.log.All() {
		if len(s.incarnations[key]) == 0 {
			namespace, _ := change.SplitKey(key)
			expected[namespace]++
		}
	}
	for key, incarnations := range s.incarnations {
		namespace, _ := change.SplitKey(key)
		exists := int64(0)
		for _, l := range incarnations {
			if s.existsAt(key, l.uid, at) {
				exists = 1 // one at a time under a key
			}
		}
		expected[namespace] += exists
	}
	if len(expected) > 50 {
		return "", nil // reading the size of each costs more than listing the names
	}
	for namespace, n := range expected {
		size, err := s.history.Size(ctx, namespace, at)
		if err != nil || size > n {
			return namespace, err
		}
	}
	return "", nil
}
