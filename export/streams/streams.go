// Package streams runs the streams of one slot for one session. It follows the selection and the signals, and leaves out what is
// paused or refused. It puts what is read into a queue, and does not know how batches are written.
package streams

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/commit"
	"kubecdc/export/plan"
	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
)

// Streams are the streams of one slot, in one session.
type Streams struct {
	slot     *plan.Slot
	refusals Refusals
	queue    *batching.Queue
	epoch    int64
	memory   *commit.Opened
	rules    *StoredRules
	fail     context.CancelCauseFunc                    // ends the session
	all      map[change.StreamID]streamState            // without streams that have ended or have not begun
	open     []checkpoint.Signal                        // the open signals, when they were last read
	jobs     map[int64]*signalJob                       // the jobs of the signals that were begun (signals.go)
	newest   *discovery.Selection                       // nil if none was followed yet
	lost     map[change.StreamID]change.ResourceVersion // where the log is to be compared (LostVersions)
	// the selected streams in the checkpoint, or nil if none were recorded yet
	stored []change.StreamID
	wg     sync.WaitGroup

	confirming confirming
}

// streamState is the state of a stream of the slot: one of the following.
type streamState interface{ isStreamState() }

type (
	// beingRead is the state of a stream that is read, or whose resource is gone for now.
	beingRead struct {
		*reflector.Reflector
		ctx    context.Context
		cancel context.CancelFunc
		done   chan struct{} // is closed when it has stopped
	}
	// pausedByUser is the state of a stream that a signal has paused (pausing.go).
	pausedByUser struct{ signal checkpoint.Signal }
	// refusedBySink is the state of a stream whose records the sink refuses (refusals.go).
	refusedBySink struct{}
	// undecided is the state of a stream that the checkpoint has, until it is selected or has ended (unselected.go).
	undecided struct{ position change.Position }
)

func (*beingRead) isStreamState()    {}
func (*pausedByUser) isStreamState() {}
func (refusedBySink) isStreamState() {}
func (undecided) isStreamState()     {}

// New returns the streams of a slot's session, which calls fail if it is to end.
func New(slot *plan.Slot, refusals Refusals, epoch int64, q *batching.Queue, m *commit.Opened, rules *StoredRules,
	fail context.CancelCauseFunc) *Streams {
	return &Streams{slot: slot, refusals: refusals, epoch: epoch, queue: q, memory: m, rules: rules, fail: fail,
		all: map[change.StreamID]streamState{}, jobs: map[int64]*signalJob{},
		confirming: confirming{queue: q, every: cmp.Or(slot.Config.Limits.Watermark, time.Minute) / 6}}
}

func (st *Streams) reading(id change.StreamID) *beingRead {
	r, _ := st.all[id].(*beingRead)
	return r
}

func (st *Streams) paused(id change.StreamID) *pausedByUser {
	p, _ := st.all[id].(*pausedByUser)
	return p
}

// reconsider removes a stream's state. The next selection that is followed decides what becomes of the stream.
func (st *Streams) reconsider(id change.StreamID, position change.Position, stored bool) {
	if stored {
		st.all[id] = undecided{position}
	} else {
		delete(st.all, id)
	}
}

// Run follows the selection until the context ends, and returns when every stream has stopped.
func (st *Streams) Run(ctx context.Context) {
	signals, confirm := time.NewTicker(signalInterval), time.NewTicker(confirmTick)
	defer signals.Stop()
	defer confirm.Stop()
	if err := st.loadPaused(ctx); err != nil {
		st.fail(err)
		return
	}
	var applied *discovery.Selection
	for ctx.Err() == nil {
		var err error
		if newest, changed := st.slot.Selected.Latest(); newest != applied {
			applied, err = newest, st.apply(ctx, *newest)
		} else {
			select {
			case <-changed:
			case <-st.refusals.due():
				err = st.probeRefusals(ctx)
			case <-signals.C:
				err = st.followSignals(ctx)
			case <-confirm.C:
				st.confirm(ctx)
			case <-ctx.Done():
			}
		}
		if err != nil && ctx.Err() == nil {
			st.fail(err)
		}
	}
	st.wg.Wait()
	st.slot.Parts.State.StreamsStopped(st.slot.Number)
}

