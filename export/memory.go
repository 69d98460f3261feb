package export

import (
	"context"
	"fmt"
	"io"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/inventory"
	"kubecdc/internal/dependency"
	"kubecdc/internal/failpoint"
	"kubecdc/internal/invariant"
	"kubecdc/sinks"
)

// Memory writes a session's batches to its slot's log, and knows the log's state: each stream's position, and the living objects.
// Some logs can return that state (logMemory). For any other log, the state is stored separately (inventory.Inventory).
type Memory interface {
	// Seq is the number of the slot's last batch.
	Seq() uint64
	// Positions returns the positions of all streams.
	Positions(ctx context.Context) ([]change.Position, error)
	// Position returns a stream's position, or false if the stream is unknown.
	Position(ctx context.Context, stream change.StreamID) (change.Position, bool, error)
	// Objects calls visit for each living object of a stream.
	Objects(ctx context.Context, stream change.StreamID, visit func(key, uid string, version change.ResourceVersion) error) error
	// Bodies calls visit with the log's bodies for some keys of a stream.
	Bodies(ctx context.Context, stream change.StreamID, keys []string, visit func(key string, body []byte) error) error
	// Forget drops a stream that has ended. For any other stream it returns *checkpoint.NotEndedError.
	Forget(ctx context.Context, epoch int64, stream change.StreamID) error

	// Before sets the state before of each object's first update or deletion in a batch, valid until the batch is released.
	Before(ctx context.Context, p *batching.Prepared) error
	// Write makes the batch durable. If there is a Following, the other methods may be called meanwhile.
	Write(ctx context.Context, p *batching.Prepared) error
}

// Guard knows whether a Memory may lack something that is in the log, since its state is stored elsewhere.
type Guard interface {
	// MayBegin returns an error, which ends the session, if streams that begin may have objects that Objects would not return.
	MayBegin(ctx context.Context, streams []*change.Stream) error
	// Check returns an error if the state that the batch is based on is not the log's.
	Check(ctx context.Context, p *batching.Prepared) error
}

// Following makes the state that is stored elsewhere follow the log.
type Following interface {
	// Remember updates the state to that after a durable batch. Then the batch may be released.
	Remember(ctx context.Context, p *batching.Prepared) error
	// Flush returns when the next owner will find the state of all that was written.
	Flush(ctx context.Context) error
	// Pending is the number of objects whose last state is not stored yet.
	Pending() int64
	// Start stores the state in parallel with writing, until the context ends. It calls fail if that fails. wait returns when it
	// has stopped.
	Start(writing context.Context, fail context.CancelCauseFunc) (wait func())
}

// logMemory is the Memory of a log that can return its own state: a batch, and all that is known after it, are one write.
type logMemory struct {
	sinks.Memory
	slot  *slot
	seq   uint64
	write inventory.Write
	first []*change.Change // each object's first change in a batch
}

func (m *logMemory) Seq() uint64 { return m.seq }

// Before redacts the states in the log, because they may have been logged under earlier rules.
func (m *logMemory) Before(ctx context.Context, p *batching.Prepared) error {
	m.first = m.first[:0]
	for i := range p.All {
		if c := p.First(&p.All[i]); c != nil {
			m.first = append(m.first, c)
		}
	}
	err := m.Memory.Before(ctx, m.first, p.Blocks.Memory)
	for _, c := range m.first {
		if redact := m.slot.redactorFor(c.Stream.ID()); redact != nil && c.Before != nil {
			c.Before = redact(c.Key(), c.Before)
		}
	}
	return dependency.Tag(dependency.Sink, err)
}

func (m *logMemory) Bodies(ctx context.Context, stream change.StreamID, keys []string,
	visit func(key string, body []byte) error) error {
	redact := m.slot.Config.BodyRedactor(stream)
	return dependency.Tag(dependency.Sink, m.Memory.Bodies(ctx, stream, keys, func(key string, body []byte) error {
		if redact != nil {
			body = redact(key, body)
		}
		if body == nil {
			return nil
		}
		return visit(key, body)
	}))
}

func (m *logMemory) Write(ctx context.Context, p *batching.Prepared) error {
	p.Unwritten = p.Unwritten[:0]
	for i := range p.All {
		if o := &p.All[i]; o.LeftOut && !o.ID.Stream.IsSnapshot() {
			namespace, name := change.SplitKey(o.ID.Key)
			p.Unwritten = append(p.Unwritten, change.ObjectVersion{Stream: o.ID.Stream, Namespace: namespace, Name: name, UID: o.UID,
				ResourceVersion: o.Version})
		}
	}
	if _, err := m.write(ctx, p.Batch); err != nil {
		return err
	}
	failpoint.Hit(failpoint.Written)
	if invariant.Verified {
		m.remembered(ctx, p)
	}
	m.seq = p.Seq
	return nil
}

