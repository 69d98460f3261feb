package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/sinks"
)

// A transaction ends at one of these limits, whichever it reaches first.
const (
	maxChanges = 5000
	maxBytes   = 8 << 20
	maxWait    = time.Second
)

// Run writes what a plan selects to a target. It never writes a change twice, however often it is stopped and resumed. Call Begin
// or Resume, then Do.
type Run struct {
	Plan     *Plan
	Log      sinks.Reader
	Target   Target
	Rate     int // most changes per second; 0: no limit
	Progress func(written int64)
	Envelope change.Envelope // for records of a log that stores none
	// Covered returns the control records and positions that may be written to a copy. The copy has all changes of some resources
	// up to a cut.
	Covered func(ctx context.Context, log sinks.Reader, resources []string, to *sinks.Cut) ([]change.Control,
		[]change.Position, error)

	chosen  *sinks.Labelled
	limiter *rate.Limiter
	done    map[string][2]uint64 // progress of the target, by place
	pending map[string][2]uint64 // progress that the next transaction adds
	visited map[string][2]uint64 // progress of the reading, in a log without offsets
	written int64
	ended   bool
	kinds   kinds

	changes []sinks.Logged
	bytes   int
	since   time.Time // when the first of changes was read
}

// Begin opens a target that has no replay, and writes the plan. It returns a fault.Usage if the target has other records.
func (r *Run) Begin(ctx context.Context) error {
	others, _, err := r.open(ctx, r.Plan.ID)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		return fault.Usagef("the target has the records of other replays (%s): choose another place, or go on with one of them "+
			"(--resume)",
			strings.Join(others, ", "))
	}
	if topics, ok := r.Target.(topicsTarget); ok {
		used, err := topics.Used(ctx, r.Plan.topics())
		if err != nil {
			return err
		}
		if used != "" {
			return fault.Usagef("topic %s has records that no replay has written: choose another prefix", used)
		}
	}
	plan, err := json.Marshal(r.Plan)
	if err != nil {
		return fmt.Errorf("encode the plan: %w", err)
	}
	return r.Target.Write(ctx, nil, r.control(change.ControlReplayBegin, &change.Replay{Plan: plan}))
}

// topicsTarget is a target whose topics may already have records.
type topicsTarget interface {
	// Used returns one of the topics that has records, or "".
	Used(ctx context.Context, topics []string) (string, error)
}

// Resume opens a target that has a part of a replay, and reads the plan there. It returns a fault.Usage if the target lacks that
// replay.
func (r *Run) Resume(ctx context.Context, id string) error {
	others, plan, err := r.open(ctx, id)
	if err != nil {
		return err
	}
	if plan == nil {
		text := "there is no replay " + id + " at the target: name the target as when it was begun"
		if len(others) > 0 {
			text += "; it has " + strings.Join(others, ", ")
		}
		return fault.Usage(text)
	}
	r.Plan = &Plan{}
	if err := json.Unmarshal(plan, r.Plan); err != nil {
		return fmt.Errorf("decode the plan of replay %s: %w", id, err)
	}
	return nil
}

// open opens the target, and reads the replay's progress and plan. It returns the plan, and the ids of other replays at the
// target.
func (r *Run) open(ctx context.Context, id string) (others []string, plan json.RawMessage, err error) {
	r.done, r.pending, r.visited, r.kinds = map[string][2]uint64{}, map[string][2]uint64{}, map[string][2]uint64{}, kinds{}
	err = r.Target.Open(ctx, id, func(c *change.Control) error {
		switch {
		case c.Replay == nil:
			return fmt.Errorf("decode a control record %s: it has no replay", c.Type)
		case c.Replay.ID != id:
			if c.Type == change.ControlReplayBegin {
				others = append(others, c.Replay.ID)
			}
			return nil
		case c.Type == change.ControlReplayBegin:
			plan = c.Replay.Plan
		case c.Type == change.ControlReplayEnd:
			r.ended = true
		}
		for place, position := range c.Replay.Done {
			r.done[place] = position
		}
		r.written = max(r.written, c.Replay.Records)
		return nil
	})
	return others, plan, err
}

// Written returns how many records the target has of the replay, as of Resume or the last write.
func (r *Run) Written() int64 { return r.written }

// Ended reports whether Resume found the record that ends the replay, so that nothing remains to write.
func (r *Run) Ended() bool { return r.ended }

func (r *Run) control(kind change.ControlType, replay *change.Replay) *change.Control {
	replay.ID, replay.Records = r.Plan.ID, r.written
	c := change.ReplayControl(kind, r.Plan.Cluster, replay)
	return &c
}