// apply starts new streams, updates those that are read to what the API server serves now, and ends unselected ones. A selection
// may overlap with a stream that was not there at the start. For example, a rebuild may have found that stream, or another
// process may have other settings.
func (st *Streams) apply(ctx context.Context, selection discovery.Selection) error {
	stored, err := st.memory.Positions(ctx)
	if err != nil {
		return err
	}
	if err := st.slot.Config.RefuseOverlaps(selection.Resources, stored); err != nil {
		return err
	}
	if st.newest == nil {
		if st.lost, err = LostVersions(ctx, st.slot.Parts.Store, stored); err != nil {
			return err
		}
	}
	for _, p := range stored {
		if st.newest == nil && st.slot.Owns(p.Stream) && st.all[p.Stream] == nil {
			st.all[p.Stream] = undecided{p}
		}
	}
	if guard := st.memory.Guard; guard != nil {
		unknown := st.unknown(selection, stored)
		if err := guard.MayBegin(ctx, unknown); fault.Is[commit.HeldBackError](err) {
			st.holdBack(unknown, err)
		} else if err != nil {
			return err
		}
	}
	st.newest = &selection
	selected := map[change.StreamID]bool{}
	for _, r := range selection.Resources {
		for _, s := range st.slot.Config.StreamsOf(r) {
			if !st.slot.Owns(s.ID()) {
				continue
			}
			selected[s.ID()] = true
			if err := st.selectStream(ctx, s); err != nil {
				return err
			}
			st.setRemovalUnknown(s.ID(), selection.Doubt(r))
		}
	}
	for id := range st.all {
		switch r := st.reading(id); {
		case r == nil || selected[id]:
		case selection.Unsure[change.ResourceOf(id).Group]:
			selected[id] = true
		default:
			r.SetResource(nil)
			st.setRemovalUnknown(id, nil)
		}
	}
	st.slot.Parts.State.StreamsKnown(st.slot.Number)
	if err := st.record(ctx, slices.Sorted(maps.Keys(selected))); err != nil {
		return err
	}
	return st.endUnselected(ctx, selection)
}

// holdBack leaves streams out of the session.
func (st *Streams) holdBack(streams []*change.Stream, why error) {
	for _, s := range streams {
		st.all[s.ID()] = refusedBySink{}
		st.leaveOut(s.ID(), change.StateRefused, why)
	}
}

// unknown returns the streams of a selection that are to begin.
func (st *Streams) unknown(selection discovery.Selection, stored []change.Position) (all []*change.Stream) {
	for _, r := range selection.Resources {
		for _, s := range st.slot.Config.StreamsOf(r) {
			id := s.ID()
			if st.slot.Owns(id) && st.all[id] == nil && st.refusals.refusalOf(r) == nil &&
				!slices.ContainsFunc(stored, func(p change.Position) bool { return p.Stream == id }) {
				all = append(all, s)
			}
		}
	}
	return all
}

// record stores which streams are selected. The checkpoint knows nothing else about a stream that was never listed.
func (st *Streams) record(ctx context.Context, selected []change.StreamID) error {
	if st.stored != nil && slices.Equal(st.stored, selected) {
		return nil
	}
	err := st.slot.Parts.Store.RecordSelection(ctx, st.slot.Number, st.epoch, selected)
	if err == nil {
		st.stored = append([]change.StreamID{}, selected...)
	}
	return dependency.Tag(dependency.Checkpoint, err)
}

// applyAgain applies the newest selection again, because a stream's state has changed.
func (st *Streams) applyAgain(ctx context.Context) error {
	if st.newest == nil {
		return nil
	}
	return st.apply(ctx, *st.newest)
}

