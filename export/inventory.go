package export

import (
	"context"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// inventory shows a checkpoint store to the streams.
type inventory struct{ store checkpoint.Store }

func (i inventory) Position(ctx context.Context, stream string) (change.Position, bool, error) {
	p, ok, err := i.store.Position(ctx, stream)
	return p, ok, in(PartCheckpoint, err)
}

func (i inventory) Objects(ctx context.Context, stream string, visit func(key, uid, version string) error) error {
	return i.store.Inventory(ctx, stream, func(o checkpoint.Object) error {
		return visit(o.Key, o.UID, o.ResourceVersion)
	})
}
