package export

import (
	"context"
	"sync/atomic"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/dependency"
)

// readTracker passes a session's reads on to the checkpoint store, and remembers that there were reads. A database that has
// crashed, or failed over, may have forgotten batches that are in the log. A read then returns state that is older than the
// log, and what follows from it (inferred changes, before-images) must not be written. So after the last read the committer
// checks that the store still has the last batch. A later commit can't hide that a batch was forgotten, since each commit
// must follow the one before.
type readTracker struct {
	store     checkpoint.Reader
	unchecked atomic.Bool // the store was read since the last check
}

// markRead is called after each read, and before the result is used.
func (r *readTracker) markRead() {
	if !r.unchecked.Load() {
		r.unchecked.Store(true)
	}
}

// needsCheck reports whether the store was read since the last call.
func (r *readTracker) needsCheck() bool { return r.unchecked.Load() && r.unchecked.Swap(false) }

func (r *readTracker) Position(ctx context.Context, stream change.StreamID) (change.Position, bool, error) {
	p, ok, err := r.store.Position(ctx, stream)
	r.markRead()
	return p, ok, dependency.Tag(dependency.Checkpoint, err)
}

func (r *readTracker) Streams(ctx context.Context) ([]change.Position, error) {
	all, err := r.store.Streams(ctx)
	r.markRead()
	return all, dependency.Tag(dependency.Checkpoint, err)
}

func (r *readTracker) Objects(ctx context.Context, stream change.StreamID,
	visit func(key, uid string, version change.ResourceVersion, lost bool) error) error {
	err := r.store.Inventory(ctx, stream, func(o checkpoint.Object) error {
		r.markRead()
		return visit(o.Key, o.UID, o.ResourceVersion, o.Lost)
	})
	r.markRead()
	return err
}

func (r *readTracker) Bodies(ctx context.Context, stream change.StreamID, keys []string,
	visit func(key string, body checkpoint.Body) error) error {
	err := r.store.Bodies(ctx, stream, keys, visit)
	r.markRead()
	return err
}
