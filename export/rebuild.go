package export

import (
	"context"
	"fmt"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/dependency"
	"kubecdc/export/ownership"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks"
)

// A page of a rebuild is written at so many objects, or bytes, so that memory does not grow with the log.
const (
	pageObjects = 1000
	pageBytes   = 4 << 20
)

// rebuild makes the checkpoint of a slot's streams anew, from what the log has of them: the last state of each live object,
// and the newest positions. It replaces what the checkpoint knew of them. Whoever is interrupted leaves the slot new, and
// the next session begins again.
type rebuild struct {
	*slot
	state  *checkpoint.SlotState
	past   *sinks.Past
	lost   *sinks.LostTailError
	mine   func(stream string) bool
	before []change.Position // that the checkpoint had
	hides  func(stream string) rewrite

	page    map[string]map[string]*checkpoint.Object // stream → key → what is left of it; nil: deleted
	count   int
	bytes   int64
	pages   int
	seen    map[string]bool // streams with objects
	started time.Time
	told    time.Time
	said    time.Time
}

// rebuildFrom leaves out the streams whose records are gone: they are written again (lost.go). It gives what else the log
// has lost of these streams, as it turned out.
func (s *slot) rebuildFrom(ctx context.Context, log sinks.Log, state *checkpoint.SlotState, lost *sinks.LostTailError) (*sinks.LostTailError, error) {
	r := &rebuild{slot: s, state: state, lost: lost, hides: s.rewrites(), page: map[string]map[string]*checkpoint.Object{}, seen: map[string]bool{}, started: time.Now(), said: time.Now()}
	r.mine = func(stream string) bool {
		return ownership.SlotOf(stream, s.config.Slots) == s.number && (lost.Gone == nil || !lost.Gone(change.ResourceOf(stream)))
	}
	var err error
	if r.past, err = log.Past(ctx, sinks.Wanted{Stream: r.mine, Bodies: s.config.Before}); err != nil {
		return nil, dependency.Tag(dependency.Sink, err)
	}
	if r.before, err = s.positionsOf(ctx, nil); err != nil {
		return nil, dependency.Tag(dependency.Checkpoint, err)
	}
	switch {
	case r.empty():
		s.log.Debug("the log has nothing of this slot's streams")
	case r.past.Seq == 0 && len(r.past.Positions) == 0:
		s.log.Info("the checkpoint is new: looking for this slot's streams in the log", "records", r.past.Records)
	default:
		s.log.Warn("the checkpoint is lost or older than the log: rebuilding it from the log", "reason", lost.Reason,
			"checkpoint_batch", state.Seq, "log_batch", r.past.Seq, "log_epoch", r.past.Epoch, "streams", len(r.past.Positions), "records", r.past.Records)
	}
	defer s.parts.Observer.Rebuilding(s.number, 0, 0)
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	return r.past.Lost, nil
}

// empty: the log was never written to.
func (r *rebuild) empty() bool {
	return r.past.Seq == 0 && r.past.Records == 0 && len(r.past.Positions) == 0
}

func (r *rebuild) run(ctx context.Context) error {
	if err := r.parts.Store.Clear(ctx, r.number, r.state.Epoch, r.mine); err != nil {
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
		return fmt.Errorf("rebuild the checkpoint of slot %d from the log: %w", r.number, err)
	}
	failpoint.Hit(failpoint.Rebuilt)
	if err := r.finish(ctx); err != nil {
		return dependency.Tag(dependency.Checkpoint, fmt.Errorf("checkpoint: %w", err))
	}
	if r.empty() {
		return nil
	}
	r.log.Warn("the checkpoint is rebuilt", "batch", r.state.Seq, "positions", len(r.past.Positions), "objects_in", len(r.seen),
		"records", folded.Records, "bytes", folded.Bytes, "took", time.Since(r.started).Round(time.Millisecond).String())
	return nil
}

// add takes in what a record says of its object.
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
		if hide := r.hides(stream); hide != nil && body != nil {
			body = hide(c.Key(), body) // the log may tell more than may be kept now
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
	if err := r.parts.Store.PutPage(ctx, r.number, r.state.Epoch, r.pages, streams); err != nil {
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
	r.parts.Observer.Rebuilding(r.number, f.Records, max(r.past.Records, f.Records))
	if now.Sub(r.said) < sayEvery {
		return
	}
	r.said = now
	r.log.Info("rebuilding the checkpoint from the log", "records", f.Records, "of", r.past.Records, "bytes", f.Bytes)
}

// finish puts positions, batch number and offsets in place. A stream of which the log does not tell any more how far it is
// complete gets an unknown position.
func (r *rebuild) finish(ctx context.Context) error {
	positions := r.past.Positions
	known := map[string]bool{}
	for _, p := range positions {
		known[p.Stream] = true
	}
	positions = slices.DeleteFunc(positions, func(p change.Position) bool { return p.Ended == change.EndedRemoved })
	unknown := func(stream string) {
		if !known[stream] {
			known[stream] = true
			positions = append(positions, change.Position{Stream: stream, ResourceVersion: change.UnknownVersion, Time: time.Now().UTC()})
		}
	}
	for stream := range r.seen {
		unknown(stream)
	}
	for _, p := range r.before {
		if p.ResourceVersion != "" && r.mine(p.Stream) {
			unknown(p.Stream)
		}
	}
	commit := checkpoint.Commit{Slot: r.number, Epoch: r.state.Epoch, Seq: max(r.state.Seq, r.past.Seq), Positions: positions, Offsets: r.offsets()}
	if err := r.parts.Store.Rebuilt(ctx, r.pages, commit); err != nil {
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
