package plan

import (
	"context"
	"log/slog"
	"slices"

	"kubecdc/change"
)

// Slot is what every part that works on a slot knows about the slot.
type Slot struct {
	Number   int
	Config   Config
	Parts    *Watched
	Selected *Selections // nil while the number of slots changes
	Logger   *slog.Logger
}

// Owns reports whether a stream hashes to this slot.
func (s *Slot) Owns(stream change.StreamID) bool {
	return change.SlotOf(stream, s.Config.Slots) == s.Number
}

// Positions returns the positions of this slot's streams that satisfy a condition. If the condition is nil, it returns all.
func (s *Slot) Positions(ctx context.Context, accepts func(change.StreamID) bool) ([]change.Position, error) {
	all, err := s.Parts.Store.Streams(ctx)
	return slices.DeleteFunc(all, func(p change.Position) bool {
		return !s.Owns(p.Stream) || accepts != nil && !accepts(p.Stream)
	}), err
}

// Cached returns a function that remembers another function's results, for use by one goroutine.
func Cached[T any](find func(stream change.StreamID) T) func(stream change.StreamID) T {
	known := map[change.StreamID]T{}
	return func(stream change.StreamID) T {
		t, ok := known[stream]
		if !ok {
			t = find(stream)
			known[stream] = t
		}
		return t
	}
}
