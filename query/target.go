// Package query answers questions about the past from the log alone: the state of resources at a moment, the history of one
// object, and what differs between two states. Each answer says since when and up to where it is complete: what retention or
// compaction has removed, what a gap could not recover, and what came before the first list are found out from the control
// records (stories.go). The package reads by sinks.Reader; it knows no sink, no checkpoint and no API server.
package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/sinks"
)

// Target is a moment of the past. One of its fields is set; none: the end of the log.
type Target struct {
	Version  change.ResourceVersion // of the resources that are asked about
	Happened time.Time              // in the cluster: the last watermark of each stream by then
	Logged   time.Time              // what the log had then
	Batch    *moment.Batch          // what the log had with this batch
}

// TargetOf is a moment, and for a time the clock that it is on: when things happened, or when the log got them.
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
		return t.Happened.UTC().Format(time.RFC3339) + " (when it happened)"
	case !t.Logged.IsZero():
		return t.Logged.UTC().Format(time.RFC3339) + " (when it was logged)"
	case t.Batch != nil:
		return "checkpoint " + t.Batch.String()
	}
	return "the end of the log"
}

// resolve finds out when the batch of a target was logged.
func resolve(ctx context.Context, r sinks.Reader, t Target) (Target, error) {
	if t.Batch == nil {
		return t, nil
	}
	var at Target
	has := func(span *sinks.Span) bool {
		return span.Slot == t.Batch.Slot && span.First <= t.Batch.Number && t.Batch.Number <= span.Batch
	}
	err := r.Controls(ctx, time.Time{}, has, func(c *change.Control) error {
		if c.Type != change.ControlBatch || c.Slot != t.Batch.Slot || c.Batch != t.Batch.Number {
			return nil
		}
		at.Logged = time.UnixMilli(c.TimeMs).Add(time.Millisecond - 1) // the record has whole milliseconds
		return errStop
	})
	if err != nil && !errors.Is(err, errStop) {
		return t, err
	}
	if at.Logged.IsZero() {
		return t, fmt.Errorf("its batch is not in the log, or the record of it is not kept any more: %w", sinks.ErrNotKept)
	}
	return at, nil
}
