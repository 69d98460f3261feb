package reflector

import (
	"context"

	"kubecdc/change"
	"kubecdc/source/known"
)

// loading reads position and known objects from the checkpoint.
type loading struct{ *Reflector }

func (l *loading) name() change.StreamState { return change.StateLoading }

func (l *loading) step(ctx context.Context) (state, error) {
	p, ok, err := l.inventory.Position(ctx, l.ID())
	if err != nil {
		return l, l.failed(err, "load the position of %s", l.ID())
	}
	objects := known.New()
	err = l.inventory.Objects(ctx, l.ID(), func(key, uid string, version change.ResourceVersion) error {
		objects.Put(key, uid, version)
		return nil
	})
	if err != nil {
		return l, l.failed(err, "load the inventory of %s", l.ID())
	}
	l.known = objects
	l.objects.Store(int64(objects.Len()))
	if p.Ended != "" && l.wanted() != nil { // it was deselected, and goes on
		p.Stream, p.Ended = l.ID(), ""
		if err := l.sendEnd(ctx, change.StreamReselectedControl(p), p); err != nil {
			return l, err
		}
	}
	version := p.ResourceVersion
	if _, newest, any := objects.Newest(); any && newest.Version.Compare(version) > 0 {
		l.ahead = newest.Version
	}
	if version == change.UnknownVersion {
		gap, lostUpTo := l.gapFrom(version), l.options.LostUpTo
		if lostUpTo.Compare(version) <= 0 || l.ahead.Compare(lostUpTo) > 0 {
			return l.enter(l.list(gap), "relist: it is not known how far the log is complete"), nil
		}
		l.ahead, l.cursor = "", lostUpTo
		v := l.verify(l.watch(nil))
		v.gap, v.lostUpTo = gap, lostUpTo
		return l.enter(v, "the log has lost records up to resourceVersion "+string(lostUpTo)), nil
	}
	l.position, l.cursor = version, version
	if !ok || version == "" {
		return l.enter(l.list(nil), "first snapshot"), nil
	}
	return l.enter(l.verify(l.watch(nil)), "resume at resourceVersion "+string(version)), nil
}
