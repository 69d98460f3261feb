package sinks

import (
	"maps"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
)

// Removed is what somebody has removed from the tables of a log.
type Removed struct {
	Objects map[change.StreamID]string // what of them is missing, by stream
	Changes string                     // what of them a batch lacks; empty: nothing. It does not tell of which streams
}

// Loss returns the loss; nil: nothing is missing.
func (r *Removed) Loss() *LostTailError {
	texts := slices.Sorted(maps.Values(r.Objects))
	if r.Changes != "" {
		texts = append(texts, r.Changes)
	}
	if len(texts) == 0 {
		return nil
	}
	return &LostTailError{TailRead: true, Reason: strings.Join(texts, "; "),
		Gone: func(s change.StreamID) bool { return r.Changes != "" || r.Objects[s] != "" }}
}

// Retained returns what a log that has all changes since a time, but for those, has of its resources: of all, or of some.
func (r *Removed) Retained(resources, some []string, since time.Time) map[string]Retained {
	all := map[string]Retained{}
	for _, id := range resources {
		if len(some) > 0 && !slices.Contains(some, id) {
			continue
		}
		of := Removed{maps.Clone(r.Objects), r.Changes}
		maps.DeleteFunc(of.Objects, func(s change.StreamID, _ string) bool { return change.ResourceOf(s).ID() != id })
		k := Retained{Since: since}
		if loss := of.Loss(); loss != nil {
			k.Lost = Unrecorded("%s", loss.Reason)
		}
		all[id] = k
	}
	return all
}

// Proved returns the resources of which a batch has proofs.
func Proved(b *change.Batch) (resources []string) {
	for i := range b.Controls {
		if c := &b.Controls[i]; c.Type == change.ControlProof {
			resources = append(resources, change.ResourceOf(c.Stream).ID())
		}
	}
	return resources
}

// LostTailError says that the log lacks records which the checkpoint counts on: those after the checkpoint can't be read back,
// or some before it are gone (by retention, or since a topic was deleted or recreated).
type LostTailError struct {
	Reason string
	// TailRead: nothing is missing after the checkpoint. Otherwise the checkpoint of the slot's streams must be rebuilt from
	// the log (Log.State).
	TailRead bool
	// Gone reports whether records of a stream are gone before that, so that what the log still has of it must be compared with a
	// list. nil: none are.
	Gone func(change.StreamID) bool
	// Offsets are the ends of those partitions now, to be checkpointed once the loss is recorded.
	Offsets change.Offsets
}

func (e *LostTailError) Error() string {
	if e.TailRead {
		return "the log has lost what was written before: " + e.Reason
	}
	return "the log after the checkpoint can't be read: " + e.Reason
}

// Join returns both losses; nil: there is none.
func (e *LostTailError) Join(other *LostTailError) *LostTailError {
	switch {
	case other == nil || other.Gone == nil:
		return e
	case e == nil || e.Gone == nil:
		return other
	}
	both := *e
	both.Gone = func(s change.StreamID) bool { return e.Gone(s) || other.Gone(s) }
	both.Offsets = change.Offsets{}.Merge(other.Offsets).Merge(e.Offsets)
	return &both
}
