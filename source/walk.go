package source

import (
	"context"
	"fmt"
	"strconv"

	"kubecdc/source/apiclient"
)

// walkLiving walks back the objects that live at to.
func (b *backfill) walkLiving(ctx context.Context, changed []apiclient.Object) error {
	lives := make([]*life, len(changed))
	for i := range changed {
		at, err := strconv.ParseUint(changed[i].Version, 10, 64)
		if err != nil {
			return fmt.Errorf("read a resourceVersion: %w", err)
		}
		lives[i] = b.lifeOf(changed[i].Key(), changed[i].UID)
		lives[i].alive = at
	}
	return b.each(ctx, lives, func(ctx context.Context, l *life) error { return b.walk(ctx, l, l.alive, b.to) })
}

// walk finds the revisions of a life, from the newest at or before the revision last back. From at to last nothing
// happened to it: so it may be read at any revision between, where at itself is compacted.
//
// From a revision found, the next read is at the newest one before it that is not explained: what lies between are
// changes of other keys. So a walk ends without a read where all below is explained.
func (b *backfill) walk(ctx context.Context, l *life, at, last uint64) error {
	for {
		if floor := b.lowest(); at < floor && at > b.from {
			if last < floor {
				l.cut = true
				return nil
			}
			at = floor // there it stands as it stood at at
		}
		if at <= b.from || l.logged && at <= l.version {
			break
		}
		o, exists, err := b.history.objectAt(ctx, l.key, at)
		if apiclient.IsGone(err) {
			if err := b.compacted(ctx, at); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if !exists || o.UID != l.uid {
			return b.bear(l, at)
		}
		version, err := strconv.ParseUint(o.Version, 10, 64)
		if err != nil {
			return fmt.Errorf("read a resourceVersion: %w", err)
		}
		if version <= b.from || l.logged && version <= l.version {
			return nil
		}
		b.found(l, version, o.Raw)
		if !b.foreign && b.census.birth(version) {
			return b.bear(l, version-1)
		}
		at, last = b.explained.highest(version-1), version-1
	}
	if !l.logged {
		return b.bear(l, at)
	}
	return nil
}

func (b *backfill) found(l *life, version uint64, body []byte) {
	b.mu.Lock()
	if b.bytes += int64(len(body)); b.bytes > bodiesKept {
		body = nil
	}
	l.revisions = append(l.revisions, revision{version, body})
	b.mu.Unlock()
	b.explain(version)
}

// bear notes that the oldest revision found is the creation: the object did not exist at the revision absent. If the
// log has it alive before that, it left the collection and came back (a selector does that): two lives.
func (b *backfill) bear(l *life, absent uint64) error {
	if n := len(l.revisions); n > 0 {
		l.born = l.revisions[n-1].version
	}
	if l.logged {
		earlier := b.lifeOf(l.key, l.uid)
		l.logged, l.version = false, 0
		b.end(earlier, b.from, absent)
	}
	return nil
}
