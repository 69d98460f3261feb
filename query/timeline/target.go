package timeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/sinks"
)

// Target is a moment of the past. At most one of its fields but Back is set. The zero value is the end of the log.
type Target struct {
	Version  change.ResourceVersion // a version of the question's resources
	Happened time.Time              // a time in the cluster: the last watermark of each stream by then
	Logged   time.Time              // the content of the log at a time
	Batch    *moment.Batch          // the content of the log with this batch
	Back     time.Duration          // how far Happened may be moved back to a time that is certain
}

// TargetOf returns the target of a moment. A time is when things happened, or with logged when the log got them.
func TargetOf(m moment.Moment, logged bool) Target {
	if logged {
		return Target{Version: m.Version, Batch: m.Batch, Logged: m.Time}
	}
	return Target{Version: m.Version, Batch: m.Batch, Happened: m.Time}
}

func (t Target) String() string {
	switch {
	case t.Version != "":
		return "resourceVersion " + string(t.Version)
	case !t.Happened.IsZero():
		return t.Happened.UTC().Format(time.RFC3339Nano) + " (when it happened)"
	case !t.Logged.IsZero():
		return t.Logged.UTC().Format(time.RFC3339Nano) + " (when it was logged)"
	case t.Batch != nil:
		return "checkpoint " + t.Batch.String()
	}
	return "the end of the log"
}

// noBatchYet is sinks.ErrNotRetained for a batch that comes after the slot's last one.
type noBatchYet struct {
	slot int
	last uint64
}

func (e *noBatchYet) Error() string {
	return fmt.Sprintf("slot %d has no such batch yet: its last one is %d", e.slot, e.last)
}

func (e *noBatchYet) Is(target error) bool { return target == sinks.ErrNotRetained }

// Resolve replaces the batch of a target by the time at which it was logged. The batch is searched from a time on.
func Resolve(ctx context.Context, r sinks.Reader, t Target, since time.Time) (Target, error) {
	if t.Batch == nil {
		return t, nil
	}
	var logged Target
	last := uint64(0) // batch of the slot
	has := func(span *sinks.Span) bool {
		if span.Slot == t.Batch.Slot {
			last = max(last, span.Batch)
		}
		return span.Slot == t.Batch.Slot && span.First <= t.Batch.Number && t.Batch.Number <= span.Batch
	}
	err := r.Controls(ctx, since, has, func(c *change.Control) error {
		if c.Type != change.ControlBatch || c.Slot != t.Batch.Slot {
			return nil
		}
		if last = max(last, c.Batch); c.Batch != t.Batch.Number {
			return nil
		}
		logged.Logged = time.UnixMilli(c.TimeMs).Add(time.Millisecond - 1) // the record has milliseconds
		return sinks.ErrEnough
	})
	if err != nil && !errors.Is(err, sinks.ErrEnough) {
		return t, err
	}
	if logged.Logged.IsZero() && last > 0 && last < t.Batch.Number {
		return t, &noBatchYet{t.Batch.Slot, last}
	}
	if logged.Logged.IsZero() {
		return t, fmt.Errorf("its batch is not in the log, or its batch record is pruned: %w", sinks.ErrNotRetained)
	}
	return logged, nil
}

// resolveWithCut resolves a target, and returns the cut if that is a point of the log, or nil if it is not.
func resolveWithCut(ctx context.Context, r sinks.Reader, moment Target, since time.Time) (Target, *sinks.Cut, error) {
	target, err := Resolve(ctx, r, moment, since)
	if err != nil || target.Version != "" || !target.Happened.IsZero() {
		return target, nil, err
	}
	cut, err := r.CutAt(ctx, target.Logged)
	return target, &cut, err
}
