package commit

import (
	"context"
	"io"

	"kubecdc/change"
	"kubecdc/export/batching"
	"kubecdc/export/inventory"
	"kubecdc/export/plan"
	"kubecdc/internal/dependency"
	"kubecdc/internal/failpoint"
	"kubecdc/internal/invariant"
	"kubecdc/sinks"
)

// Memory writes a session's batches to its slot's log, and knows the log's state: each stream's position, and the living objects.
// Some logs can return that state (LogMemory). For any other log, the state is stored separately (inventory.Inventory).
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
	// Write makes the batch durable. The other methods may be called during Write if the Memory has a Following.
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

// HeldBackError delays the begin of a stream, since only the sink knows whether the log has objects of it.
type HeldBackError struct{}

func (HeldBackError) Error() string {
	return "the stream begins when the sink has all batches of the spool, since the log may have objects of the stream"
}

// LogMemory is the Memory of a log that can return its own state. One write contains a batch and the complete state after it.
type LogMemory struct {
	sinks.Memory
	slot        *plan.Slot
	seq         uint64
	write       inventory.Write
	redactorFor func(stream change.StreamID) inventory.Redactor
	first       []*change.Change // each object's first change in a batch
}

// NewLogMemory returns the memory of a log that ends with batch seq.
func NewLogMemory(slot *plan.Slot, log sinks.Memory, seq uint64, write inventory.Write) *LogMemory {
	return &LogMemory{Memory: log, slot: slot, seq: seq, write: write, redactorFor: plan.Cached(slot.Config.BodyRedactor)}
}

func (m *LogMemory) Seq() uint64 { return m.seq }

// Before redacts the states in the log, because they may have been logged under earlier rules.
func (m *LogMemory) Before(ctx context.Context, p *batching.Prepared) error {
	m.first = m.first[:0]
	for i := range p.All {
		if c := p.First(&p.All[i]); c != nil {
			m.first = append(m.first, c)
		}
	}
	err := m.Memory.Before(ctx, m.first, p.Blocks.Memory)
	for _, c := range m.first {
		if redact := m.redactorFor(c.Stream.ID()); redact != nil && c.Before != nil {
			c.Before = redact(c.Key(), c.Before)
		}
	}
	return dependency.Tag(dependency.Sink, err)
}

func (m *LogMemory) Bodies(ctx context.Context, stream change.StreamID, keys []string,
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

func (m *LogMemory) Write(ctx context.Context, p *batching.Prepared) error {
	p.Unwritten = p.Unwritten[:0]
	for i := range p.All {
		if o := &p.All[i]; o.LeftOut && !o.ID.Stream.IsSnapshot() {
			namespace, name := change.SplitKey(o.ID.Key)
			p.Unwritten = append(p.Unwritten, change.ObjectVersion{Stream: o.ID.Stream, Namespace: namespace, Name: name,
				UID:             o.UID,
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

func (m *LogMemory) Forget(ctx context.Context, epoch int64, stream change.StreamID) error {
	return m.slot.Parts.Store.Forget(ctx, m.slot.Number, epoch, stream)
}

// Opened is a slot's log that is open, and what it was found to lack.
type Opened struct {
	Memory
	Guard     Guard     // nil: Memory has all that the log has
	Following Following // nil: the log is its own memory
	Log       io.Closer
	Loss      *sinks.LostTailError // the loss to be recorded, if any
	Had       []change.Position    // the positions of the slot's streams before the loss was found
	Behind    []change.Control     // records of the loss, for the first batch of the spool that is forwarded
	Hole      []change.Control     // records of a hole, likewise
}
