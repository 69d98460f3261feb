package query

import (
	"context"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Copied is what a copy of a log may say of its streams: control records and positions. The copy has every change of some resources
// that the log has up to a cut, in another order.
func Copied(
	ctx context.Context, r sinks.Reader, resources []string, cut *sinks.Cut,
) (controls []change.Control, positions []change.Position, err error) {
	kept, err := r.Retained(ctx, resources)
	if err != nil {
		return nil, nil, err
	}
	s := newStories(resources, kept, Target{}, nil)
	err = r.Controls(ctx, time.Time{}, nil, func(c *change.Control) error {
		if last, known := cut.Batches[c.Slot]; known && c.Batch <= last {
			return s.control(c)
		}
		return nil
	})
	for _, id := range slices.Sorted(maps.Keys(s.streams)) {
		st := s.streams[id]
		c := s.coverage(st)
		if len(st.eras) != 1 || st.back.Version != "" || len(c.Missing) > 0 || c.unlisted != "" { // what came first tells here, and a copy does not have that
			controls = append(controls, change.SnapshotBeginControl(id, ""))
			continue
		}
		for _, g := range st.gaps {
			controls = append(controls, change.GapControl(id, c.UpTo, g.Gap, ""))
		}
		// For a reader the first list has ended where the log is complete from, as the copy has the state there.
		controls = append(controls, change.Control{Type: change.ControlSnapshotEnd, Stream: id, ResourceVersion: c.Since,
			TimeMs: st.last.Time.UnixMilli()})
		p := change.Position{Stream: id, ResourceVersion: c.UpTo, Time: st.last.Time}
		if !st.eras[0].removed.IsZero() {
			p.Ended = change.EndedRemoved
		}
		positions = append(positions, p)
	}
	return controls, positions, err
}
