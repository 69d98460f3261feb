package export

import (
	"context"
	"sync/atomic"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
)

// readTracker passes a session's reads on to the checkpoint store, and remembers that there were reads. A database that has
// crashed, or failed over, may have forgotten batches that are in the log. A read then returns state that is older than the
// log, and what follows from it (inferred changes, before-images) must not be written. So after the last read the committer
// checks that the store still has the last batch that it has acknowledged. A later commit can't hide that a batch was forgotten,
// since each commit must follow the one before.
//
// The store may be behind the log: before positions and inventory are read, it is brought up to it. For bodies, beforeImages asks
// the checkpointer first.
type readTracker struct {
	store       checkpoint.Reader
	checkpoints *checkpointer
	writing     context.Context // of the session's commits
	log         sinks.Bodies    // has the bodies; nil: the store has them
	unchecked   atomic.Bool     // the store was read since the last check; it is set after each read, and before the result is used
}

// needsCheck reports whether the store was read since the last call.
func (r *readTracker) needsCheck() bool { return r.unchecked.Swap(false) }

// read brings the checkpoint up to the log, if that is needed, and reads there.
func (r *readTracker) read(behind bool, do func() error) error {
	err := r.follow(behind)
	if err == nil {
		err = do()
		r.unchecked.Store(true)
	}
	return dependency.Tag(dependency.Checkpoint, err)
}

func (r *readTracker) Position(ctx context.Context, stream change.StreamID) (p change.Position, stored bool, err error) {
	err = r.read(r.checkpoints.concerns(stream), func() (err error) {
		p, stored, err = r.store.Position(ctx, stream)
		return err
	})
	return p, stored, err
}

func (r *readTracker) Streams(ctx context.Context) (all []change.Position, err error) {
	err = r.read(true, func() (err error) {
		all, err = r.store.Streams(ctx)
		return err
	})
	return all, err
}

func (r *readTracker) Objects(ctx context.Context, stream change.StreamID,
	visit func(key, uid string, version change.ResourceVersion) error) error {
	return r.read(r.checkpoints.concerns(stream), func() error {
		return r.store.Inventory(ctx, stream, func(o checkpoint.Object) error {
			r.unchecked.Store(true)
			return visit(o.Key, o.UID, o.ResourceVersion)
		})
	})
}

// Last reads the bodies that the log has of objects, or will have of what is pending; of a redacted stream as they may be shown now.
func (r *readTracker) Last(ctx context.Context, stream change.StreamID, keys []string, redact bodyRedactor,
	visit func(key string, body []byte)) error {
	if r.log != nil {
		return dependency.Tag(dependency.Sink, r.log.Bodies(ctx, stream, keys, func(key string, body []byte) error {
			if redact != nil {
				body = redact(key, body)
			}
			if body != nil {
				visit(key, body)
			}
			return nil
		}))
	}
	if err := r.follow(r.checkpoints.concerns(stream)); err != nil {
		return err
	}
	return r.Bodies(ctx, stream, keys, func(key string, stored checkpoint.Body) error {
		body, err := stored.Unpack()
		if err == nil {
			visit(key, body)
		}
		return err
	})
}

func (r *readTracker) Bodies(ctx context.Context, stream change.StreamID, keys []string,
	visit func(key string, stored checkpoint.Body) error) error {
	return r.read(false, func() error { return r.store.Bodies(ctx, stream, keys, visit) })
}

// follow brings the checkpoint up to the log, if that is needed. The session's writing context limits it, not the reader's: a
// commit that is broken off ends the session.
func (r *readTracker) follow(needed bool) error {
	if !needed {
		return nil
	}
	return r.checkpoints.flush(r.writing)
}
