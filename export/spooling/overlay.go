package spooling

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"kubecdc/change"
	"kubecdc/export/batching"
	"kubecdc/export/inventory"
	"kubecdc/sinks"
	"kubecdc/sinks/spool"
)

// overlay is the memory of a session that writes to a spool. It reads the spool's objects from the spool, and all others from the
// inventory. The inventory may meanwhile advance over batches that the spool has. For all objects of these batches the spool has
// the newest state.
type overlay struct {
	sinks.Memory // the spool's
	spool        *spool.Spool
	inventory    *inventory.Inventory

	mu    sync.Mutex
	moved map[change.StreamID]change.Position // the end of the spool's batches
}

func newOverlay(ctx context.Context, s *spool.Spool, log sinks.Memory, stored *inventory.Inventory,
	last uint64) (*overlay, error) {
	o := &overlay{Memory: log, spool: s, inventory: stored, moved: map[change.StreamID]change.Position{}}
	positions, err := s.PositionsAt(ctx, last)
	o.move(positions)
	return o, err
}

func (o *overlay) move(positions []change.Position) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range positions {
		o.moved[p.Stream] = p
	}
}

// Positions returns the positions of all streams, except those that are left out of the spool, which are not read.
func (o *overlay) Positions(ctx context.Context) ([]change.Position, error) {
	all, err := o.inventory.Positions(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	all = slices.DeleteFunc(all, func(p change.Position) bool {
		_, moved := o.moved[p.Stream]
		return moved || slices.Contains(o.spool.LeftOut, p.Stream)
	})
	for p := range maps.Values(o.moved) {
		if p.Ended != change.EndedRemoved {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b change.Position) int { return cmp.Compare(a.Stream, b.Stream) })
	return all, err
}

func (o *overlay) Position(ctx context.Context, stream change.StreamID) (change.Position, bool, error) {
	o.mu.Lock()
	p, moved := o.moved[stream]
	o.mu.Unlock()
	if moved {
		return p, p.Ended != change.EndedRemoved, nil
	}
	return o.inventory.Position(ctx, stream)
}

func (o *overlay) Objects(ctx context.Context, stream change.StreamID,
	visit func(key, uid string, version change.ResourceVersion) error) error {
	changed := map[string]bool{}
	if err := o.spool.ChangedObjects(ctx, stream, nil, func(key string) { changed[key] = true }); err != nil {
		return err
	}
	if err := o.Memory.Objects(ctx, stream, visit); err != nil {
		return err
	}
	return o.inventory.Objects(ctx, stream, func(key, uid string, version change.ResourceVersion) error {
		if changed[key] {
			return nil
		}
		return visit(key, uid, version)
	})
}

func (o *overlay) Bodies(ctx context.Context, stream change.StreamID, keys []string,
	visit func(key string, body []byte) error) error {
	changed := map[string]bool{}
	if err := o.spool.ChangedObjects(ctx, stream, keys, func(key string) { changed[key] = true }); err != nil {
		return err
	}
	if err := o.Memory.Bodies(ctx, stream, keys, visit); err != nil {
		return err
	}
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return changed[key] })
	return o.inventory.Bodies(ctx, stream, keys, visit)
}

// Before asks the inventory for the objects that no batch of the spool has changed.
func (o *overlay) Before(ctx context.Context, changes []*change.Change, memory func(n int) []byte) error {
	if err := o.Memory.Before(ctx, changes, memory); err != nil {
		return err
	}
	keys, missing := map[change.StreamID][]string{}, map[batching.ObjectID]*change.Change{}
	for _, c := range changes {
		if c.Before == nil {
			id := batching.ObjectID{Stream: c.Stream.ID(), Key: c.Key()}
			keys[id.Stream], missing[id] = append(keys[id.Stream], id.Key), c
		}
	}
	for stream, keys := range keys {
		err := o.inventory.Bodies(ctx, stream, keys, func(key string, body []byte) error {
			missing[batching.ObjectID{Stream: stream, Key: key}].Before = bytes.Clone(body)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
