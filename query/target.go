// Package query answers questions about the past from the log alone: the state of resources at a moment, the history of one
// object, and what differs between two states. Each answer says since when and up to where it is complete: what retention or
// compaction has removed, what a gap could not recover, and what came before the first list are found out from the control
// records (story.go). The package reads by sinks.Reader; it knows no sink, no checkpoint and no API server.
package query

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"kubecdc/change"
)

// Target is a moment of the past. One of its fields is set; none: the end of the log.
type Target struct {
	Version  change.ResourceVersion // of the resources that are asked about
	Happened time.Time              // in the cluster: the last watermark of each stream by then
	Logged   time.Time              // what the log had then
	Batch    *Batch                 // what the log had with this batch
}

// Batch names a batch of a slot, as the commands about checkpoints do.
type Batch struct {
	Slot   int
	Number uint64
}

// ParseTarget reads a resourceVersion, a checkpoint (SLOT/BATCH), a time in RFC 3339, a duration back from now, or "now". Times
// are those at which changes happened, or, with logged, at which the log got them.
func ParseTarget(text string, logged bool, now time.Time) (Target, error) {
	at := func(t time.Time) (Target, error) {
		if logged {
			return Target{Logged: t}, nil
		}
		return Target{Happened: t}, nil
	}
	if text == "now" {
		return Target{}, nil
	}
	if v := change.ResourceVersion(text); v.Valid() {
		return Target{Version: v}, nil
	}
	if slot, batch, ok := strings.Cut(text, "/"); ok {
		n, err1 := strconv.Atoi(slot)
		b, err2 := strconv.ParseUint(batch, 10, 64)
		if err1 == nil && err2 == nil {
			return Target{Batch: &Batch{n, b}}, nil
		}
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		if t.After(now) {
			return Target{}, fmt.Errorf("%s has not come yet: now is the end of the log", text)
		}
		return at(t)
	}
	if back, err := time.ParseDuration(text); err == nil && back >= 0 && text != "0" { // 0 alone would be no version, or no time ago
		return at(now.Add(-back).Truncate(time.Second)) // objects tell whole seconds
	}
	return Target{}, fmt.Errorf("%q is neither a time (2026-11-22T10:53:56Z), nor a duration back (2h), "+
		"nor a resourceVersion (12345), nor a checkpoint (0/1234), nor now", text)
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
		return fmt.Sprintf("checkpoint %d/%d", t.Batch.Slot, t.Batch.Number)
	}
	return "the end of the log"
}
