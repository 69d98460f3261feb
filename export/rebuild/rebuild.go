// Package rebuild makes a slot's checkpoint anew, from what the log has of its streams: the last state of each live object, and
// the newest positions. It knows neither how the log is read nor how the checkpoint stores: pages go from one to the other,
// and memory does not grow with either.
package rebuild

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/dependency"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks"
)

// A page of a rebuild is written at so many objects, or bytes, so that memory does not grow with the log.
const (
	pageObjects = 1000
	pageBytes   = 4 << 20
)

// Store is what a rebuild does to the checkpoint.
type Store interface {
	Clear(ctx context.Context, slot int, epoch int64, mine func(stream change.StreamID) bool) error
	PutPage(ctx context.Context, slot int, epoch int64, page int, streams []checkpoint.StreamCommit) error
	Rebuilt(ctx context.Context, pages int, c checkpoint.Commit) error
}

// Observer is told how far a rebuild is.
type Observer interface {
	// Rebuilding says how many records of how many a slot has read to rebuild its checkpoint; of 0 when that has ended.
	Rebuilding(slot int, done, of int64)
}

// Slot says whose checkpoint is rebuilt, and what it may have.
type Slot struct {
	Number   int
	Mine     func(stream change.StreamID) bool                                 // the streams to rebuild
	Known    func(ctx context.Context) ([]change.Position, error)              // the positions that the checkpoint has of the slot's streams
	Bodies   bool                                                              // the checkpoint keeps objects' bodies
	Rewrite  func(stream change.StreamID) func(key string, body []byte) []byte // what may be kept of a body; nil: all
	Store    Store
	Observer Observer
	Log      *slog.Logger
}

// rebuild is one attempt. It replaces what the checkpoint knew of the streams. Whoever is interrupted leaves the slot new, and
// the next session begins again.
type rebuild struct {
	Slot
	state *checkpoint.SlotState
	past  *sinks.Past
	lost  *sinks.LostTailError
	known []change.Position // before

	page    map[change.StreamID]map[string]*checkpoint.Object // stream → key → what is left of it; nil: deleted
	count   int
	bytes   int64
	pages   int
	seen    map[change.StreamID]bool // streams with objects
	started time.Time
	told    time.Time
	said    time.Time
}

// Run rebuilds, and moves state to where the slot stands then. It gives what else the log has lost of these streams, as it
// turned out. Why the checkpoint is rebuilt is lost's to tell.
func (s Slot) Run(ctx context.Context, log sinks.Log, state *checkpoint.SlotState, lost *sinks.LostTailError) (*sinks.LostTailError, error) {
	started := time.Now()
	past, err := log.Past(ctx, sinks.Wanted{Stream: s.Mine, Bodies: s.Bodies})
	if err != nil {
		return nil, dependency.Tag(dependency.Sink, err)
	}
	known, err := s.Known(ctx)
	if err != nil {
		return nil, dependency.Tag(dependency.Checkpoint, err)
	}
	r := &rebuild{Slot: s, state: state, past: past, lost: lost, known: known, page: map[change.StreamID]map[string]*checkpoint.Object{}, seen: map[change.StreamID]bool{},
		started: started, said: started}
	r.announce()
	defer s.Observer.Rebuilding(s.Number, 0, 0)
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	return past.Lost, nil
}

func (r *rebuild) announce() {
	switch {
	case r.empty():
		r.Log.Debug("the log has nothing of this slot's streams")
	case r.past.Seq == 0 && len(r.past.Positions) == 0:
		r.Log.Info("the checkpoint is new: looking for this slot's streams in the log", "records", r.past.Records)
	default:
		r.Log.Warn("the checkpoint is lost or older than the log: rebuilding it from the log", "reason", r.lost.Reason,
			"checkpoint_batch", r.state.Seq, "log_batch", r.past.Seq, "log_epoch", r.past.Epoch, "streams", len(r.past.Positions), "records", r.past.Records)
	}
}

// empty: the log was never written to.
func (r *rebuild) empty() bool {
	return r.past.Seq == 0 && r.past.Records == 0 && len(r.past.Positions) == 0
}

