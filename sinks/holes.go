package sinks

import (
	"context"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
)

// HoleTime is how long a log may search for holes when it is opened, and with each proof.
const HoleTime = 100 * time.Millisecond

// HoleFinder is a Reader that finds the first hole in all of its log that no record explains. It returns nil if there is none.
type HoleFinder interface {
	Hole(ctx context.Context) (*Hole, error)
}

// Hole is what a slot's log lacks in its middle: batches, or changes of a batch. The log is complete up to the positions before,
// and from the positions after. So a gap record of each stream explains the hole, and nothing is listed.
type Hole struct {
	Reason        string
	InBatch       bool // a batch lacks changes, whose streams are not known
	Before, After map[change.StreamID]change.ResourceVersion
}

func (h *Hole) Error() string { return "the log has a hole: " + h.Reason }

// Records returns the gap records that explain the hole.
func (h *Hole) Records() (all []change.Control) {
	for _, stream := range slices.Sorted(maps.Keys(h.After)) {
		from, to := h.Before[stream], h.After[stream]
		if !from.Valid() {
			from = "1" // the first list had not ended
		}
		if to.Compare(from) > 0 {
			all = append(all, change.GapControl(stream, to, change.Gap{ID: "hole:" + change.GapID(stream, from),
				From: from, To: to, Reason: "records were removed from the middle of the log"}, h.Reason))
		}
	}
	return all
}

// Explain forgets the streams whose hole a control record explains. The record of a loss explains a hole, too. Explain reports
// whether no stream is left.
func (h *Hole) Explain(c *change.Control) (explained bool) {
	if g := c.Gap; g != nil && g.Lost() && h.InBatch {
		clear(h.After)
	} else if g != nil && (g.Lost() && g.To.Compare(h.After[c.Stream]) >= 0 || g.ID == "hole:"+change.GapID(c.Stream, g.From) &&
		g.From.Compare(h.Before[c.Stream]) <= 0 && g.To.Compare(h.After[c.Stream]) >= 0) {
		delete(h.After, c.Stream)
	}
	return len(h.Records()) == 0
}
