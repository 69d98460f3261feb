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

// A transaction has so many changes, so many bytes, or what came in such a time, whichever is least.
const (
	maxChanges = 5000
	maxBytes   = 8 << 20
	maxWait    = time.Second
)

// Run writes what a plan selects to a target. It never writes a change twice, however often it is ended and resumed. Begin or Resume comes
// first, then Do.
type Run struct {
	Plan     *Plan
	Log      sinks.Reader
	Target   Target
	Rate     int // changes a second, at most; 0: no limit
	Progress func(written int64)
	Envelope change.Envelope // of the records of a log that has none
	// Covered is what a copy of all changes of some resources up to a cut may say of their streams.
	Covered func(ctx context.Context, log sinks.Reader, resources []string, to *sinks.Cut) ([]change.Control, []change.Position, error)

	chosen  *sinks.Labelled
	limiter *rate.Limiter
	done    map[string][2]uint64 // what the target has
	moved   map[string][2]uint64 // the part of it that the next transaction adds
	passed  map[string][2]uint64 // of a log without offsets: what was visited
	written int64
	ended   bool
	kinds   kinds

	changes []sinks.Logged
	bytes   int
	since   time.Time // of the first of changes
}

// Begin opens a target that has nothing, and writes the plan.
func (r *Run) Begin(ctx context.Context) error {
	others, _, err := r.open(ctx, r.Plan.ID)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		return fault.Usagef("the target has the records of other replays (%s): choose another place, or go on with one of them (--resume)",
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

// topicsTarget is a target whose topics may have been there before.
type topicsTarget interface {
	// Used returns one of the topics that has records; empty: none has.
	Used(ctx context.Context, topics []string) (string, error)
}

// Resume opens a target that has a part of a replay, and reads the plan from there.
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

// open opens the target, and reads what it has of the replay, its plan too. others are the other replays that have written there.
func (r *Run) open(ctx context.Context, id string) (others []string, plan json.RawMessage, err error) {
	r.done, r.moved, r.passed, r.kinds = map[string][2]uint64{}, map[string][2]uint64{}, map[string][2]uint64{}, kinds{}
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
		for place, at := range c.Replay.Done {
			r.done[place] = at
		}
		r.written = max(r.written, c.Replay.Records)
		return nil
	})
	return others, plan, err
}

func (r *Run) Written() int64 { return r.written }

func (r *Run) Ended() bool { return r.ended }

func (r *Run) control(kind change.ControlType, replay *change.Replay) *change.Control {
	replay.ID, replay.Records = r.Plan.ID, r.written
	c := change.ReplayControl(kind, r.Plan.Cluster, replay)
	return &c
}

// Do writes the changes that the target does not have yet, and then that the replay has ended.
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
	if to, ok := r.Target.(*SinkTarget); ok && r.Covered != nil && r.Plan.whole() {
		if to.controls, to.positions, err = r.Covered(ctx, r.Log, r.Plan.Filter.Resources, r.Plan.To.Cut); err != nil {
			return err
		}
	}
	return r.Target.Write(ctx, nil, r.control(change.ControlReplayEnd, &change.Replay{Next: r.Plan.Next}))
}

// place is where a change is in the log. Within a place changes come in one order, whatever comes in between. In a partition,
// transactions of several slots may end in another order than they began.
func place(l *sinks.Logged) string {
	switch {
	case l.Topic == "" && l.Batch == 0: // the last state of an object, in no order
		return fmt.Sprintf("object/%s/%s", l.Change.Stream.ID(), l.Change.Key())
	case l.Topic == "":
		return fmt.Sprintf("slot/%d", l.Slot)
	}
	return fmt.Sprintf("%s/%d/%d", l.Topic, l.Partition, l.Slot)
}

// has reports whether the target has a change for certain, by its place.
func (r *Run) has(l *sinks.Logged) bool {
	done, known := r.done[place(l)]
	if l.Topic != "" {
		return known && uint64(l.Offset) < done[0]
	}
	return known && l.Batch < done[0]
}

// step returns the place of a change, and what is done with it: the next offset, or the batch and the number of the change in it.
func (r *Run) step(l *sinks.Logged) (string, [2]uint64) {
	at := place(l)
	if l.Topic != "" {
		next := uint64(l.Offset) + 1
		if l.Op == change.Delete && l.Value != nil {
			next++ // its tombstone
		}
		return at, [2]uint64{next}
	}
	if l.Batch == 0 {
		return at, [2]uint64{0, 1}
	}
	n := r.passed[at]
	if n[0] != l.Batch {
		n = [2]uint64{l.Batch}
	}
	n[1]++
	r.passed[at] = n
	return at, n
}

func (r *Run) visit(ctx context.Context, l *sinks.Logged) error {
	at, step := r.step(l)
	selected := r.chosen.Selects(l)
	if !selected || r.has(l) || l.Topic == "" && step[0] == r.done[at][0] && step[1] <= r.done[at][1] {
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
		asRecord(&r.Envelope, last, r.kinds.of(&last.Change))
	}
	r.moved[at] = step
	r.bytes += len(l.Key) + len(l.Value) + len(l.Before) + len(l.After)
	if len(r.changes) < maxChanges && r.bytes < maxBytes && time.Since(r.since) < maxWait {
		return nil
	}
	return r.flush(ctx)
}

// flush writes what was collected, in one transaction with how far that is.
func (r *Run) flush(ctx context.Context) error {
	if len(r.changes) == 0 {
		return nil
	}
	c := r.control(change.ControlReplayProgress, &change.Replay{Done: r.moved})
	c.Replay.Records += int64(len(r.changes))
	if err := r.Target.Write(ctx, r.changes, c); err != nil {
		return err
	}
	r.written = c.Replay.Records
	for at, step := range r.moved {
		r.done[at] = step
	}
	clear(r.moved)
	clear(r.changes)
	r.changes, r.bytes = r.changes[:0], 0
	if r.Progress != nil {
		r.Progress(r.written)
	}
	return nil
}