// send writes a control record. durable, unless nil, is called once the record is durable.
func (st *Streams) send(ctx context.Context, c change.Control, durable func(context.Context) error) error {
	return st.queue.Send(ctx, change.Item{Stream: c.Stream, Time: time.Now(), Durable: durable, Control: &c})
}

// selectStream starts a stream, unless something keeps it from being read.
func (st *Streams) selectStream(ctx context.Context, s *change.Stream) error {
	refused := st.refusals.refusalOf(s.Resource)
	switch now := st.all[s.ID()].(type) {
	case *beingRead:
		now.SetResource(&s.Resource)
	case *pausedByUser:
		st.leaveOut(s.ID(), change.StatePaused, pausedBy(now.signal))
	case refusedBySink:
	default:
		if refused != nil {
			return st.refuse(ctx, s.ID(), refused)
		}
		st.start(ctx, s, true)
	}
	return nil
}

// leaveOut reports a selected stream that is not read.
func (st *Streams) leaveOut(id change.StreamID, state change.StreamState, why error) {
	st.slot.Parts.State.StreamAdded(st.slot.Number, id, nil)
	st.slot.Parts.State.StreamState(id, state, why)
}

// start reads a stream. If its resource is no longer served, the stream's objects are deleted in the log.
func (st *Streams) start(ctx context.Context, s *change.Stream, served bool) {
	id, parts := s.ID(), st.slot.Parts
	r := &beingRead{Reflector: reflector.New(s, parts.Server.Client(), st.optionsOf(s), st.memory, st.queue, parts.State,
		parts.Logger),
		done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(ctx)
	parts.State.StreamAdded(st.slot.Number, id, r.Objects)
	st.all[id] = r
	for _, g := range st.open {
		if g.Kind == change.SignalRestore && g.Stream == id {
			r.followRestore(g)
		}
	}
	if !served {
		r.SetResource(nil)
	}
	st.wg.Go(func() {
		defer close(r.done)
		defer r.cancel()
		err := st.rules.apply(r.ctx, id)
		if err == nil {
			err = r.Run(r.ctx)
		}
		if err != nil && r.ctx.Err() == nil {
			st.fail(err)
		}
	})
}

func (st *Streams) optionsOf(s *change.Stream) reflector.Options {
	config := &st.slot.Config
	options := config.Source
	options.MetadataOnly, options.Redactor = config.MetadataOnly(s.Resource), config.Redactor(s.Resource)
	options.LostUpTo = st.lost[s.ID()]
	options.Masked, options.Restores = config.LeavesOut(s.Resource), restores{st}
	options.Stored = config.Before && !config.Content.NoUpdates && !options.MetadataOnly
	return options
}

// endUnselected ends each stream that is only in the checkpoint, if it is known why. If the sink refuses a stream, that waits,
// because the sink would not accept the record of its end.
func (st *Streams) endUnselected(ctx context.Context, selection discovery.Selection) error {
	for _, id := range slices.Sorted(maps.Keys(st.all)) {
		u, isUndecided := st.all[id].(undecided)
		if !isUndecided || st.refusals.refusalOf(change.ResourceOf(id)) != nil {
			continue
		}
		if err := st.endIfKnown(ctx, selection, u.position); err != nil {
			return err
		}
	}
	return nil
}

// LostVersions returns where the log is to be compared, for those streams that it has lost records of.
func LostVersions(ctx context.Context, store checkpoint.Overview, stored []change.Position) (
	map[change.StreamID]change.ResourceVersion, error) {
	if !slices.ContainsFunc(stored, func(p change.Position) bool { return p.ResourceVersion == change.UnknownVersion }) {
		return nil, nil
	}
	gaps, err := checkpoint.Losses(ctx, store)
	lost := map[change.StreamID]change.ResourceVersion{}
	for stream, gap := range gaps {
		lost[stream] = gap.To
	}
	return lost, dependency.Tag(dependency.Checkpoint, err)
}