func (m *logMemory) Forget(ctx context.Context, epoch int64, stream change.StreamID) error {
	return m.slot.Parts.Store.Forget(ctx, m.slot.Number, epoch, stream)
}

// opened is a slot's log that is open.
type opened struct {
	Memory
	guard     Guard     // nil: Memory has all that the log has
	following Following // nil: the log remembers itself what it has
	log       io.Closer
	loss      *sinks.LostTailError // the loss to be recorded, if any
	before    []change.Position    // the positions of the slot's streams before the loss was found
	behind    []change.Control     // records of the loss, for the first batch of the spool that is forwarded
	hole      []change.Control     // records of a hole, likewise
}

// open fences the former owners in the sink, updates what is stored to match the log, and records what the log has lost.
func (s *slot) open(ctx context.Context, state *checkpoint.SlotState) (o *opened, err error) {
	return s.openWith(ctx, state, func(found *sinks.Opened, write inventory.Write) (*opened, error) {
		if found.Memory != nil {
			before, err := s.Positions(ctx, nil)
			return &opened{Memory: &logMemory{Memory: found.Memory, slot: s, seq: found.Last, write: write}, log: found.Log,
				loss: inventory.Concerning(found.Lost, before), before: before}, dependency.Tag(dependency.Sink, err)
		}
		v, loss, before, err := s.inventory.Open(ctx, state, found, write)
		return &opened{Memory: v, guard: v, following: v, log: found.Log, loss: loss, before: before}, err
	})
}

func (s *slot) openWith(ctx context.Context, state *checkpoint.SlotState, remember func(*sinks.Opened, inventory.Write) (*opened, error)) (
	*opened, error) {
	var found *sinks.Opened
	err := s.Parts.SinkReach.Call(s.Number, func() (err error) {
		found, err = s.Parts.Sink.Open(ctx, s.Number, state.Epoch, sinks.Durable{Seq: state.Seq, Offsets: state.Offsets, New: state.New})
		return err
	})
	if err != nil {
		return nil, dependency.Tag(dependency.Sink, err)
	}
	o, err := remember(found, s.writeTo(found.Log))
	switch {
	case err != nil:
	case o.loss != nil && s.spool != nil:
		err = s.loseBeforeSpool(ctx, state, o)
	case o.loss != nil:
		err = s.recordLoss(ctx, state, o)
	case found.Hole != nil:
		s.Logger.Error("the log has a hole: gap records explain it", "reason", found.Hole.Reason)
		if o.hole = found.Hole.Records(); s.spool == nil {
			err = s.writeControls(ctx, state, o, o.hole, nil, nil)
		}
	case found.Passed > maxPassed && s.spool == nil:
		err = s.writeControls(ctx, state, o, nil, nil, nil)
	}
	if err != nil {
		found.Log.Close()
		return nil, err
	}
	return o, nil
}

// maxPassed is how many records of other slots the next owner may have to read again. A slot that has no stream writes no batch
// by itself, and would otherwise read all that others have written, at each start.
const maxPassed = 1000

// unhurried is set in a context if nobody waits for a batch that is written with it.
type unhurried struct{}

// writeTo writes batches to the slot's log, and watches whether the sink answers.
func (s *slot) writeTo(log sinks.Log) inventory.Write {
	return func(ctx context.Context, b *change.Batch) (offsets change.Offsets, err error) {
		what := fmt.Sprintf("batch %d of slot %d", b.Seq, b.Slot)
		if s.Parts.Spools != nil && ctx.Value(unhurried{}) == nil {
			var cancel context.CancelFunc
			var giveUp context.CancelCauseFunc
			ctx, cancel = context.WithTimeoutCause(ctx, awayAfter, errSinkSilent)
			defer cancel()
			ctx, giveUp = context.WithCancelCause(ctx)
			defer giveUp(nil)
			defer s.endWriting()
			if err := s.startWriting(); err != nil {
				return nil, err
			}
			s.sink = sending(b)
			written := s.spoolEarly(ctx, b, giveUp)
			defer func() {
				if written(err); err == nil {
					s.sink = acked(b)
				}
			}()
		}
		err = s.Parts.Watchdog.Do(dependency.Sink, what, func() error {
			return s.Parts.SinkReach.Call(s.Number, func() (err error) {
				offsets, err = log.Write(ctx, b)
				return err
			})
		})
		return offsets, err
	}
}
