package timeline

import (
	"context"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Copied returns the control records and positions that may be written to a copy of a log. The copy has every change of some
// resources up to a cut, in another order than the log.
func Copied(
	ctx context.Context, r sinks.Reader, resources []string, cut *sinks.Cut,
) (controls []change.Control, positions []change.Position, err error) {
	retained, err := r.Retained(ctx, resources)
	if err != nil {
		return nil, nil, err
	}
	s := newSet(resources, retained, Target{}, nil)
	err = r.Controls(ctx, time.Time{}, nil, func(c *change.Control) error {
		if has, _ := cut.Batches.Has(c.Slot, c.Batch); has {
			return s.addControl(c)
		}
		return nil
	})
	for _, id := range slices.Sorted(maps.Keys(s.streams)) {
		st := s.streams[id]
		c := s.coverage(st)
		if len(st.eras) != 1 || len(c.Missing) > 0 || c.WhyUnlisted != "" { // depends on the order, which a copy lacks
			controls = append(controls, change.SnapshotBeginControl(id, ""))
			continue
		}
		for _, g := range st.gaps {
			controls = append(controls, change.GapControl(id, c.UpTo, g.Gap, ""))
		}
		// The copy has the state at the version since which the log is complete. So its readers see the first list end there.
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
