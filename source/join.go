package source

import (
	"context"
	"maps"

	"kubecdc/change"
)

// A stream that others were merged into may have namespaces that were never completely listed, since the stream that
// they came from was not: floors without a version. They are listed before the watch begins, and get the list's version
// for a floor. The position stays: what happened to the others since is read from the watch, change by change.

// joins are the floors while there are such namespaces and nothing else calls for a list; nil otherwise.
func (s *Stream) joins() change.Floors {
	if s.gap != nil || s.position == "" || !s.floors.Unlisted() {
		return nil
	}
	return s.floors
}

// concerns reports whether the list tells of the namespace's objects.
func (l *lister) concerns(namespace string) bool {
	if l.joins == nil {
		return true
	}
	floor, ok := l.joins.Of(namespace)
	return ok && floor == ""
}

// join ends the list of the namespaces that join. Nobody of them may be missing: the first list of their own stream
// may have told of objects that are gone by now.
func (l *lister) join(ctx context.Context, version string) error {
	s := l.stream
	for _, key := range s.index.unseen() {
		if namespace, _ := splitKey(key); l.concerns(namespace) {
			if err := s.sendDelete(ctx, key, true); err != nil {
				return err
			}
		}
	}
	floors := maps.Clone(l.joins)
	for namespace, floor := range floors {
		if floor == "" {
			floors[namespace] = version
		}
	}
	s.listing, s.floors = nil, floors
	done := change.Control{Type: change.ControlSnapshotEnd, ResourceVersion: version, Objects: &l.objects}
	if err := s.sendControl(ctx, done, s.position); err != nil {
		s.listing, s.floors = l, l.joins
		return err
	}
	return nil
}
