package inventory

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
)

// bodies sets the before-images of changes. It caches the bodies of objects that change often, up to CacheBytes, and the
// checkpoint gets these later (body.go). Other bodies are read from the store, with one query per stream and batch, and are
// stored as they change.
//
// A body passes the stream's redactor again. That changes nothing, unless the database has forgotten that the body was redacted.
type bodies struct {
	*Inventory
	cache   *simplelru.LRU[batching.ObjectID, *body]
	bytes   int64
	changed [256][8]uint64 // hashes of changed objects, each in its set, the last one first
}

func newBodies(v *Inventory) *bodies {
	b := &bodies{Inventory: v}
	b.cache, _ = simplelru.NewLRU(1<<20, func(_ batching.ObjectID, o *body) { b.bytes -= o.size })
	return b
}

// attach sets the before-image of each object's first update or delete in the batch. It is valid until the batch is released.
// Other before-images come from the batch itself (batching.Prepared.LeaveOut).
func (b *bodies) attach(ctx context.Context, p *batching.Prepared) error {
	keys := map[change.StreamID][]string{}
	for i := range p.All {
		o, id := &p.All[i], p.All[i].ID
		c := p.First(o)
		if c == nil {
			continue
		}
		switch held, pending, ok := b.held(id); {
		case !ok:
			keys[id.Stream] = append(keys[id.Stream], id.Key)
		case held != nil:
			o.Found, c.Before = held, held.state
		case pending.KeepsBase():
			keys[id.Stream], o.Found = append(keys[id.Stream], id.Key), &body{delta: pending.Delta}
		case !pending.IsZero():
			if err := b.find(p, i, pending); err != nil {
				return err
			}
		}
	}
	for stream, keys := range keys {
		if err := b.load(ctx, p, stream, keys); err != nil {
			return fmt.Errorf("read %d before-images of %s: %w", len(keys), stream, err)
		}
	}
	return nil
}

// held returns the body of an object that is cached, or is pending for the checkpoint. A pending body may be packed.
func (b *bodies) held(id batching.ObjectID) (held *body, packed checkpoint.Body, ok bool) {
	if cached, ok := b.cache.Get(id); ok {
		return cached, packed, true
	}
	pending, ok := b.checkpoints.object(id)
	return pending.body, pending.Body, ok
}

// load reads the bodies of objects from the checkpoint, and sets their before-images.
func (b *bodies) load(ctx context.Context, p *batching.Prepared, stream change.StreamID, keys []string) error {
	redact := b.Redactor(stream)
	return b.stored(ctx, stream, keys, func(key string, stored checkpoint.Body) error {
		n := p.Number(batching.ObjectID{Stream: stream, Key: key})
		if pending, ok := p.All[n].Found.(*body); ok {
			stored.Delta = pending.delta
		}
		if err := b.find(p, n, stored); err != nil {
			return fmt.Errorf("body: %q: %w", key, err)
		}
		if redact == nil {
			return nil
		}
		first := &p.Changes[p.All[n].First]
		if redacted := redact(key, first.Before); !bytes.Equal(redacted, first.Before) {
			// the object also gets a new base
			first.Before, p.All[n].Found = redacted, &body{asked: true, often: p.All[n].Found.(*body).often}
		}
		return nil
	})
}

// find sets the before-image of an object in the batch from its stored or pending body. While the base is unpacked and in the
// processor's cache, it also makes what to store for the object's state after the batch. Only an object that is cached, or that
// changes several times, needs the base later.
func (b *bodies) find(p *batching.Prepared, n int, stored checkpoint.Body) (err error) {
	o, found := &p.All[n], &body{asked: true}
	if found.often = b.often(o.ID); !found.often && o.First == o.Last {
		found.next = p.Changes[o.Last].After
	}
	if found.state, found.updated, err = stored.UnpackBefore(p.Blocks.Memory, found.next); err != nil {
		return err
	}
	found.delta = append(p.Blocks.Memory(len(stored.Delta)), stored.Delta...)
	if found.next == nil {
		found.base = append(p.Blocks.Memory(len(stored.Base)), stored.Base...)
	}
	p.Changes[o.First].Before, o.Found = found.state, found
	return nil
}

// follow finds the bodies of objects whose before-images are from the batch before, which is remembered by now. If only the store
// has the base of a body, it gets a new one.
func (b *bodies) follow(all []batching.Object) {
	for i := range all {
		o := &all[i]
		if !o.Follows {
			continue
		}
		if held, pending, _ := b.held(o.ID); held != nil {
			o.Found = held
		} else if pending.Base != nil {
			o.Found = &body{base: pending.Base}
		}
	}
}

// written takes the last states of a durable batch's objects. It caches objects that change often. Other states are packed. If
// all updates of an object were left out, its state is its before-image.
func (b *bodies) written(objects []objectState) {
	for i := range objects {
		o, id := &objects[i], objects[i].id()
		switch {
		case o.state == nil:
			b.cache.Remove(id)
		case b.isHot(id, o.body):
			o.body = b.put(id, o.body, len(o.state))
		}
	}
	for i := range objects {
		o := &objects[i]
		switch {
		case o.state == nil:
			o.body = nil
		case o.body != nil && o.body.deferred || b.cache.Contains(o.id()):
			o.body.deferred = true
		default:
			o.Body = o.body.update(o.state)
			o.body, o.state = nil, nil
		}
	}
}

// isHot reports whether to cache an object.
func (b *bodies) isHot(id batching.ObjectID, o *body) bool {
	switch {
	case b.cache.Contains(id), o != nil && o.deferred:
		return true
	case o != nil && o.asked:
		return o.often
	}
	return b.often(id)
}

// often records a change of an object. It reports whether the object's last change is still recorded, and not replaced by other
// objects of the same set. So objects that change once push nothing out of the cache.
func (b *bodies) often(id batching.ObjectID) bool {
	hash := maphash.Comparable(objectSeed, id)
	set := b.changed[hash%uint64(len(b.changed))][:]
	i := slices.Index(set, hash)
	known := i >= 0
	if !known {
		i = len(set) - 1
	}
	copy(set[1:i+1], set)
	set[0] = hash
	return known
}

var objectSeed = maphash.MakeSeed()

// put caches an object whose new state has n bytes.
func (b *bodies) put(id batching.ObjectID, o *body, n int) *body {
	if o == nil {
		o = &body{}
	}
	if !o.deferred {
		o.base = bytes.Clone(o.base)
		o.baseBytes.Store(int64(len(o.base)))
	}
	if old, ok := b.cache.Peek(id); ok {
		b.bytes -= old.size
	}
	o.size = int64(len(id.Stream)+len(id.Key)+n) + o.baseBytes.Load()
	b.cache.Add(id, o)
	b.bytes += o.size
	for b.bytes > b.CacheBytes && b.cache.Len() > 0 {
		b.cache.RemoveOldest()
	}
	return o
}
