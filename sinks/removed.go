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
