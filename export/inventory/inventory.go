// Package inventory is the memory of a log that is not its own memory. The checkpoint store has each stream's position, and key,
// uid, version and body of each live object. The inventory follows the log at its own pace (checkpointer.go). What it lacks after
// a crash is read back from the log (rollforward.go). If that fails, or if the log has lost something, it is rebuilt
// (reconcile.go).
//
// The package does not know what is written, and when. It gets prepared batches.
package inventory

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
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

// Settings are the settings of a slot's inventory.
type Settings struct {
	Slot       int
	Bodies     bool // store bodies, and write before-images
	CacheBytes int64
	// Interval is how often the checkpoint follows the log. 0 means with each batch, which is necessary if the log can't be read
	// back.
	Interval    time.Duration
	CommitBytes int64 // limit of one commit, while as much more may be in flight
	Owns        func(stream change.StreamID) bool
	Redactor    func(stream change.StreamID) Redactor // nil for a stream whose objects are exported completely
}

// Redactor redacts the body of an object that was exported before, perhaps with other rules. It returns nil if it can't.
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
// A database that has crashed, or failed over, may have forgotten batches that are in the log. Then a read returns an older
// state than the log's. Inferred changes and before-images that were made from it must not be written. So after the last read,
// Check verifies that the store still has the last batch that the store has acknowledged. No later commit can hide a forgotten
// batch, since each commit must follow the one before.
//
// The store may be behind the log. Before positions and objects are read, it is brought up to the log. A body that is not yet
// in the store is read from the checkpointer.
type Inventory struct {
	Settings
	Parts
	state       *checkpoint.SlotState // as of the last written batch
	content     sinks.Content
	unread      *unread
	write       Write
	checkpoints *checkpointer
	bodies      *bodies         // nil: bodies are not stored
	writing     context.Context // context of the session's commits
	unchecked   atomic.Bool     // the store was read since the last check. It is set before the result of a read is used
}

func (s *Slot) inventory(state *checkpoint.SlotState, content sinks.Content, write Write) *Inventory {
	v := &Inventory{Settings: s.Settings, Parts: s.Parts, state: state, content: content, unread: &s.unread, write: write,
		checkpoints: newCheckpointer(s.Settings, s.Parts, state.Epoch, state.Seq), writing: context.Background()}
	if s.Bodies {
		v.bodies = newBodies(v)
	}
	return v
}

// Seq returns the number of the slot's last batch.
func (v *Inventory) Seq() uint64 { return v.state.Seq }

// Pending returns for how many objects the store may not have the last state yet.
func (v *Inventory) Pending() int64 { return v.checkpoints.objects() }

// Start makes the store follow the log until the context ends, and calls fail if it can't. wait returns when it has stopped.
func (v *Inventory) Start(writing context.Context, fail context.CancelCauseFunc) (wait func()) {
	v.writing = writing
	var running sync.WaitGroup
	running.Go(func() { v.checkpoints.run(writing, fail) })
	return running.Wait
}

// Flush returns when the store has all that was written.
func (v *Inventory) Flush(ctx context.Context) error { return v.checkpoints.flush(ctx) }

// Before sets the before-images that the batch itself does not have.
func (v *Inventory) Before(ctx context.Context, p *batching.Prepared) error {
	if v.bodies == nil {
		return nil
	}
	return v.bodies.attach(ctx, p)
}

// Check returns an error if the store has forgotten something since it was read, or can't follow the log.
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

// Write makes a batch durable.
func (v *Inventory) Write(ctx context.Context, p *batching.Prepared) error {
	offsets, err := v.write(ctx, p.Batch)
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.Written)
	p.Offsets = change.Offsets{}.Merge(p.Offsets).Merge(offsets)
	return nil
}

// Remember gathers the effect of a durable batch on the store. It copies the states of objects.
func (v *Inventory) Remember(ctx context.Context, p *batching.Prepared) error {
	v.state.Seq = p.Seq
	if v.bodies == nil {
		return v.checkpoints.add(ctx, effectOf(p, false))
	}
	v.bodies.follow(p.All)
	e := effectOf(p, true)
	v.bodies.written(e.objects)
	return v.checkpoints.add(ctx, e)
}

// read brings the checkpoint up to the log, if necessary, and reads there.
func (v *Inventory) read(behind bool, do func() error) error {
	err := v.follow(behind)
	if err == nil {
		err = do()
		v.unchecked.Store(true)
	}
	return dependency.Tag(dependency.Checkpoint, err)
}

// follow brings the checkpoint up to the log, if necessary. The session's writing context limits it, not the reader's, since an
// interrupted commit ends the session.
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

// Bodies reads the bodies of objects in the log, or their pending bodies.
func (v *Inventory) Bodies(ctx context.Context, stream change.StreamID, keys []string,
	visit func(key string, body []byte) error) error {
	if err := v.follow(v.checkpoints.concerns(stream)); err != nil {
		return err
	}
	return v.stored(ctx, stream, keys, func(key string, stored checkpoint.Body) error {
		body, err := stored.Unpack()
		if err != nil {
			return err
		}
		return visit(key, body)
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