// Do writes the changes that the target does not have yet, then the end of the replay.
func (r *Run) Do(ctx context.Context) (err error) {
	if r.chosen, err = r.Plan.Filter.Labelled(); err != nil {
		return fmt.Errorf("parse the label selector: %w", err)
	}
	if r.Rate > 0 {
		r.limiter = rate.NewLimiter(rate.Limit(r.Rate), max(r.Rate/10, 1))
	}
	q := r.Plan.query()
	q.Wanted = func(l *sinks.Logged) bool { return !(r.chosen.Empty() && r.has(l)) && r.Plan.wants(l) }
	if err := r.Log.Changes(ctx, q, func(l *sinks.Logged) error { return r.visit(ctx, l) }); err != nil {
		return err
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	if to, ok := r.Target.(*SinkTarget); ok && r.Covered != nil && r.Plan.isCopy() {
		if to.controls, to.positions, err = r.Covered(ctx, r.Log, r.Plan.Filter.Resources, r.Plan.To.Cut); err != nil {
			return err
		}
	}
	return r.Target.Write(ctx, nil, r.control(change.ControlReplayEnd, &change.Replay{Next: r.Plan.Next}))
}

// place identifies a part of the log within which changes have one order. In a partition, transactions of several slots may end
// in another order than they began. So each slot has its own place.
func place(l *sinks.Logged) string {
	switch {
	case l.Topic == "" && l.Batch == 0: // an object's last state, which has no order
		return fmt.Sprintf("object/%s/%s", l.Change.Stream.ID(), l.Change.Key())
	case l.Topic == "":
		return fmt.Sprintf("slot/%d", l.Slot)
	}
	return fmt.Sprintf("%s/%d/%d", l.Topic, l.Partition, l.Slot)
}

// has reports whether the target certainly has a change, by the progress of its place.
func (r *Run) has(l *sinks.Logged) bool {
	done, known := r.done[place(l)]
	if l.Topic != "" {
		return known && uint64(l.Offset) < done[0]
	}
	return known && l.Batch < done[0]
}

// progressOf returns the place of a change, and the progress after it: the next offset, or the batch and the change's number in
// it.
func (r *Run) progressOf(l *sinks.Logged) (string, [2]uint64) {
	p := place(l)
	if l.Topic != "" {
		next := uint64(l.Offset) + 1
		if l.Op == change.Delete && l.Value != nil {
			next++ // for its tombstone
		}
		return p, [2]uint64{next}
	}
	if l.Batch == 0 {
		return p, [2]uint64{0, 1}
	}
	n := r.visited[p]
	if n[0] != l.Batch {
		n = [2]uint64{l.Batch}
	}
	n[1]++
	r.visited[p] = n
	return p, n
}

func (r *Run) visit(ctx context.Context, l *sinks.Logged) error {
	p, step := r.progressOf(l)
	selected := r.chosen.Selects(l)
	if !selected || r.has(l) || l.Topic == "" && step[0] == r.done[p][0] && step[1] <= r.done[p][1] {
		return nil
	}
	if r.limiter != nil {
		if err := r.limiter.Wait(ctx); err != nil {
			return err
		}
	}
	if len(r.changes) == 0 {
		r.since = time.Now()
	}
	r.changes = append(r.changes, l.Clone())
	if last := &r.changes[len(r.changes)-1]; last.Key == nil {
		asRecord(&r.Envelope, last, r.kinds.streamOf(&last.Change))
	}
	r.pending[p] = step
	r.bytes += len(l.Key) + len(l.Value) + len(l.Before) + len(l.After)
	if len(r.changes) < maxChanges && r.bytes < maxBytes && time.Since(r.since) < maxWait {
		return nil
	}
	return r.flush(ctx)
}

// flush writes the collected changes and the progress in one transaction.
func (r *Run) flush(ctx context.Context) error {
	if len(r.changes) == 0 {
		return nil
	}
	c := r.control(change.ControlReplayProgress, &change.Replay{Done: r.pending})
	c.Replay.Records += int64(len(r.changes))
	if err := r.Target.Write(ctx, r.changes, c); err != nil {
		return err
	}
	r.written = c.Replay.Records
	for p, step := range r.pending {
		r.done[p] = step
	}
	clear(r.pending)
	clear(r.changes)
	r.changes, r.bytes = r.changes[:0], 0
	if r.Progress != nil {
		r.Progress(r.written)
	}
	return nil
}
