// Package rebuild makes a slot's checkpoint again from what the log has of its streams: each live object's last state, and the
// newest positions. It does not know how the log is read, nor how the checkpoint is stored. It passes pages from one to the
// other, so that memory grows with neither.
package rebuild

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks"
)

// A page is written when it has this many objects or bytes.
const (
	pageObjects = 1000
	pageBytes   = 4 << 20
)

type Slot struct {
	Number  int
	Mine    func(stream change.StreamID) bool // streams to rebuild
	Partial bool                              // the slot's other streams remain unchanged
	// nothing is lost, but the checkpoint does not know the streams
	Unknown bool
	Known   []change.Position // checkpoint's positions of the slot's streams
	Bodies  bool              // the checkpoint stores objects' bodies
	// only a log with records replaces the rest of the checkpoint
	Damaged bool
	// nil for a stream whose objects are stored completely
	Redactor func(stream change.StreamID) func(key string, body []byte) []byte
	Store    checkpoint.Rebuilder
	Delayed  func(slot int, reason string) // reports the progress of the rebuild, and "" at its end
	Logger   *slog.Logger
}

// rebuild is one attempt. It replaces what the checkpoint has of the streams. If it is interrupted, the slot remains new, and the
// next session starts the rebuild again.
type rebuild struct {
	Slot
	state *checkpoint.SlotState
	found *sinks.State
	loss  *sinks.LostTailError

	page    map[change.StreamID]map[string]*checkpoint.Object // stream → key → last state; nil: deleted
	count   int
	bytes   int64
	pages   int
	seen    map[change.StreamID]change.ResourceVersion // the newest version of each stream with objects
	started time.Time
	pacer   *Pacer
}

// Run rebuilds the checkpoint, and updates the slot's state. The loss is the reason for the rebuild. Run returns what else the
// log has lost of these streams.
func (s Slot) Run(ctx context.Context, log sinks.Content, state *checkpoint.SlotState,
	loss *sinks.LostTailError) (*sinks.LostTailError, error) {
	started := time.Now()
	found, err := log.State(ctx, sinks.Selection{Stream: s.Mine, Bodies: s.Bodies})
	if err != nil {
		return nil, dependency.Tag(dependency.Sink, err)
	}
	r := &rebuild{Slot: s, state: state, found: found, loss: loss,
		page: map[change.StreamID]map[string]*checkpoint.Object{}, seen: map[change.StreamID]change.ResourceVersion{},
		started: started, pacer: NewPacer()}
	if s.Damaged && r.empty() {
		return nil, errors.New("the checkpoint is damaged, and can't be rebuilt: the log has nothing that could be read back")
	}
	r.logStart()
	defer s.Delayed(s.Number, "")
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	return found.Lost, nil
}

func (r *rebuild) logStart() {
	switch {
	case r.Unknown:
		r.Logger.Info("reading what the log has of streams that the checkpoint does not know", "records", r.found.Records)
	case !r.state.New && (r.Partial || r.found.Seq < r.state.Seq):
		r.Logger.Error("the log has lost records: rebuilding the checkpoint from what it still has", "reason", r.loss.Reason,
			"checkpoint_batch", r.state.Seq, "log_batch", r.found.Seq, "records", r.found.Records)
	case r.empty():
		r.Logger.Debug("the log has no records of this slot's streams")
	case r.found.Seq == 0 && len(r.found.Positions) == 0:
		r.Logger.Info("the checkpoint is new: reading what the log has of this slot's streams", "records", r.found.Records)
	default:
		r.Logger.Warn("the checkpoint is lost or older than the log: rebuilding it from the log", "reason", r.loss.Reason,
			"checkpoint_batch", r.state.Seq, "log_batch", r.found.Seq, "log_epoch", r.found.Epoch,
			"streams", len(r.found.Positions), "records", r.found.Records)
	}
}

// empty reports whether the log has never been written to.
func (r *rebuild) empty() bool {
	return r.found.Seq == 0 && r.found.Records == 0 && len(r.found.Positions) == 0
}

