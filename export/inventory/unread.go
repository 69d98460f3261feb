package inventory

import (
	"context"
	"slices"
	"strings"

	"kubecdc/change"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
)

// A stream that the checkpoint does not know begins with a first list. But the log may have objects of it: the stream was
// forgotten, or began with another checkpoint. If the cluster does not have these objects any more, they would live in the log
// for ever. So the log's objects are read back before the stream begins, and its list is compared with them.

// unread are the streams to read back.
type unread struct {
	streams  []change.StreamID // to be read back by the next session
	readBack map[change.StreamID]bool
}

// UnreadError ends a session. The next one reads back what the log has of these streams.
type UnreadError struct{ streams []change.StreamID }

func (e *UnreadError) Error() string {
	ids := make([]string, len(e.streams))
	for i, id := range e.streams {
		ids[i] = string(id)
	}
	return "the log may have objects of streams that the checkpoint does not know: " + strings.Join(ids, ", ")
}

// MayBegin returns an error if the log may have something of streams that the checkpoint does not know, and it was not read back.
func (v *Inventory) MayBegin(ctx context.Context, streams []*change.Stream) error {
	unread := &UnreadError{}
	for _, s := range streams {
		if v.unread.readBack[s.ID()] {
			continue
		}
		has, err := v.content.Has(ctx, s)
		if err != nil {
			return dependency.Tag(dependency.Sink, err)
		}
		if has {
			unread.streams = append(unread.streams, s.ID())
		}
	}
	if len(unread.streams) > 0 {
		return unread
	}
	return nil
}

// loss returns what to read back, in the form for rebuildFrom.
func (u *unread) loss() *sinks.LostTailError {
	streams := u.streams
	return &sinks.LostTailError{TailRead: true, Gone: func(id change.StreamID) bool { return slices.Contains(streams, id) }}
}

// done records that all was read back.
func (u *unread) done() {
	if u.readBack == nil {
		u.readBack = map[change.StreamID]bool{}
	}
	for _, id := range u.streams {
		u.readBack[id] = true
	}
	u.streams = nil
}
