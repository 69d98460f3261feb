package export

import (
	"context"
	"sync/atomic"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/dependency"
)

// reads shows a checkpoint store to the streams of a session, and remembers that they read it. A database that crashed,
// or failed over, may have forgotten batches that are in the log. What is read from it then is older than the log, and
// what follows from that (changes that a comparison finds, before-images) must not be written: the committer checks
// once more, after the last read, that the store still has the last batch. No later commit can hide that it forgot one,
// since each must follow the one before.
type reads struct {
	store checkpoint.Reader
	any   atomic.Bool // since the committer last checked
}

// note comes after each read, and before what was read is used.
func (r *reads) note() {
	if !r.any.Load() {
		r.any.Store(true)
	}
}

// unchecked says, once, whether anything was read.
func (r *reads) unchecked() bool { return r.any.Load() && r.any.Swap(false) }

func (r *reads) Position(ctx context.Context, stream change.StreamID) (change.Position, bool, error) {
	p, ok, err := r.store.Position(ctx, stream)
	r.note()
	return p, ok, dependency.Tag(dependency.Checkpoint, err)
}

func (r *reads) Streams(ctx context.Context) ([]change.Position, error) {
	all, err := r.store.Streams(ctx)
	r.note()
	return all, dependency.Tag(dependency.Checkpoint, err)
}

func (r *reads) Objects(ctx context.Context, stream change.StreamID, visit func(key, uid string, version change.ResourceVersion) error) error {
	err := r.store.Inventory(ctx, stream, func(o checkpoint.Object) error {
		r.note()
		return visit(o.Key, o.UID, o.ResourceVersion)
	})
	r.note()
	return err
}

func (r *reads) Bodies(ctx context.Context, stream change.StreamID, keys []string) (map[string][]byte, error) {
	found, err := r.store.Bodies(ctx, stream, keys)
	r.note()
	return found, err
}
