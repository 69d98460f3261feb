package sinks

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
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
// and from the positions after. So a gap record of each stream explains the hole, and no list is necessary.
type Hole struct {
	Reason        string
	InBatch       bool // a batch lacks changes, whose streams are not known
	Before, After map[change.StreamID]change.ResourceVersion
}

func (h *Hole) Error() string { return "the log has a hole: " + h.Reason }

// Records returns the gap records that explain the hole.
func (h *Hole) Records() (all []change.Control) {
	for _, stream := range slices.Sorted(maps.Keys(h.After)) {
		from, to := h.from(stream), h.After[stream]
		if to.Compare(from) > 0 {
			all = append(all, change.GapControl(stream, to, change.Gap{ID: HoleID(stream, from),
				From: from, To: to, Reason: "records were removed from the log"}, h.Reason))
		}
	}
	return all
}

// HoleID is the id of the gap record of a hole.
func HoleID(stream change.StreamID, from change.ResourceVersion) string {
	return "hole:" + change.GapID(stream, from)
}

// from is 1 if the stream's first list had not ended.
func (h *Hole) from(stream change.StreamID) change.ResourceVersion {
	if v := h.Before[stream]; v.Valid() {
		return v
	}
	return "1"
}

// Moves visits positions to which batches have moved streams, in the order of the log.
type Moves func(visit func(change.StreamID, change.ResourceVersion)) error

// Unexplained returns the hole, or nil if it is explained. before has the positions up to the hole, and after those from its end
// on. records visits the records of gaps and of streams' beginnings from its end on.
func (h *Hole) Unexplained(before, after Moves, records func(visit func(record []byte) error) error) (*Hole, error) {
	h.Before = map[change.StreamID]change.ResourceVersion{}
	err := before(func(s change.StreamID, v change.ResourceVersion) { h.Before[s] = v })
	if err == nil {
		err = after(h.Moved)
	}
	explained := len(h.Records()) == 0
	if err == nil && !explained {
		err = records(func(record []byte) error {
			var c change.Control
			err := json.Unmarshal(record, &c)
			explained = explained || h.Explain(&c)
			return err
		})
	}
	if err != nil || explained {
		return nil, err
	}
	return h, nil
}

// Moved adds a position after the hole. The first one of each stream counts.
func (h *Hole) Moved(s change.StreamID, v change.ResourceVersion) {
	if h.After == nil {
		h.After = map[change.StreamID]change.ResourceVersion{}
	}
	if _, known := h.After[s]; !known {
		h.After[s] = v
	}
}

// Explain forgets the streams whose hole a control record explains. The record of a loss explains a hole, too, and so does a
// stream's beginning after the hole. Explain reports whether no stream is left.
func (h *Hole) Explain(c *change.Control) (explained bool) {
	if _, known := h.Before[c.Stream]; c.Type == change.ControlSnapshotBegin && !known {
		delete(h.After, c.Stream)
	} else if g := c.Gap; g != nil && g.Lost() && h.InBatch {
		clear(h.After)
	} else if g != nil && (g.Lost() && g.To.Compare(h.After[c.Stream]) >= 0 || g.ID == HoleID(c.Stream, g.From) &&
		g.From.Compare(h.from(c.Stream)) <= 0 && g.To.Compare(h.After[c.Stream]) >= 0) {
		delete(h.After, c.Stream)
	}
	return len(h.Records()) == 0
}

// HoleSearch is how far the log of each slot was searched for holes: its new batches, and again a part of all batches. P is a
// place in the log of a slot. It is safe for concurrent use by different slots.
type HoleSearch[P comparable] struct{ slots sync.Map }

type holeSearch[P comparable] struct{ fresh, again P }

// Search searches no longer than HoleTime. find searches after a place until a time, in new batches or again in all. It returns
// how far it came.
func (s *HoleSearch[P]) Search(slot int, find func(after P, again bool, until time.Time) (P, *Hole, error)) (h *Hole, err error) {
	known, _ := s.slots.LoadOrStore(slot, new(holeSearch[P]))
	x, until := known.(*holeSearch[P]), time.Now().Add(HoleTime)
	if x.fresh, h, err = find(x.fresh, false, until); err == nil && h == nil && time.Now().Before(until) {
		if x.again, h, err = find(x.again, true, until); x.again == x.fresh {
			x.again = *new(P)
		}
	}
	return h, err
}