func (r *rebuild) run(ctx context.Context) error {
	if err := r.Store.Clear(ctx, r.Number, r.state.Epoch, r.Mine); err != nil {
		return dependency.TagCheckpoint(err)
	}
	folded, err := r.found.Fold(ctx, func(c *change.Change) error { return r.add(ctx, c) }, r.progress)
	if err == nil {
		err = r.flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("rebuild the checkpoint of slot %d from the log: %w", r.Number, dependency.Tag(dependency.Sink, err))
	}
	failpoint.Hit(failpoint.Rebuilt)
	if err := r.finish(ctx); err != nil || r.empty() || r.Unknown {
		return dependency.TagCheckpoint(err)
	}
	r.Logger.Warn("the checkpoint is rebuilt", "batch", r.state.Seq, "positions", len(r.found.Positions), "objects_in",
		len(r.seen),
		"records", folded.Records, "bytes", folded.Bytes, "took", time.Since(r.started).Round(time.Millisecond).String())
	return nil
}

func (r *rebuild) add(ctx context.Context, c *change.Change) error {
	stream := c.Stream.ID()
	if r.page[stream] == nil {
		r.page[stream] = map[string]*checkpoint.Object{}
	}
	if newest := r.seen[stream]; c.ResourceVersion.Compare(newest) >= 0 {
		r.seen[stream] = c.ResourceVersion
	}
	if c.Op == change.Delete {
		r.page[stream][c.Key()] = nil
	} else {
		body := c.After
		if redact := r.Redactor(stream); redact != nil && body != nil {
			body = redact(c.Key(), body) // the record may be older than the current rules
		}
		r.page[stream][c.Key()] = &checkpoint.Object{Key: c.Key(), UID: c.UID, ResourceVersion: c.ResourceVersion,
			Body: checkpoint.Pack(body)}
	}
	r.count++
	r.bytes += int64(c.Size())
	if r.count < pageObjects && r.bytes < pageBytes {
		return nil
	}
	return r.flush(ctx)
}

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

func (r *rebuild) progress(f sinks.Progress) {
	r.pacer.Report(func() {
		r.Delayed(r.Number, fmt.Sprintf("its checkpoint is being rebuilt from the log: %d of %d records read", f.Records,
			max(r.found.Records, f.Records)))
	}, func() {
		r.Logger.Info("rebuilding the checkpoint from the log", "records", f.Records, "of", r.found.Records, "bytes", f.Bytes)
	})
}

// finish stores positions, batch number and offsets. A stream whose position the log has lost gets change.UnknownVersion. The log
// has lost it, too, if it has another one, and the checkpoint and the objects are both newer.
func (r *rebuild) finish(ctx context.Context) error {
	unknown, known := map[change.StreamID]bool{}, map[change.StreamID]change.ResourceVersion{}
	for stream := range r.seen {
		unknown[stream] = true
	}
	for _, p := range r.Known {
		if p.ResourceVersion != "" && r.Mine(p.Stream) {
			unknown[p.Stream], known[p.Stream] = true, p.ResourceVersion
		}
	}
	for i := range r.found.Positions {
		p := &r.found.Positions[i]
		delete(unknown, p.Stream)
		if p.Ended == "" && known[p.Stream].Compare(p.ResourceVersion) > 0 && r.seen[p.Stream].Compare(p.ResourceVersion) > 0 {
			p.ResourceVersion = change.UnknownVersion
		}
	}
	positions := slices.DeleteFunc(r.found.Positions, func(p change.Position) bool { return p.Ended == change.EndedRemoved })
	for stream := range unknown {
		positions = append(positions, change.Position{Stream: stream, ResourceVersion: change.UnknownVersion,
			Time: time.Now().UTC()})
	}
	commit := checkpoint.Commit{Slot: r.Number, Epoch: r.state.Epoch, Seq: max(r.state.Seq, r.found.Seq),
		Positions: positions, Offsets: r.offsets()}
	if err := r.Store.Rebuilt(ctx, r.pages, commit); err != nil {
		return err
	}
	r.state.Seq, r.state.Offsets, r.state.New = commit.Seq, commit.Offsets, false
	return nil
}

// offsets returns the log's offsets, with the checkpoint's own for topics that have lost records. So the loss is found again
// until it is recorded in the log.
func (r *rebuild) offsets() change.Offsets {
	offsets := change.Offsets{}
	if r.Partial {
		offsets.Merge(r.state.Offsets)
	}
	offsets.Merge(r.found.Offsets)
	for topic := range r.loss.Offsets {
		offsets.Merge(change.Offsets{topic: r.state.Offsets[topic]})
	}
	return offsets
}
