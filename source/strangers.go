package source

import (
	"context"
	"fmt"

	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// lookForStrangers finds lives that came and went unseen, while there are deaths that nobody known died.
func (b *backfill) lookForStrangers(ctx context.Context) (found bool, err error) {
	at := b.mostStrangers()
	if at == 0 {
		return false, nil
	}
	namespace, err := b.suspect(ctx, at)
	if err == nil {
		found, err = b.strangersAt(ctx, namespace, at)
	}
	if apiclient.IsGone(err) {
		return true, b.compacted(ctx, at) // look elsewhere
	}
	if err == nil && !found {
		b.incomplete(fmt.Sprintf("at revision %d an unknown object lives, and the names do not tell which", at))
	}
	return found, err
}

// mostStrangers is the revision just before an open death at which most strangers live at once; 0: there is none.
func (b *backfill) mostStrangers() (at uint64) {
	living, most := int64(0), int64(0)
	before := map[uint64]int64{} // births not found yet, up to a revision
	for _, r := range b.census.asked {
		before[r] = living
		living += b.census.births[r] - b.census.deaths[r]
	}
	for _, r := range b.census.open(b.floor, b.to) {
		if r-1 >= b.floor && (at == 0 || before[r] > most) {
			at, most = r-1, before[r]
		}
	}
	return at
}

// strangersAt reads who lived at the revision, and adds the lives that are not known yet.
func (b *backfill) strangersAt(ctx context.Context, namespace string, at uint64) (found bool, err error) {
	err = b.history.namesAt(ctx, namespace, at, func(o apiclient.Object) error {
		if !b.livesAt(o.Key(), o.UID, at) {
			l := b.stranger(o.Key(), o.UID)
			b.end(l, at, b.to)
			found = true
		}
		return nil
	})
	return found, err
}

// livesAt reports whether the object is known to be alive at the revision.
func (b *backfill) livesAt(key, uid string, at uint64) bool {
	known := false
	for _, l := range b.lives[key] {
		if l.uid != uid {
			continue
		}
		if l.born <= at && (l.died == 0 || at < l.died) && !l.lost {
			return true
		}
		known = true
	}
	k, ok := b.known.Get(key)
	return !known && ok && k.UID == uid
}

// suspect narrows the search to one namespace of a large collection: the one that has more objects at the revision
// than are known. An empty answer means: look everywhere.
func (b *backfill) suspect(ctx context.Context, at uint64) (string, error) {
	if !b.history.stream.Resource.Namespaced || b.history.stream.Namespace != "" {
		return "", nil
	}
	expected := map[string]int64{}
	for key := range b.known.All() {
		if len(b.lives[key]) == 0 {
			namespace, _ := change.SplitKey(key)
			expected[namespace]++
		}
	}
	for key, lives := range b.lives {
		namespace, _ := change.SplitKey(key)
		alive := int64(0)
		for _, l := range lives {
			if b.livesAt(key, l.uid, at) {
				alive = 1 // one at a time under a key
			}
		}
		expected[namespace] += alive
	}
	if len(expected) > 50 {
		return "", nil // asking each for its size costs more than the names
	}
	for namespace, n := range expected {
		size, err := b.history.size(ctx, namespace, at)
		if err != nil || size > n {
			return namespace, err
		}
	}
	return "", nil
}
