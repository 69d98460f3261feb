// Package inventory is the memory beside a log that does not remember itself what it has: the checkpoint store has the position of each
// stream, and key, uid, version and body of each object that lives. It follows the log at its own pace (checkpointer.go). What it lacks
// after a crash is read back from the log (rollforward.go); if that can't be done, or the log has lost something, it is rebuilt
// (reconcile.go).
//
// The package does not know what is written, and when: it gets batches that are prepared.
package inventory

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/live"
	"kubecdc/internal/dependency"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks"
)

// Settings of a slot's inventory.
type Settings struct {
	Slot       int
	Bodies     bool // are stored, and states before are written
	CacheBytes int64
	// Interval is how often the checkpoint follows the log; 0: with each batch, as it must where the log can't be read back.
	Interval    time.Duration
	CommitBytes int64 // of one commit, and a batch more; as much may be in flight while as much is pending
	Owns        func(stream change.StreamID) bool
	Redactor    func(stream change.StreamID) Redactor // nil for a stream whose objects are exported in full
}

// Redactor redacts the body of an object that was exported before, maybe by other rules. It returns nil if it can't.
type Redactor = func(key string, body []byte) []byte

// Parts are what an inventory works with.
type Parts struct {
	Store    checkpoint.Store
	State    *live.Exporter
	Watchdog *dependency.Watchdog
	Logger   *slog.Logger
}

// Write writes a batch to the sink.
type Write = func(context.Context, *change.Batch) (change.Offsets, error)

// Inventory is a slot's memory for one session.
//
// A database that has crashed, or failed over, may have forgotten batches that are in the log. A read then returns state that is older than
// the log, and what follows from it (inferred changes, before-images) must not be written. So after the last read Check finds out whether the
// store still has the last batch that it has acknowledged. A later commit can't hide that a batch was forgotten, since each commit must
// follow the one before.
//
// The store may be behind the log: before positions and objects are read, it is brought up to it. For a body, bodies asks the checkpointer
// first.
type Inventory struct {
	Settings
	Parts
	state       *checkpoint.SlotState // as of the last batch that is written
	content     sinks.Content
	unread      *unread
	write       Write
	checkpoints *checkpointer
	bodies      *bodies         // nil: none are stored
	writing     context.Context // of the session's commits
	unchecked   atomic.Bool     // the store was read since the last check; it is set after each read, and before the result is used
}

func (s *Slot) inventory(state *checkpoint.SlotState, content sinks.Content, write Write) *Inventory {
	v := &Inventory{Settings: s.Settings, Parts: s.Parts, state: state, content: content, unread: &s.unread, write: write,
		checkpoints: newCheckpointer(s.Settings, s.Parts, state.Epoch, state.Seq), writing: context.Background()}
	if s.Bodies {
		v.bodies = newBodies(v)
	}
	return v
}

// Seq is the number of the slot's last batch.
func (v *Inventory) Seq() uint64 { return v.state.Seq }

// Pending is how many objects the store may not have yet in their last state.
func (v *Inventory) Pending() int64 { return v.checkpoints.objects() }

// Start makes the store follow the log until the context ends. It calls fail if it can't, and closes what it returns when it has stopped.
func (v *Inventory) Start(writing context.Context, fail context.CancelCauseFunc) <-chan struct{} {
	v.writing = writing
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		v.checkpoints.run(writing, fail)
	}()
	return stopped
}

// Flush returns when the store has all that was written.
func (v *Inventory) Flush(ctx context.Context) error { return v.checkpoints.flush(ctx) }

// Before sets the states before that the batch does not have itself.
func (v *Inventory) Before(ctx context.Context, p *batching.Prepared) error {
	if v.bodies == nil {
		return nil
	}
	return v.bodies.attach(ctx, p)
}

// Check returns an error if the store has forgotten something since it was read, or can't follow.
func (v *Inventory) Check(ctx context.Context, p *batching.Prepared) error {
	if v.needsCheck() {
		what := fmt.Sprintf("the check before batch %d of slot %d", p.Seq, v.Slot)
		err := v.Watchdog.Do(dependency.Checkpoint, what, func() error {
			seq, _ := v.checkpoints.committed()
			return v.Store.Check(ctx, v.Slot, p.Epoch, seq)
		})
		if err != nil {
			return err
		}
	}
	_, err := v.checkpoints.committed()
	return err
}

// needsCheck reports whether the store was read since the last call.
func (v *Inventory) needsCheck() bool { return v.unchecked.Swap(false) }

// Write makes a batch durable, and gathers what it does to the store.
func (v *Inventory) Write(ctx context.Context, p *batching.Prepared) error {
	offsets, err := v.write(ctx, p.Batch)
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.Written)
	v.state.Seq, p.Offsets = p.Seq, change.Offsets{}.Merge(p.Offsets).Merge(offsets)
	p.Written()
	if v.bodies == nil {
		return v.checkpoints.add(ctx, effectOf(p, false, nil))
	}
	e := effectOf(p, true, v.bodies.found)
	v.bodies.written(e.objects)
	return v.checkpoints.add(ctx, e)
}

// read brings the checkpoint up to the log, if that is needed, and reads there.
func (v *Inventory) read(behind bool, do func() error) error {
	err := v.follow(behind)
	if err == nil {
		err = do()
		v.unchecked.Store(true)
	}
	return dependency.Tag(dependency.Checkpoint, err)
}

// follow brings the checkpoint up to the log, if that is needed. The session's writing context limits it, not the reader's: a
// commit that is broken off ends the session.
func (v *Inventory) follow(needed bool) error {
	if !needed {
		return nil
	}
	return v.checkpoints.flush(v.writing)
}

func (v *Inventory) Position(ctx context.Context, stream change.StreamID) (p change.Position, known bool, err error) {
	err = v.read(v.checkpoints.concerns(stream), func() (err error) {
		p, known, err = v.Store.Position(ctx, stream)
		return err
	})
	return p, known, err
}

func (v *Inventory) Positions(ctx context.Context) (all []change.Position, err error) {
	err = v.read(true, func() (err error) {
		all, err = v.Store.Streams(ctx)
		return err
	})
	return all, err
}

func (v *Inventory) Objects(ctx context.Context, stream change.StreamID,
	visit func(key, uid string, version change.ResourceVersion) error) error {
	return v.read(v.checkpoints.concerns(stream), func() error {
		return v.Store.Inventory(ctx, stream, func(o checkpoint.Object) error {
			v.unchecked.Store(true)
			return visit(o.Key, o.UID, o.ResourceVersion)
		})
	})
}

// Bodies reads the bodies that the log has of objects, or will have of what is pending.
func (v *Inventory) Bodies(ctx context.Context, stream change.StreamID, keys []string, visit func(key string, body []byte)) error {
	if err := v.follow(v.checkpoints.concerns(stream)); err != nil {
		return err
	}
	return v.stored(ctx, stream, keys, func(key string, stored checkpoint.Body) error {
		body, err := stored.Unpack()
		if err == nil {
			visit(key, body)
		}
		return err
	})
}

func (v *Inventory) stored(ctx context.Context, stream change.StreamID, keys []string,
	visit func(key string, stored checkpoint.Body) error) error {
	return v.read(false, func() error { return v.Store.Bodies(ctx, stream, keys, visit) })
}

// Forget drops a stream that has ended.
func (v *Inventory) Forget(ctx context.Context, epoch int64, stream change.StreamID) error {
	err := v.follow(true)
	if err == nil {
		err = v.Store.Forget(ctx, v.Slot, epoch, stream)
	}
	if err == nil {
		delete(v.unread.readBack, stream)
	}
	return err
}