func (r *rebuild) run(ctx context.Context) error {
	if err := r.Store.Clear(ctx, r.Number, r.state.Epoch, r.Mine); err != nil {
		return dependency.Tag(dependency.Checkpoint, fmt.Errorf("checkpoint: %w", err))
	}
	folded, err := r.past.Fold(ctx, func(c *change.Change) error { return r.add(ctx, c) }, r.progress)
	if err == nil {
		err = r.flush(ctx)
	}
	if err != nil {
		if dependency.Of(err) == "" {
			err = dependency.Tag(dependency.Sink, err)
		}
		return fmt.Errorf("rebuild the checkpoint of slot %d from the log: %w", r.Number, err)
	}
	failpoint.Hit(failpoint.Rebuilt)
	if err := r.finish(ctx); err != nil {
		return dependency.Tag(dependency.Checkpoint, fmt.Errorf("checkpoint: %w", err))
	}
	if r.empty() {
		return nil
	}
	r.Log.Warn("the checkpoint is rebuilt", "batch", r.state.Seq, "positions", len(r.past.Positions), "objects_in", len(r.seen),
		"records", folded.Records, "bytes", folded.Bytes, "took", time.Since(r.started).Round(time.Millisecond).String())
	return nil
}

// add folds a record into the page.
func (r *rebuild) add(ctx context.Context, c *change.Change) error {
	stream := c.Stream.ID()
	if r.page[stream] == nil {
		r.page[stream] = map[string]*checkpoint.Object{}
	}
	r.seen[stream] = true
	if c.Op == change.Delete {
		r.page[stream][c.Key()] = nil
	} else {
		body := c.After
		if rewrite := r.Rewrite(stream); rewrite != nil && body != nil {
			body = rewrite(c.Key(), body) // the log may tell more than may be kept now
		}
		r.page[stream][c.Key()] = &checkpoint.Object{Key: c.Key(), UID: c.UID, ResourceVersion: c.ResourceVersion, Body: body}
	}
	r.count++
	r.bytes += int64(c.Size())
	if r.count < pageObjects && r.bytes < pageBytes {
		return nil
	}
	return r.flush(ctx)
}

// flush writes the page.
func (r *rebuild) flush(ctx context.Context) error {
	if r.count == 0 {
		return nil
	}
	failpoint.Hit(failpoint.Rebuilding)
	var streams []checkpoint.StreamCommit
	for stream, objects := range r.page {
		s := checkpoint.StreamCommit{Stream: stream}
		for key, o := range objects {
			if o == nil {
				s.Deletes = append(s.Deletes, key)
			} else {
				s.Upserts = append(s.Upserts, *o)
			}
		}
		streams = append(streams, s)
	}
	if err := r.Store.PutPage(ctx, r.Number, r.state.Epoch, r.pages, streams); err != nil {
		return dependency.Tag(dependency.Checkpoint, err)
	}
	clear(r.page)
	r.pages, r.count, r.bytes = r.pages+1, 0, 0
	return nil
}

// The progress is told so often, and a line about it is logged so often.
const (
	tellEvery = 100 * time.Millisecond
	sayEvery  = 5 * time.Second
)

func (r *rebuild) progress(f sinks.Folded) {
	now := time.Now()
	if now.Sub(r.told) < tellEvery {
		return
	}
	r.told = now
	r.Observer.Rebuilding(r.Number, f.Records, max(r.past.Records, f.Records))
	if now.Sub(r.said) < sayEvery {
		return
	}
	r.said = now
	r.Log.Info("rebuilding the checkpoint from the log", "records", f.Records, "of", r.past.Records, "bytes", f.Bytes)
}

// finish puts positions, batch number and offsets in place. A stream of which the log does not tell any more how far it is
// complete gets an unknown position.
func (r *rebuild) finish(ctx context.Context) error {
	positions := r.past.Positions
	known := map[change.StreamID]bool{}
	for _, p := range positions {
		known[p.Stream] = true
	}
	positions = slices.DeleteFunc(positions, func(p change.Position) bool { return p.Ended == change.EndedRemoved })
	unknown := func(stream change.StreamID) {
		if !known[stream] {
			known[stream] = true
			positions = append(positions, change.Position{Stream: stream, ResourceVersion: change.UnknownVersion, Time: time.Now().UTC()})
		}
	}
	for stream := range r.seen {
		unknown(stream)
	}
	for _, p := range r.known {
		if p.ResourceVersion != "" && r.Mine(p.Stream) {
			unknown(p.Stream)
		}
	}
	commit := checkpoint.Commit{Slot: r.Number, Epoch: r.state.Epoch, Seq: max(r.state.Seq, r.past.Seq), Positions: positions, Offsets: r.offsets()}
	if err := r.Store.Rebuilt(ctx, r.pages, commit); err != nil {
		return err
	}
	r.state.Seq, r.state.Offsets, r.state.New = commit.Seq, commit.Offsets, false
	return nil
}

// offsets are the log's, and the old ones of topics that are gone: until that is noted it is to be found again.
func (r *rebuild) offsets() change.Offsets {
	offsets := change.Offsets{}.Merge(r.past.Offsets)
	for topic := range r.lost.Offsets {
		offsets.Merge(change.Offsets{topic: r.state.Offsets[topic]})
	}
	return offsets
}
