package sinks

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"kubecdc/change"
)

// Removed is what others have removed from the tables of a log.
type Removed struct {
	Objects map[change.StreamID]string // what is missing, by stream
	Changes string                     // what a batch lacks, of unknown streams, or ""
}

// Loss returns the loss, or nil if nothing is missing.
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

// Retained returns what a log has of its resources: all changes since a time, except removed ones. If some is not empty, it
// returns only the resources in some.
func (r *Removed) Retained(resources, some []string, since time.Time) map[string]Retained {
	all := map[string]Retained{}
	for _, id := range resources {
		if len(some) > 0 && !slices.Contains(some, id) {
			continue
		}
		removed := Removed{maps.Clone(r.Objects), r.Changes}
		maps.DeleteFunc(removed.Objects, func(s change.StreamID, _ string) bool { return change.ResourceOf(s).ID() != id })
		k := Retained{Since: since}
		if loss := removed.Loss(); loss != nil {
			k.Lost = Unrecorded("%s", loss.Reason)
		}
		all[id] = k
	}
	return all
}

// RecentlyRemoved caches what others have removed, by a key. It is safe for concurrent use.
type RecentlyRemoved struct {
	mu    sync.Mutex
	found map[string]countedRemoved
}

// countedRemoved is the result of a count of rows, with its time.
type countedRemoved struct {
	time    time.Time
	removed Removed
}

// countAgain is how long a count is used, since counting a million objects takes a tenth of a second or more.
const countAgain = 30 * time.Second

// Find returns the result of count, which may be as old as countAgain.
func (r *RecentlyRemoved) Find(key string, count func() (Removed, error)) (Removed, error) {
	r.mu.Lock()
	known, found := r.found[key]
	r.mu.Unlock()
	if found && time.Since(known.time) < countAgain {
		return known.removed, nil
	}
	removed, err := count()
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.found == nil {
			r.found = map[string]countedRemoved{}
		}
		r.found[key] = countedRemoved{time.Now(), removed}
	}
	return removed, err
}

// Proved returns the resources for which a batch has proofs.
func Proved(b *change.Batch) (resources []string) {
	for i := range b.Controls {
		if c := &b.Controls[i]; c.Type == change.ControlProof {
			resources = append(resources, change.ResourceOf(c.Stream).ID())
		}
	}
	return resources
}

// LostTailError says that the log lacks records which the checkpoint relies on. Either records after the checkpoint can't be read
// back, or some before it are gone (by retention, or because a topic was deleted or recreated).
type LostTailError struct {
	Reason string
	// TailRead means that nothing is missing after the checkpoint. Otherwise the checkpoint of the slot's streams must be rebuilt
	// from the log (Log.State).
	TailRead bool
	// Gone reports whether records of a stream before the checkpoint are gone, so that a list must be compared with the rest. nil
	// means that none are gone.
	Gone func(change.StreamID) bool
	// Offsets are the present ends of those partitions, to be checkpointed once the loss is recorded.
	Offsets change.Offsets
}

// LostBeforeSpool returns the loss of those streams whose last gap record of a loss still awaits a spool
// (change.LostBeforeSpool), or nil if there are none.
func LostBeforeSpool(last map[change.StreamID]*change.Gap) *LostTailError {
	maps.DeleteFunc(last, func(_ change.StreamID, g *change.Gap) bool { return !g.AwaitsSpool() })
	if len(last) == 0 {
		return nil
	}
	return &LostTailError{TailRead: true, Reason: "records were lost before the sink was away",
		Gone: func(s change.StreamID) bool { return last[s] != nil }}
}

func (e *LostTailError) Error() string {
	if e.TailRead {
		return "the log has lost what was written before: " + e.Reason
	}
	return "the log after the checkpoint can't be read: " + e.Reason
}

// Join returns both losses as one. If only one of them has lost records before the checkpoint (Gone), it returns only that
// loss. If neither has, it returns e.
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
