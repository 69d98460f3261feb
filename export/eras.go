package export

import (
	"context"
	"errors"
	"slices"
	"strings"

	"kubecdc/change"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
)

// A stream that the checkpoint does not know begins with a first list. But the log may have objects of it, that live there for ever if the
// cluster has them no more: the stream was forgotten, or began under another checkpoint. So what the log has is read back before the stream
// begins, and its list is compared with that.

// unreadError ends a session: the next one reads back what the log has of these streams.
type unreadError struct{ streams []change.StreamID }

func (e *unreadError) Error() string {
	ids := make([]string, len(e.streams))
	for i, id := range e.streams {
		ids[i] = string(id)
	}
	return "the log may have objects of streams that the checkpoint does not know: " + strings.Join(ids, ", ")
}

// refuseUnread returns an error if the log may have something of a stream that is to begin, and it was not read back.
func (st *streams) refuseUnread(ctx context.Context, selection discovery.Selection, stored []change.Position) error {
	unread := &unreadError{}
	for _, r := range selection.Resources {
		for _, s := range st.slot.config.StreamsOf(r) {
			id := s.ID()
			if !st.slot.owns(id) || st.all[id] != nil || st.slot.readBack[id] || st.slot.refusals.of(r) != nil ||
				slices.ContainsFunc(stored, func(p change.Position) bool { return p.Stream == id }) {
				continue
			}
			has, err := st.slot.log.Has(ctx, s)
			if err != nil {
				return dependency.Tag(dependency.Sink, err)
			}
			if has {
				unread.streams = append(unread.streams, id)
			}
		}
	}
	if len(unread.streams) > 0 {
		return unread
	}
	return nil
}

// noteUnread takes the error of a session, and reports whether it is such a one: then the next session can start at once.
func (s *slot) noteUnread(err error) bool {
	unread, is := errors.AsType[*unreadError](err)
	if is {
		s.unread = unread.streams
	}
	return is
}

// unreadStreams are what to read back, as rebuildFrom takes it.
func (s *slot) unreadStreams() *sinks.LostTailError {
	unread := s.unread
	return &sinks.LostTailError{TailRead: true, Gone: func(id change.StreamID) bool { return slices.Contains(unread, id) }}
}

// noteReadBack ends the reading back.
func (s *slot) noteReadBack() {
	if s.readBack == nil {
		s.readBack = map[change.StreamID]bool{}
	}
	for _, id := range s.unread {
		s.readBack[id] = true
	}
	s.unread = nil
}
